// Package sockettest is a service for the tests of realtime providers: a script that
// talks over a WebSocket, and is strict about what it is told. Its network is in
// memory, so that it can be used under testing/synctest; Loopback has a real one.
package sockettest

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
)

// Patience is how long a Peer waits for what it expects.
const Patience = 5 * time.Second

// Server runs a script for each connection.
type Server struct {
	// URL is a base for addresses, ws://….
	URL string
	// Transport reaches the server.
	Transport http.RoundTripper

	t       testing.TB
	stop    chan struct{}
	mu      sync.Mutex
	open    int
	dialled int
	peers   []*Peer
	scripts sync.WaitGroup
}

// finish ends the scripts that still run, and waits for them.
func (s *Server) finish() {
	s.mu.Lock()
	close(s.stop)
	peers := s.peers
	s.mu.Unlock()
	for _, p := range peers {
		p.drop()
	}
	s.scripts.Wait()
}

// Serve starts a server on a network in memory, until the test's end.
func Serve(t testing.TB, script func(*Peer)) *Server {
	t.Helper()
	network := &network{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &Server{URL: "ws://service.test", t: t, stop: make(chan struct{})}
	server := &http.Server{Handler: s.handler(script)}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(network) })
	transport := &http.Transport{DialContext: network.dial, DisableKeepAlives: true}
	s.Transport = transport
	t.Cleanup(func() {
		s.finish()
		_ = server.Close()
		transport.CloseIdleConnections()
		done.Wait()
	})
	return s
}

// Loopback is Serve on 127.0.0.1.
func Loopback(t testing.TB, script func(*Peer)) *Server {
	t.Helper()
	s := &Server{t: t, stop: make(chan struct{})}
	server := httptest.NewServer(s.handler(script))
	s.URL = "ws" + strings.TrimPrefix(server.URL, "http")
	transport := &http.Transport{DisableKeepAlives: true}
	s.Transport = transport
	t.Cleanup(func() {
		s.finish()
		server.Close()
	})
	return s
}

// Open is how many connections there are at this moment.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Dialled is how many connections were asked for.
func (s *Server) Dialled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dialled
}

func (s *Server) handler(script func(*Peer)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 50 { // a connection that has just been closed needs a moment to be gone
			if s.Open() == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		s.mu.Lock()
		s.dialled++
		p := &Peer{T: s.t, Request: r, Number: s.dialled, Others: s.open, Stop: s.stop, w: w}
		s.open++
		s.peers = append(s.peers, p)
		s.scripts.Add(1)
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.open--
			s.mu.Unlock()
			s.scripts.Done()
		}()
		done := make(chan struct{})
		go func() { // a script may end itself by Goexit, which a handler must not
			defer close(done)
			defer p.drop()
			script(p)
		}()
		<-done
	})
}

// Peer is the service's side of one connection.
type Peer struct {
	T       testing.TB
	Request *http.Request
	// Number counts the connections from 1, Others is how many were open already.
	Number, Others int
	// Stop is closed at the end of the test.
	Stop <-chan struct{}

	w    http.ResponseWriter
	mu   sync.Mutex
	conn *websocket.Conn
}

// Refuse answers the handshake with an HTTP status and a body.
func (p *Peer) Refuse(status int, body string) {
	p.w.WriteHeader(status)
	_, _ = p.w.Write([]byte(body))
}

// Redirect answers the handshake by sending the client elsewhere.
func (p *Peer) Redirect(url string) { http.Redirect(p.w, p.Request, url, http.StatusFound) }

