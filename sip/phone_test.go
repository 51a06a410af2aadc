package sip

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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testT1 = 20 * time.Millisecond

// patience is how long a test waits for what must come.
const patience = 5 * time.Second

const offerSDP = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"

// bench is a running server with a log that can be read.
type bench struct {
	*Server
	t    *testing.T
	logs *observer.ObservedLogs
	stop func() // and wait
	udp  netip.AddrPort
	tcp  netip.AddrPort
}

func start(t *testing.T, h Handler, change ...func(*Config)) *bench {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen = []Listener{{Network: "udp", Addr: "127.0.0.1:0"}, {Network: "tcp", Addr: "127.0.0.1:0"}}
	cfg.T1, cfg.T2, cfg.T4 = testT1, 4*testT1, 2*testT1
	for _, f := range change {
		f(&cfg)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	s, err := NewServer(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, h) }()
	var once sync.Once
	b := &bench{Server: s, t: t, logs: logs}
	b.stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Serve: %v", err)
				}
			case <-time.After(patience):
				t.Error("Serve does not end")
			}
		})
	}
	t.Cleanup(b.stop)
	for _, a := range s.Addrs() {
		if a.Network == "udp" {
			b.udp = a.Addr
		} else {
			b.tcp = a.Addr
		}
	}
	return b
}

// quiet refuses every call with 486.
func quiet(_ context.Context, inv *Invite) {
	inv.Reject(&RejectError{Code: 486, Rule: "test", Text: "Busy"})
}

// answered is a handler that answers every call and tells the test.
type answered struct {
	*script
	calls   chan *Dialog
	invites chan *Invite
}

func answering(dh *script) *answered {
	return &answered{script: dh, calls: make(chan *Dialog, 64), invites: make(chan *Invite, 64)}
}

func (a *answered) handle(_ context.Context, inv *Invite) {
	d, err := inv.Answer([]byte(offerSDP), a.script)
	if err == nil {
		a.invites <- inv
		a.calls <- d
	}
}

// script is a DialogHandler that answers from its fields.
type script struct {
	mu      sync.Mutex
	log     []string
	offer   func([]byte) ([]byte, *RejectError)
	make    []byte
	answer  error
	info    bool
	answers atomic.Int32
}

func (s *script) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *script) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, " ")
}

func (s *script) Offer(b []byte) ([]byte, *RejectError) {
	s.note("offer")
	if s.offer != nil {
		return s.offer(b)
	}
	return []byte(offerSDP), nil
}
func (s *script) MakeOffer() []byte { s.note("make"); return s.make }
func (s *script) Answer(b []byte) error {
	s.note("answer")
	s.answers.Add(1)
	return s.answer
}
func (s *script) Info(kind string, b []byte) bool { s.note("info:%s", b); return s.info }

// phone is a raw user agent: it writes text and reads text.
type phone struct {
	t    *testing.T
	conn net.Conn
	rd   *bufio.Reader   // over TCP
	via  string          // transport
	addr string          // its own
	seen map[string]bool // requests that fresh has returned
}

