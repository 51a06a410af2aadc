package torture_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/sip"
	"parley/sip/torture"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long what must come is waited for, quiet how long what must not.
const (
	patience = 5 * time.Second
	quiet    = 150 * time.Millisecond
)

// answers is a handler that takes every call but those to "busy".
type answers struct{}

func (answers) Offer(b []byte) ([]byte, *sip.RejectError) { return b, nil }
func (answers) MakeOffer() []byte                         { return nil }
func (answers) Answer([]byte) error                       { return nil }
func (answers) Info(string, []byte) bool                  { return false }

// serve starts a server and returns its UDP and its TCP address.
func serve(t *testing.T) (s *sip.Server, udp, tcp netip.AddrPort) {
	t.Helper()
	cfg := sip.DefaultConfig()
	cfg.Listen = []sip.Listener{{Network: "udp", Addr: "127.0.0.1:0"}, {Network: "tcp", Addr: "127.0.0.1:0"}}
	s, err := sip.NewServer(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- s.Serve(ctx, func(_ context.Context, inv *sip.Invite) {
			if inv.RequestURI().User == "busy" {
				inv.Reject(&sip.RejectError{Code: 486, Rule: "test"})
				return
			}
			inv.Answer([]byte("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4002 RTP/AVP 0\r\n"), answers{})
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, s.Addrs()[0].Addr, s.Addrs()[1].Addr
}

// wire is one end of a path to the server.
type wire struct {
	t    *testing.T
	conn net.Conn
	rd   *bufio.Reader // over TCP
}

func dial(t *testing.T, network string, to netip.AddrPort) *wire {
	t.Helper()
	conn, err := net.Dial(network, to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	w := &wire{t: t, conn: conn}
	if network == "tcp" {
		w.rd = bufio.NewReader(conn)
	}
	return w
}

// status reads the next message: its status, and its Call-ID. 0: none comes in
// time; -1: the connection has ended.
func (w *wire) status(d time.Duration) (code int, callID string) {
	w.t.Helper()
	w.conn.SetReadDeadline(time.Now().Add(d))
	var text string
	if w.rd == nil {
		b := make([]byte, 65535)
		n, err := w.conn.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, ""
		}
		if err != nil {
			w.t.Fatal(err)
		}
		text = string(b[:n])
	} else {
		for !strings.HasSuffix(text, "\r\n\r\n") {
			line, err := w.rd.ReadString('\n')
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return 0, ""
			}
			if err != nil {
				return -1, ""
			}
			text += line
		}
	}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok && w.rd != nil && strings.EqualFold(name, "Content-Length") {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			io.CopyN(io.Discard, w.rd, int64(n))
		} else if ok && strings.EqualFold(name, "Call-ID") {
			callID = strings.TrimSpace(value)
		}
	}
	code, err := strconv.Atoi(strings.Fields(text)[1])
	if err != nil {
		w.t.Fatalf("no response:\n%s", text)
	}
	return code, callID
}

// final is status, past provisional responses.
func (w *wire) final(d time.Duration) (code int, callID string) {
	w.t.Helper()
	for {
		if code, callID = w.status(d); code < 100 || code >= 200 {
			return code, callID
		}
	}
}

// Every valid message is taken, every invalid one gets the answer that the RFC
// names, over both transports; and the server lives.
func TestMessages(t *testing.T) {
	all, err := torture.Messages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("%d messages", len(all))
	}
	s, udp, tcp := serve(t)
	for _, m := range all {
		for _, over := range []struct {
			network string
			to      netip.AddrPort
			want    torture.Answer
		}{{"udp", udp, m.UDP}, {"tcp", tcp, m.TCP}} {
			t.Run(m.Name+" "+over.network, func(t *testing.T) {
				w := dial(t, over.network, over.to)
				if _, err := w.conn.Write(m.Bytes(strings.ToUpper(over.network), w.conn.LocalAddr().String(), over.network)); err != nil {
					t.Fatal(err)
				}
				w.expect(over.want)
				if over.want.Closed {
					return
				}
				if over.want.Code == 0 && over.network == "tcp" { // it may wait for the rest
					w = dial(t, over.network, over.to)
				}
				w.alive(over.network, m.Name)
			})
		}
	}
	if st := s.Stats(); st.Panics != 0 {
		t.Errorf("%d panics", st.Panics)
	}
}

// expect checks what comes back.
func (w *wire) expect(want torture.Answer) {
	w.t.Helper()
	if want.Code == 0 {
		if code, _ := w.status(quiet); code > 0 {
			w.t.Fatalf("got %d, want nothing", code)
		}
		return
	}
	code, callID := w.final(patience)
	if code != want.Code {
		w.t.Fatalf("got %d, want %d", code, want.Code)
	}
	if want.Closed {
		if code, _ := w.status(patience); code != -1 {
			w.t.Errorf("%d: the connection is open", code)
		}
		return
	}
	if want.Second == 0 {
		return
	}
	if code, other := w.final(patience); code != want.Second || other == callID {
		w.t.Errorf("the second: %d for %s, want %d", code, other, want.Second)
	}
}

// alive asks whether the server is there. Answers to what was sent before may come
// first, but none to a request that was not to be seen.
func (w *wire) alive(network, name string) {
	w.t.Helper()
	id := "alive-" + network + "-" + name
	fmt.Fprintf(w.conn, "OPTIONS sip:a@example.com SIP/2.0\r\nVia: SIP/2.0/%s %s;branch=z9hG4bK%s;rport\r\nFrom: <sip:b@example.com>;tag=1\r\nTo: <sip:a@example.com>\r\n"+
		"Call-ID: %s\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n", strings.ToUpper(network), w.conn.LocalAddr(), id, id)
	for {
		code, callID := w.final(patience)
		if code <= 0 {
			w.t.Fatal("the server does not answer any more")
		}
		if strings.HasPrefix(callID, "dblreq-second") && network == "udp" {
			w.t.Error("what follows a message in a datagram was read")
		}
		if callID == id {
			if code != 200 {
				w.t.Errorf("OPTIONS: %d", code)
			}
			return
		}
	}
}
