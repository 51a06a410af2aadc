package phone

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// hostPort is where the sip: URI leads; port 5060 when it names none.
func hostPort(uri string) (netip.AddrPort, error) {
	rest, ok := strings.CutPrefix(uri, "sip:")
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("phone: %q is not a sip: URI", uri)
	}
	rest, _, _ = strings.Cut(rest, ";")
	rest, _, _ = strings.Cut(rest, "?")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		host, port = strings.Trim(rest, "[]"), "5060"
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("phone: %q: the phone dials IP addresses only", uri)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("phone: %q: port %q", uri, port)
	}
	return netip.AddrPortFrom(addr, uint16(number)), nil
}

// send puts a message on the wire.
func (p *Phone) send(data []byte, to netip.AddrPort) error {
	p.note(signal{p.clock.now(), p.Local(), to, true, data})
	if p.config.Transport == "udp" {
		_, err := p.udp.WriteToUDPAddrPort(data, to)
		return err
	}
	link, err := p.link(to)
	if err != nil {
		return err
	}
	_, err = link.Write(data)
	return err
}

// link is the TCP connection to an address, made when there is none.
func (p *Phone) link(to netip.AddrPort) (net.Conn, error) {
	p.mu.Lock()
	link := p.links[to]
	p.mu.Unlock()
	if link != nil {
		return link, nil
	}
	link, err := net.DialTimeout("tcp", to.String(), 5*time.Second)
	if err != nil {
		return nil, fmt.Errorf("phone: %w", err)
	}
	if !p.adopt(link) {
		return nil, net.ErrClosed
	}
	return link, nil
}

// adopt reads from a TCP connection until it ends.
func (p *Phone) adopt(link net.Conn) bool {
	from := addrPort(link.RemoteAddr())
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		_ = link.Close()
		return false
	default:
	}
	p.links[from] = link
	p.wait.Go(func() {
		defer link.Close()
		defer func() {
			p.mu.Lock()
			delete(p.links, from)
			p.mu.Unlock()
		}()
		r := bufio.NewReader(link)
		for {
			data, err := readFramed(r)
			if err != nil {
				return
			}
			p.receive(data, from, func(answer []byte) {
				p.note(signal{p.clock.now(), p.Local(), from, true, answer})
				_, _ = link.Write(answer)
			})
		}
	})
	return true
}

// readFramed takes one message from a stream by its Content-Length.
func readFramed(r *bufio.Reader) ([]byte, error) {
	var head bytes.Buffer
	length := 0
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if text == "\r\n" {
			if head.Len() == 0 {
				continue // keep-alive (RFC 5626 section 3.5.1)
			}
			break
		}
		head.WriteString(text)
		if name, value, ok := strings.Cut(text, ":"); ok && canonical(name) == "content-length" {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || length < 0 || length > 1<<16 {
				return nil, fmt.Errorf("phone: Content-Length %q", value)
			}
		}
	}
	head.WriteString("\r\n")
	if _, err := io.CopyN(&head, r, int64(length)); err != nil {
		return nil, err
	}
	return head.Bytes(), nil
}

func (p *Phone) acceptTCP() {
	for {
		link, err := p.tcp.Accept()
		if err != nil {
			return
		}
		p.adopt(link)
	}
}

func (p *Phone) readUDP() {
	buf := make([]byte, 65536)
	for {
		n, from, err := p.udp.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		p.receive(bytes.Clone(buf[:n]), from, func(answer []byte) {
			p.note(signal{p.clock.now(), p.Local(), from, true, answer})
			_, _ = p.udp.WriteToUDPAddrPort(answer, from)
		})
	}
}

func (p *Phone) note(s signal) {
	p.mu.Lock()
	p.signals = append(p.signals, s)
	p.mu.Unlock()
	if p.config.Trace != nil {
		p.config.Trace(map[bool]string{true: "->", false: "<-"}[s.sent], string(s.data))
	}
}

// receive sorts a message to the transaction or the call that it belongs to.
func (p *Phone) receive(data []byte, from netip.AddrPort, answer func([]byte)) {
	p.note(signal{p.clock.now(), p.Local(), from, false, data})
	m, err := ParseMessage(data)
	if err != nil {
		return // it is in the trace and in the capture
	}
	if m.Code != 0 {
		_, method := m.sequence()
		p.mu.Lock()
		waiting, call := p.waiting[m.branch()+" "+method], p.calls[m.Get("Call-ID")]
		p.mu.Unlock()
		if waiting == nil {
			if method == "INVITE" && m.Code >= 200 && m.Code < 300 && call != nil {
				call.acknowledge() // a repeated 200: our ACK was lost
			}
			return
		}
		select {
		case waiting <- m:
		default: // more responses than anyone reads
		}
		return
	}
	p.serve(m, answer)
}

