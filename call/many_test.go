package call

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent"
	"parley/sip"
	"parley/test/phone"
)

// caller places calls one after the other over one socket, without sound. It keeps
// nothing of them, so that what a test sees grow is the gateway's.
type caller struct {
	conn *net.UDPConn
	uri  string
	to   string // of the call that is placed now
	n    int
	buf  [4096]byte
}

func newCaller(t *testing.T, uri string) *caller {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", uri[strings.IndexByte(uri, '@')+1:])
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &caller{conn: conn, uri: uri}
}

// request is one of the call's requests.
func (c *caller) request(method string, branch, seq int, toTag string) []byte {
	own := c.conn.LocalAddr().String()
	body := ""
	if method == "INVITE" {
		body = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n"
	}
	return fmt.Appendf(nil, "%s %s SIP/2.0\r\nVia: SIP/2.0/UDP %s;branch=z9hG4bK%d.%d\r\nMax-Forwards: 70\r\nFrom: <sip:+14155550100@%s>;tag=1\r\nTo: <%s>%s\r\n"+
		"Call-ID: %d@%s\r\nCSeq: %d %s\r\nContact: <sip:a@%s>\r\nContent-Type: application/sdp\r\nContent-Length: %d\r\n\r\n%s",
		method, c.to, own, c.n, branch, own, c.to, toTag, c.n, own, seq, method, own, len(body), body)
}

// ask sends a request, again every 100 ms, until a response of the status comes; it
// gives that.
func (c *caller) ask(request []byte, cseq string, status string) (string, error) {
	for range 100 {
		if _, err := c.conn.Write(request); err != nil {
			return "", err
		}
		_ = c.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		for {
			size, err := c.conn.Read(c.buf[:])
			if err != nil {
				break // again
			}
			m := c.buf[:size]
			if bytes.HasPrefix(m, []byte("SIP/2.0 "+status)) && bytes.Contains(m, []byte("CSeq: "+cseq+"\r\n")) && bytes.Contains(m, fmt.Appendf(nil, "Call-ID: %d@", c.n)) {
				return string(m), nil
			}
		}
	}
	return "", fmt.Errorf("call %d: no %s to %s", c.n, status, cseq)
}

// toTag is the tag in To of a response, as it stands in requests.
func toTag(response string) string {
	for line := range strings.SplitSeq(response, "\r\n") {
		if rest, ok := strings.CutPrefix(line, "To: "); ok {
			return rest[strings.LastIndex(rest, ";tag="):]
		}
	}
	return ""
}

// call places one and hangs up, or takes it back while it rings.
func (c *caller) call(cancel bool) error {
	c.n++
	c.to = c.uri
	if cancel {
		c.to = strings.Replace(c.uri, "agent@", "ring@", 1)
	}
	invite := c.request("INVITE", 1, 1, "")
	if !cancel {
		m, err := c.ask(invite, "1 INVITE", "200")
		if err != nil {
			return err
		}
		tag := toTag(m)
		if _, err := c.conn.Write(c.request("ACK", 2, 1, tag)); err != nil {
			return err
		}
		_, err = c.ask(c.request("BYE", 3, 2, tag), "2 BYE", "200")
		return err
	}
	if _, err := c.ask(invite, "1 INVITE", "180"); err != nil {
		return err
	}
	// Both responses may come in either order: the 487 is sent until it has its ACK.
	if _, err := c.ask(c.request("CANCEL", 1, 1, ""), "1 CANCEL", "200"); err != nil {
		return err
	}
	m, err := c.ask(invite, "1 INVITE", "487")
	if err != nil {
		return err
	}
	_, err = c.conn.Write(c.request("ACK", 1, 1, toTag(m)))
	return err
}

// place has several callers place n calls, of which a share is taken back.
func place(t *testing.T, g *gateway, n int, canceled float64) {
	t.Helper()
	const callers = 8
	var all sync.WaitGroup
	for range callers {
		c := newCaller(t, g.uri)
		all.Go(func() {
			for range n / callers {
				if err := c.call(rand.Float64() < canceled); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	settled(t, g)
}

// forgotten waits until the dialogs and transactions of ended calls are, after 64*T1.
func forgotten(t *testing.T, g *gateway) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		st := g.sip.Stats()
		if st.Dialogs == 0 && st.Transactions == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%d dialogs and %d transactions are left", st.Dialogs, st.Transactions)
		}
	}
}

// crowded starts a gateway for many calls: what is kept of a call is kept for 64*T1, and
// the agent keeps nothing. Calls to "ring" are not answered.
func crowded(t *testing.T) *gateway {
	t.Helper()
	g := startGateway(t, func(_ *Config, s *sip.Config) {
		s.T1, s.T2, s.T4 = 20*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	})
	g.agent.opens(func(ctx context.Context, c agent.Call) error {
		g.agent.mu.Lock()
		g.agent.sessions = nil
		g.agent.mu.Unlock()
		if c.Called == "ring" {
			<-ctx.Done()
		}
		return ctx.Err()
	})
	return g
}

func TestManyCallsLeaveNoDialog(t *testing.T) { // BR-175
	g := crowded(t)
	place(t, g, howMany(t, 12000), 0)
	g.mu.Lock()
	calls, ended := len(g.calls), len(g.ended)
	g.mu.Unlock()
	if calls != 0 || ended > maxEnded {
		t.Errorf("%d calls and %d that ended are kept", calls, ended)
	}
	forgotten(t, g)
	p := ringUp(t, phone.Config{Number: "+14155550100"})
	c := dial(t, p, g.uri) // one more has all that a call has
	if err := c.Hold(within(t)); err != nil {
		t.Error(err)
	}
	if err := c.Hangup(within(t)); err != nil {
		t.Error(err)
	}
}

// heap is what is held after a collection, in bytes.
func heap() float64 {
	for range 2 { // finalizers and pools take two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func TestUnansweredCallsLeaveNothing(t *testing.T) { // BR-177
	g := crowded(t)
	rounds := 5
	if raced() { // which keeps more, so that the heap says nothing
		rounds = 2
	}
	each := howMany(t, 800)
	var seen []float64
	for range rounds {
		place(t, g, each, 0.7)
		forgotten(t, g)
		seen = append(seen, heap())
	}
	if raced() {
		return
	}
	// The first rounds fill pools and tables of a fixed size.
	calls := float64((rounds - 2) * each)
	grown := seen[rounds-1] - seen[1]
	t.Logf("heap after each round of %d calls: %.0f bytes; %.0f bytes a call", each, seen, grown/calls)
	if grown > 500*calls+1e6 {
		t.Errorf("%.0f bytes stay behind for each call", grown/calls)
	}
}