// Raw does the handshake by hand, for scripts that break the protocol below it.
func (p *Peer) Raw() net.Conn {
	conn, _, err := http.NewResponseController(p.w).Hijack()
	if err != nil {
		p.Fail("hijacking: %v", err)
	}
	sum := sha1.Sum([]byte(p.Request.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	if err != nil {
		p.Fail("the handshake: %v", err)
	}
	return conn
}

// ReadFrame reads one short frame of a connection made by Raw: its kind (RFC 6455,
// section 5.2) and what it holds.
func ReadFrame(r io.Reader) (opcode byte, payload []byte, err error) {
	var head [6]byte // clients mask what they send
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	payload = make([]byte, head[1]&0x7f)
	if len(payload) > 125 {
		return 0, nil, errors.New("sockettest: a long frame")
	}
	_, err = io.ReadFull(r, payload)
	for i := range payload {
		payload[i] ^= head[2+i%4]
	}
	return head[0] & 0xf, payload, err
}

// Accept does the handshake.
func (p *Peer) Accept() {
	conn, err := websocket.Accept(p.w, p.Request, nil)
	if err != nil {
		p.Fail("the handshake: %v", err)
	}
	conn.SetReadLimit(1 << 24)
	p.mu.Lock()
	p.conn = conn
	p.mu.Unlock()
	select {
	case <-p.Stop:
		p.drop() // the test has ended meanwhile
	default:
	}
}

// Fail reports an error and ends the script.
func (p *Peer) Fail(format string, a ...any) {
	p.T.Helper()
	p.T.Errorf(format, a...)
	runtime.Goexit()
}

// Send sends texts as they are, each as one message.
func (p *Peer) Send(messages ...string) {
	p.T.Helper()
	for _, m := range messages {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		err := p.conn.Write(ctx, websocket.MessageText, []byte(m))
		cancel()
		if err != nil {
			p.Fail("sending %.80s: %v", m, err)
		}
	}
}

// TrySend sends a text and says whether it left.
func (p *Peer) TrySend(message string) bool {
	return p.conn.Write(context.Background(), websocket.MessageText, []byte(message)) == nil
}

// SendBinary is Send in a binary message.
func (p *Peer) SendBinary(message string) {
	p.T.Helper()
	if err := p.conn.Write(context.Background(), websocket.MessageBinary, []byte(message)); err != nil {
		p.Fail("sending %.80s: %v", message, err)
	}
}

// TryRead is the next message, whatever it is.
func (p *Peer) TryRead() ([]byte, error) {
	_, message, err := p.conn.Read(context.Background())
	return message, err
}

// ReadAny is the next message with its kind, "text" or "binary".
func (p *Peer) ReadAny() (kind string, message []byte, err error) {
	k, message, err := p.conn.Read(context.Background())
	if kind = "text"; k == websocket.MessageBinary {
		kind = "binary"
	}
	return kind, message, err
}

// Read is the next message, which must be a JSON object.
func (p *Peer) Read() map[string]any {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	_, message, err := p.conn.Read(ctx)
	if err != nil {
		p.Fail("waiting for a message: %v", err)
	}
	var v map[string]any
	if err := json.Unmarshal(message, &v); err != nil {
		p.Fail("%.200s is no JSON object: %v", message, err)
	}
	return v
}

// Expect reads the messages that must come next, and compares their JSON to the last
// member. "event_id" may be left out; its value is then not looked at.
func (p *Peer) Expect(messages ...string) {
	p.T.Helper()
	for _, m := range messages {
		var want map[string]any
		if err := json.Unmarshal([]byte(m), &want); err != nil {
			p.Fail("the test's own %s is no JSON: %v", m, err)
		}
		got := p.Read()
		if _, named := want["event_id"]; !named {
			delete(got, "event_id")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			p.Fail("unexpected message (-want +got):\n%s", diff)
		}
	}
}

// ExpectClose waits until the other side closes the connection as it should: by a
// closing handshake with the code 1000, and without another message.
func (p *Peer) ExpectClose() {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	_, message, err := p.conn.Read(ctx)
	switch {
	case err == nil:
		p.Fail("a message instead of the end: %.300s", message)
	case websocket.CloseStatus(err) != websocket.StatusNormalClosure:
		p.Fail("the connection ended by %v", err)
	}
}

// Wait waits until the connection is gone, whatever else comes, but not for long.
func (p *Peer) Wait() {
	for {
		if _, _, err := p.conn.Read(context.Background()); err != nil {
			return
		}
	}
}

// Stay takes nothing, for as long as the test lasts.
func (p *Peer) Stay() { <-p.Stop }

// Sleep is time.Sleep that ends with the test.
func (p *Peer) Sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.Stop:
	}
}

// Close closes the connection with a code and a reason.
func (p *Peer) Close(code int, reason string) { _ = p.conn.Close(websocket.StatusCode(code), reason) }

// Drop ends the connection without a closing handshake.
func (p *Peer) Drop() { p.drop() }

func (p *Peer) drop() {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		_ = conn.CloseNow()
	}
}

// network is one in memory.
type network struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case n.conns <- theirs:
		return ours, nil
	case <-n.closed:
		return nil, errors.New("the network is down")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (n *network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr implements net.Listener.
func (n *network) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