func dialPhone(t *testing.T, network string, to netip.AddrPort) *phone {
	t.Helper()
	conn, err := net.Dial(network, to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &phone{t: t, conn: conn, via: strings.ToUpper(network), addr: conn.LocalAddr().String()}
	if network == "tcp" {
		p.rd = bufio.NewReader(conn)
	}
	return p
}

// req is a request to be written. Empty fields get what a sane client writes.
type req struct {
	method, uri, branch, via, from, to, callID, contact, version string
	cseq                                                         int
	cseqText                                                     string
	extra                                                        []string
	body, kind                                                   string
	without                                                      string // a header name to leave out
}

var serial atomic.Int64

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// newCall fills in what stays the same for a call.
func newCall(r req) req {
	n := serial.Add(1)
	r.branch = or(r.branch, fmt.Sprintf("z9hG4bKtest%d", n))
	r.callID = or(r.callID, fmt.Sprintf("call-%d@test", n))
	r.from = or(r.from, fmt.Sprintf("\"Alice\" <sip:alice@example.com>;tag=from%d", n))
	r.to = or(r.to, "<sip:bot@example.com>")
	r.uri = or(r.uri, "sip:bot@example.com")
	if r.cseq == 0 {
		r.cseq = 1
	}
	return r
}

func newInvite() req {
	return newCall(req{method: "INVITE", body: offerSDP, kind: "application/sdp"})
}

func (p *phone) text(r req) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\r\n", r.method, r.uri, or(r.version, "SIP/2.0"))
	h := func(name, value string) {
		if r.without != name && value != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	h("Via", or(r.via, fmt.Sprintf("SIP/2.0/%s %s;branch=%s;rport", p.via, p.addr, r.branch)))
	h("Max-Forwards", "70")
	h("From", r.from)
	h("To", r.to)
	h("Call-ID", r.callID)
	h("CSeq", or(r.cseqText, strconv.Itoa(r.cseq)+" "+r.method))
	if r.method == "INVITE" || r.method == "UPDATE" {
		h("Contact", or(r.contact, "<sip:alice@"+p.addr+">"))
	}
	for _, e := range r.extra {
		b.WriteString(e + "\r\n")
	}
	if r.body != "" {
		h("Content-Type", r.kind)
	}
	h("Content-Length", strconv.Itoa(len(r.body)))
	return b.String() + "\r\n" + r.body
}

func (p *phone) send(r req) {
	p.t.Helper()
	p.write(p.text(r))
}

func (p *phone) write(text string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(text)); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// msg is a message that was read.
type msg struct {
	start  string
	code   int
	method string
	head   map[string][]string
	body   string
	raw    string
}

func (m *msg) get(name string) string {
	if v := m.head[strings.ToLower(name)]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (m *msg) toTag() string {
	_, tag, _ := strings.Cut(m.get("To"), ";tag=")
	return tag
}

func parseMsg(raw string) *msg {
	head, body, _ := strings.Cut(raw, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	m := &msg{start: lines[0], head: map[string][]string{}, body: body, raw: raw}
	if f := strings.Fields(lines[0]); strings.HasPrefix(lines[0], "SIP/") {
		m.code, _ = strconv.Atoi(f[1])
	} else {
		m.method = f[0]
	}
	for _, l := range lines[1:] {
		n, v, _ := strings.Cut(l, ":")
		n = strings.ToLower(n)
		m.head[n] = append(m.head[n], strings.TrimSpace(v))
	}
	return m
}

// read returns the next message, nil after d.
func (p *phone) read(d time.Duration) *msg {
	p.t.Helper()
	p.conn.SetReadDeadline(time.Now().Add(d))
	if p.rd == nil {
		buf := make([]byte, 65535)
		n, err := p.conn.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			p.t.Fatalf("read: %v", err)
		}
		if string(buf[:n]) == "\r\n\r\n" { // keeps a flow open
			return p.read(d)
		}
		return parseMsg(string(buf[:n]))
	}
	var head strings.Builder
	length := 0
	for {
		line, err := p.rd.ReadString('\n')
		if err != nil {
			return nil
		}
		if line == "\r\n" && head.Len() == 0 {
			continue
		}
		head.WriteString(line)
		if n, v, _ := strings.Cut(line, ":"); strings.EqualFold(n, "Content-Length") {
			length, _ = strconv.Atoi(strings.TrimSpace(v))
		}
		if line == "\r\n" {
			break
		}
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(p.rd, body); err != nil {
		p.t.Fatalf("body: %v", err)
	}
	return parseMsg(head.String() + string(body))
}

// final reads the next response for the CSeq method that is not provisional,
// passing over copies of others.
func (p *phone) final(method string) *msg {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		m := p.read(time.Until(deadline))
		if m != nil && m.code >= 200 && strings.HasSuffix(m.get("CSeq"), " "+method) {
			return m
		}
	}
	p.t.Fatalf("no final response to %s", method)
	return nil
}

// answer reads the final response to the request with the given CSeq.
func (p *phone) answer(cseq string) *msg {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if m := p.read(time.Until(deadline)); m != nil && m.code >= 200 && m.get("CSeq") == cseq {
			return m
		}
	}
	p.t.Fatalf("no final response to %s", cseq)
	return nil
}

// expect is final with a status code.
func (p *phone) expect(method string, code int) *msg {
	p.t.Helper()
	m := p.final(method)
	if m.code != code {
		p.t.Fatalf("%s: got %q, want %d\n%s", method, m.start, code, m.raw)
	}
	return m
}

// request reads until a request with the method comes.
func (p *phone) request(method string) *msg {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if m := p.read(time.Until(deadline)); m != nil && m.method == method {
			return m
		}
	}
	p.t.Fatalf("no %s came", method)
	return nil
}

// silent fails when anything comes within d.
func (p *phone) silent(d time.Duration, why string) {
	p.t.Helper()
	if m := p.read(d); m != nil {
		p.t.Fatalf("%s, but got:\n%s", why, m.raw)
	}
}

// reply answers a request of the server's.
func (p *phone) reply(m *msg, code int) {
	p.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "SIP/2.0 %d Test\r\n", code)
	for _, n := range []string{"Via", "From", "To", "Call-ID", "CSeq"} {
		fmt.Fprintf(&b, "%s: %s\r\n", n, m.get(n))
	}
	p.write(b.String() + "Content-Length: 0\r\n\r\n")
}

// call is a dialog seen from the phone.
type call struct {
	p   *phone
	inv req
	ok  *msg // the 200
	n   int
}

// dial makes a call up to the 200, without ACK.
func (p *phone) dial(inv req) *call {
	p.t.Helper()
	p.send(inv)
	return &call{p: p, inv: inv, ok: p.expect("INVITE", 200), n: inv.cseq}
}

// next is a new request in the call.
func (c *call) next(method, body string) req {
	c.n++
	r := newCall(req{method: method, uri: "sip:bot@gw.example.com", callID: c.inv.callID, from: c.inv.from,
		to: c.ok.get("To"), cseq: c.n, body: body})
	if body != "" {
		r.kind = "application/sdp"
	}
	return r
}

// ack confirms the INVITE with the given CSeq.
func (c *call) ack(cseq int, body string) {
	c.p.t.Helper()
	r := newCall(req{method: "ACK", callID: c.inv.callID, from: c.inv.from, to: c.ok.get("To"), cseq: cseq, body: body})
	if body != "" {
		r.kind = "application/sdp"
	}
	c.p.send(r)
}

func wait[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s does not come", what)
	}
	return v
}

// ended waits for the end of a call and checks its cause.
func ended(t *testing.T, d *Dialog, cause error) {
	t.Helper()
	wait(t, d.Context().Done(), "the end of the call")
	if got := context.Cause(d.Context()); !errors.Is(got, cause) {
		t.Errorf("cause %v, want %v", got, cause)
	}
}

func newReader(c net.Conn) *bufio.Reader { return bufio.NewReader(c) }
