package attack

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/icholy/digest"
)

// caller makes one call after the other, as a telephone does: it repeats what is
// not answered, proves its password, confirms, asks for something in the call and
// hangs up.
type caller struct {
	conn  net.Conn
	n     int
	setup []time.Duration // from INVITE to 200
	err   error
	stop  chan struct{}
	done  chan struct{}
}

// call starts calling from an address of its own until finish.
func (v *victim) call() *caller {
	v.t.Helper()
	to, err := net.ResolveUDPAddr("udp4", v.udp)
	if err != nil {
		v.t.Fatal(err)
	}
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 99, 99, 99)}, to)
	if err != nil {
		v.t.Fatal(err)
	}
	c := &caller{conn: conn, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for c.err == nil {
			select {
			case <-c.stop:
				return
			case <-time.After(250 * time.Millisecond): // within the rate of a stranger
			}
			c.err = c.one()
		}
	}()
	return c
}

// finish ends the calling and judges it.
func (c *caller) finish(t *testing.T, attack string) {
	t.Helper()
	close(c.stop)
	<-c.done
	c.conn.Close()
	if c.err != nil {
		t.Errorf("%s: after %d calls: %v", attack, len(c.setup), c.err)
	}
	if len(c.setup) == 0 {
		t.Fatalf("%s: no call was made", attack)
	}
	slices.Sort(c.setup)
	p95 := c.setup[len(c.setup)*95/100]
	t.Logf("%s: %d calls, set up in %v (half of them) and %v (95 of 100)", attack, len(c.setup), c.setup[len(c.setup)/2], p95)
	if p95 > 2*time.Second {
		t.Errorf("%s: callers wait %v", attack, p95)
	}
}

// one makes a call.
func (c *caller) one() error {
	c.n++
	id := fmt.Sprintf("good-%d@%s", c.n, c.conn.LocalAddr())
	began := time.Now()
	asked, err := c.ask("INVITE", id, 1, "", "")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(asked, "SIP/2.0 401") {
		return fmt.Errorf("not asked for a password: %.40q", asked)
	}
	challenge, err := digest.ParseChallenge(header(asked, "WWW-Authenticate"))
	if err != nil {
		return err
	}
	proof, err := digest.Digest(challenge, digest.Options{Method: "INVITE", URI: "sip:bot@example.com", Username: "alice", Password: "secret", Count: 1, Cnonce: "c"})
	if err != nil {
		return err
	}
	ok, err := c.ask("INVITE", id, 2, "", "Authorization: "+proof.String()+"\r\n")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(ok, "SIP/2.0 200") {
		return fmt.Errorf("not taken: %.40q", ok)
	}
	c.setup = append(c.setup, time.Since(began))
	to := header(ok, "To")
	if _, err := fmt.Fprint(c.conn, c.text("ACK", id, 2, to, "")); err != nil {
		return err
	}
	for i, method := range []string{"OPTIONS", "BYE"} {
		if got, err := c.ask(method, id, 3+i, to, ""); err != nil || !strings.HasPrefix(got, "SIP/2.0 200") {
			return fmt.Errorf("%s in the call: %.40q, %w", method, got, err)
		}
	}
	return nil
}

// ask sends a request until its final response comes, for as long as a telephone
// would.
func (c *caller) ask(method, id string, cseq int, to, more string) (string, error) {
	b := make([]byte, 65535)
	wait := 500 * time.Millisecond
	for began := time.Now(); time.Since(began) < 32*time.Second; wait *= 2 {
		if _, err := fmt.Fprint(c.conn, c.text(method, id, cseq, to, more)); err != nil {
			return "", err
		}
		if err := c.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return "", err
		}
		for {
			n, err := c.conn.Read(b)
			if err != nil {
				break
			}
			got := string(b[:n])
			if header(got, "Call-ID") == id && header(got, "CSeq") == strconv.Itoa(cseq)+" "+method && !strings.HasPrefix(got, "SIP/2.0 1") {
				return got, nil
			}
		}
	}
	return "", fmt.Errorf("no answer to %s", method)
}

func (c *caller) text(method, id string, cseq int, to, more string) string {
	body := ""
	if method == "INVITE" {
		body = description
		more += "Content-Type: application/sdp\r\n"
	}
	if to == "" {
		to = "<sip:bot@example.com>"
	}
	return fmt.Sprintf("%s sip:bot@example.com SIP/2.0\r\nVia: SIP/2.0/UDP %s;rport;branch=z9hG4bK%s%d%s\r\nMax-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=%s\r\nTo: %s\r\n"+
		"Call-ID: %s\r\nCSeq: %d %s\r\nContact: <sip:alice@%s>\r\n%sContent-Length: %d\r\n\r\n%s",
		method, c.conn.LocalAddr(), strings.ReplaceAll(id, "@", "."), cseq, method, "from"+strconv.Itoa(c.n), to, id, cseq, method, c.conn.LocalAddr(), more, len(body), body)
}

// header is the first value of a header, as the server writes it.
func header(text, name string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