// serve answers a request of the server's.
func (p *Phone) serve(m *Message, answer func([]byte)) {
	p.mu.Lock()
	call := p.calls[m.Get("Call-ID")]
	repeated := p.replies[m.branch()+" "+m.Method]
	invite := p.invites[m.branch()]
	p.mu.Unlock()
	if m.Method == "ACK" {
		return
	}
	if repeated != nil {
		answer(repeated)
		return
	}
	var reply *Message
	switch {
	case m.Method == "CANCEL" && invite != nil:
		invite.cancel()
		reply = m.reply(200, "OK", invite.call.tag)
	case call != nil && call.owns(m):
		reply = call.serve(m)
	case m.Method == "INVITE" && parameter(m.Get("To"), "tag") == "":
		reply = p.invited(m, answer)
		if reply.Code == 100 {
			answer(reply.Bytes())
			return // the others are kept as they are sent
		}
	case m.Method == "OPTIONS":
		reply = m.reply(200, "OK", token())
	case parameter(m.Get("To"), "tag") != "":
		reply = m.reply(481, "Call/Transaction Does Not Exist", "")
	default:
		reply = m.reply(480, "Temporarily Unavailable", token())
	}
	data := reply.Bytes()
	p.mu.Lock()
	p.replies[m.branch()+" "+m.Method] = data
	p.mu.Unlock()
	answer(data)
}

// await registers a client transaction. forget ends it.
func (p *Phone) await(m *Message, method string) (responses <-chan *Message, forget func()) {
	key := m.branch() + " " + method
	c := make(chan *Message, 64)
	p.mu.Lock()
	p.waiting[key] = c
	p.mu.Unlock()
	return c, func() {
		p.mu.Lock()
		delete(p.waiting, key)
		p.mu.Unlock()
	}
}

// destination is where a request goes: its first route, or else its target.
func destination(m *Message) (netip.AddrPort, error) {
	if routes := m.All("Route"); len(routes) > 0 {
		return hostPort(address(routes[0]))
	}
	return hostPort(m.URI)
}

// ErrNoAnswer is returned when a request got no final response in 64 times T1.
var ErrNoAnswer = errors.New("phone: no response")

// ask runs a non-INVITE client transaction (RFC 3261 section 17.1.2).
func (p *Phone) ask(ctx context.Context, m *Message) (*Message, error) {
	to, err := destination(m)
	if err != nil {
		return nil, err
	}
	responses, forget := p.await(m, m.Method)
	defer forget()
	data := m.Bytes()
	if err := p.send(data, to); err != nil {
		return nil, err
	}
	again := newRepeat(p.config.T1, p.config.Transport == "udp")
	defer again.stop()
	for {
		select {
		case r := <-responses:
			if r.Code >= 200 {
				return r, nil
			}
			again.slow(m.Method)
		case <-again.due():
			if !again.next(4 * time.Second) {
				return nil, fmt.Errorf("%w to %s", ErrNoAnswer, m.Method)
			}
			if again.resend() {
				if err := p.send(data, to); err != nil {
					return nil, err
				}
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-p.closed:
			return nil, net.ErrClosed
		}
	}
}

// repeat is the retransmission timer of a client transaction: T1, doubling, until
// 64 times T1 have passed. Over reliable transports it only times out.
type repeat struct {
	timer      *time.Timer
	interval   time.Duration
	left       time.Duration
	unreliable bool
	quiet      bool
}

func newRepeat(t1 time.Duration, unreliable bool) *repeat {
	return &repeat{timer: time.NewTimer(t1), interval: t1, left: 64 * t1, unreliable: unreliable}
}

func (r *repeat) due() <-chan time.Time { return r.timer.C }

// next arms the timer again, with at most longest; false when time is up.
func (r *repeat) next(longest time.Duration) bool {
	if r.left -= r.interval; r.left <= 0 {
		return false
	}
	r.interval = min(2*r.interval, longest, r.left)
	r.timer.Reset(r.interval)
	return true
}

func (r *repeat) resend() bool { return r.unreliable && !r.quiet }

// slow ends the repetition of INVITE and slows that of others, as a provisional
// response does.
func (r *repeat) slow(method string) {
	r.quiet = method == "INVITE"
	r.interval = max(r.interval, 4*time.Second)
}

func (r *repeat) stop() { r.timer.Stop() }
