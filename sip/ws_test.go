package sip

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// webConn is a browser's WebSocket as a net.Conn: what is written goes out as one
// frame, messages of the server are read as a stream.
type webConn struct {
	net.Conn
	rd      *bufio.Reader
	op      byte
	mu      sync.Mutex
	control []wsFrame
	rest    []byte
}

func (w *webConn) Write(b []byte) (int, error) {
	_, err := w.Conn.Write(maskedFrame(0x80|w.op, b))
	return len(b), err
}

// maskedFrame is a frame as clients send it. first is its first byte.
func maskedFrame(first byte, b []byte) []byte {
	var mask [4]byte
	rand.Read(mask[:])
	out := wsEncode(0, b)
	out[0] = first
	head := len(out) - len(b)
	out[1] |= 0x80
	masked := append(append([]byte(nil), out[:head]...), mask[:]...)
	for i, c := range b {
		masked = append(masked, c^mask[i&3])
	}
	return masked
}

// frame reads the next frame of the server.
func (w *webConn) frame() (wsFrame, error) {
	var h [2]byte
	if _, err := io.ReadFull(w.rd, h[:]); err != nil {
		return wsFrame{}, err
	}
	if h[0]&0xf0 != 0x80 || h[1]&0x80 != 0 {
		return wsFrame{}, fmt.Errorf("head %x", h)
	}
	n := int(h[1])
	var err error
	switch n {
	case 126:
		var b [2]byte
		_, err = io.ReadFull(w.rd, b[:])
		n = int(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		_, err = io.ReadFull(w.rd, b[:])
		n = int(binary.BigEndian.Uint64(b[:]))
	}
	if err != nil {
		return wsFrame{}, err
	}
	data := make([]byte, n)
	_, err = io.ReadFull(w.rd, data)
	return wsFrame{h[0] & 0x0f, data}, err
}

func (w *webConn) Read(b []byte) (int, error) {
	for len(w.rest) == 0 {
		f, err := w.frame()
		if err != nil {
			return 0, err
		}
		if f.op >= wsClose {
			w.mu.Lock()
			w.control = append(w.control, f)
			w.mu.Unlock()
			continue
		}
		w.rest = f.data
	}
	n := copy(b, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// opening is the request that opens a WebSocket; lines replace or, ending in a
// colon, remove headers.
func opening(lines ...string) string {
	head := []string{"Host: gw.example.com", "Upgrade: websocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Version: 13",
		"Sec-WebSocket-Protocol: chat, sip", "Sec-WebSocket-Key: " + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef"))}
	start := "GET /any HTTP/1.1"
	for _, l := range lines {
		if !strings.Contains(l, ":") {
			start = l
			continue
		}
		name, value, _ := strings.Cut(l, ":")
		for i := range head {
			if strings.HasPrefix(head[i], name+":") {
				head = append(head[:i], head[i+1:]...)
				break
			}
		}
		if value != "" {
			head = append(head, l)
		}
	}
	return start + "\r\n" + strings.Join(head, "\r\n") + "\r\n\r\n"
}

// open opens a WebSocket on a connection and returns what the server answered.
func open(t *testing.T, conn net.Conn, lines ...string) (*webConn, *http.Response) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(patience))
	defer conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, opening(lines...)); err != nil {
		t.Fatal(err)
	}
	rd := bufio.NewReader(conn)
	r, err := http.ReadResponse(rd, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &webConn{Conn: conn, rd: rd, op: wsText}, r
}

// webPhone is a telephone in a browser.
func (b *bench) webPhone(to netip.AddrPort, cfg *tls.Config) *phone {
	b.t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	via := "WS"
	if cfg != nil {
		conn, via = tls.Client(conn, cfg), "WSS"
	}
	web, r := open(b.t, conn)
	if r.StatusCode != 101 || r.Header.Get("Sec-Websocket-Protocol") != "sip" {
		b.t.Fatalf("%+v", r)
	}
	return &phone{t: b.t, conn: web, rd: newReader(web), via: via, addr: "df7jal23ls0d.invalid"}
}

func overWeb(c *Config) {
	c.Listen = []Listener{{Network: "ws", Addr: "127.0.0.1:0"}, {Network: "udp", Addr: "127.0.0.1:0"}}
}

// RFC 7118 section 8: a browser calls, is called back inside the dialog over its
// connection, whatever its Contact says, and hangs up or is hung up on.
func TestCallOverWebSocket(t *testing.T) {
	a := newAuthority(t)
	a.issue("gw", false, "gw.example.com")
	h := answering(&script{})
	b := start(t, h.handle, func(c *Config) {
		overWeb(c)
		c.Listen = append(c.Listen, Listener{Network: "wss", Addr: "127.0.0.1:0", TLS: a.files("gw")})
	})
	for i, cfg := range map[int]*tls.Config{0: nil, 2: a.client("")} {
		p := b.webPhone(b.Addrs()[i].Addr, cfg)
		for _, op := range []byte{wsText, wsBinary} {
			p.conn.(*webConn).op = op
			inv := newInvite()
			inv.contact = "<sip:alice@df7jal23ls0d.invalid;transport=ws>"
			c := p.dial(inv)
			if want := fmt.Sprintf("<sip:bot@%s;transport=ws>", b.Addrs()[i].Addr); c.ok.get("Contact") != want {
				t.Errorf("Contact %q, want %q", c.ok.get("Contact"), want)
			}
			if via := c.ok.get("Via"); !strings.HasPrefix(via, "SIP/2.0/"+p.via+" df7jal23ls0d.invalid;") || !strings.Contains(via, "received=127.0.0.1") {
				t.Errorf("Via %q", via)
			}
			d, in := wait(t, h.calls, "the call"), wait(t, h.invites, "its INVITE")
			if in.Transport() != strings.ToLower(p.via) {
				t.Errorf("transport %q", in.Transport())
			}
			c.ack(1, "")
			go d.Bye(t.Context(), Reason{})
			bye := p.request("BYE")
			if !strings.HasPrefix(bye.get("Via"), "SIP/2.0/"+p.via+" ") || bye.start != "BYE sip:alice@df7jal23ls0d.invalid;transport=ws SIP/2.0" {
				t.Errorf("%s", bye.raw)
			}
			p.reply(bye, 200)
			ended(t, d, ErrLocalBye)
		}
		inv := newInvite()
		inv.uri = "sips:bot@gw.example.com"
		if c := p.dial(inv); c.ok.get("Contact") != fmt.Sprintf("<sips:bot@%s;transport=ws>", b.Addrs()[i].Addr) {
			t.Errorf("Contact %q", c.ok.get("Contact"))
		}
		wait(t, h.calls, "the call")
		wait(t, h.invites, "its INVITE")
	}
}

// Once the browser is gone there is no way back: the call ends, nothing is
// connected to or resolved.
func TestWebSocketGone(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle, overWeb)
	p := b.webPhone(b.Addrs()[0].Addr, nil)
	inv := newInvite()
	inv.contact = "<sip:alice@df7jal23ls0d.invalid;transport=ws>"
	c := p.dial(inv)
	d := wait(t, h.calls, "the call")
	c.ack(1, "")
	wait(t, d.Confirmed(), "the ACK")
	p.conn.Close()
	eventually(t, "the end of the connection", func() bool { return b.Stats().Connections == 0 })
	if err := d.Bye(t.Context(), Reason{}); !errors.Is(err, ErrTransport) {
		t.Errorf("BYE: %v", err)
	}
	if _, err := b.connect(t.Context(), "wss", b.udp, TLS{}, nil); !errors.Is(err, ErrTransport) {
		t.Errorf("connected to a browser: %v", err)
	}
}

// Pings, line ends, fragments, and the good-bye.
func TestWebSocketFrames(t *testing.T) {
	b := start(t, quiet, overWeb)
	p := b.webPhone(b.Addrs()[0].Addr, nil)
	w := p.conn.(*webConn)
	send := func(first byte, data string) {
		t.Helper()
		if _, err := w.Conn.Write(maskedFrame(first, []byte(data))); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(op byte, data string) {
		t.Helper()
		w.SetReadDeadline(time.Now().Add(patience))
		if f, err := w.frame(); err != nil || f.op != op || data != "*" && string(f.data) != data {
			t.Fatalf("%x %q, %v", f.op, f.data, err)
		}
	}
	send(0x80|wsPing, "are you there")
	expect(wsPong, "are you there")
	send(0x80|wsPong, "unasked")
	send(0x80|wsText, "\r\n\r\n")
	expect(wsText, "\r\n")
	send(0x80|wsText, "\r\n")
	text := p.text(newCall(req{method: "OPTIONS"}))
	send(wsText, text[:10])
	send(0x80|wsPing, "")
	expect(wsPong, "")
	send(wsContinuation, text[10:20])
	send(0x80|wsContinuation, text[20:])
	expect(wsText, "*")
	// What is no UTF-8 comes back as it was, in a binary frame.
	latin := newCall(req{method: "OPTIONS", from: "\"Ren\xe9\" <sip:a@b>;tag=1"})
	send(0x80|wsBinary, p.text(latin))
	expect(wsBinary, "*")
	if n := b.Stats().Malformed; n != 0 {
		t.Errorf("%d malformed", n)
	}
	send(0x80|wsClose, "\x03\xe8bye")
	expect(wsClose, "\x03\xe8")
	if _, err := w.frame(); err == nil {
		t.Error("the connection is open")
	}
}

func TestWebSocketBroken(t *testing.T) {
	b := start(t, quiet, overWeb, func(c *Config) { c.MaxMessage = 1500 })
	long := strings.Repeat("x", 1000)
	for name, tt := range map[string]struct {
		bytes []byte
		code  uint16
	}{
		"not masked":           {wsEncode(wsText, []byte("x")), 1002},
		"reserved bit":         {maskedFrame(0xc0|wsText, []byte("x")), 1002},
		"unknown opcode":       {maskedFrame(0x83, []byte("x")), 1002},
		"unknown control":      {maskedFrame(0x8b, []byte("x")), 1002},
		"fragmented ping":      {maskedFrame(wsPing, []byte("x")), 1002},
		"long ping":            {maskedFrame(0x80|wsPing, []byte(long)), 1002},
		"continues nothing":    {maskedFrame(0x80|wsContinuation, []byte("x")), 1002},
		"two at once":          {append(maskedFrame(wsText, []byte("x")), maskedFrame(wsText, []byte("x"))...), 1002},
		"length too long":      {[]byte{0x81, 0xfe, 0, 5, 0, 0, 0, 0}, 1002},
		"length much too long": {[]byte{0x81, 0xff, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0}, 1002},
		"not UTF-8":            {maskedFrame(0x80|wsText, []byte("\xff")), 1007},
		"too large":            {maskedFrame(0x80|wsText, []byte(long+long)), 1009},
		"endless":              {[]byte{0x81, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0}, 1009},
		"fragments too large":  {append(maskedFrame(wsText, []byte(long)), maskedFrame(0x80|wsContinuation, []byte(long))...), 1009},
	} {
		t.Run(name, func(t *testing.T) {
			w := b.webPhone(b.Addrs()[0].Addr, nil).conn.(*webConn)
			w.Conn.Write(tt.bytes)
			w.SetReadDeadline(time.Now().Add(patience))
			f, err := w.frame()
			if err != nil || f.op != wsClose || len(f.data) != 2 || binary.BigEndian.Uint16(f.data) != tt.code {
				t.Errorf("%x %x %v, want %d", f.op, f.data, err, tt.code)
			}
		})
	}
}

// Who may open a WebSocket, and what others are told.
func TestWebSocketOpening(t *testing.T) {
	b := start(t, quiet, overWeb)
	listed := start(t, quiet, overWeb, func(c *Config) { c.Origins = []string{"https://phone.example.com/"} })
	all := start(t, quiet, overWeb, func(c *Config) { c.Origins = []string{"*"} })
	for _, tt := range []struct {
		b     *bench
		lines []string
		code  int
	}{
		{b, nil, 101},
		{b, []string{"Connection: Upgrade"}, 101},
		{b, []string{"Sec-WebSocket-Protocol: SIP"}, 101},
		{b, []string{"Origin: http://localhost:8080"}, 101},
		{b, []string{"Origin: https://127.0.0.1"}, 101},
		{b, []string{"Origin: http://[::1]:3000"}, 101},
		{b, []string{"Origin: https://192.168.1.7:8443"}, 101},
		{b, []string{"Origin: https://phone.example.com"}, 403},
		{b, []string{"Origin: http://gw.example.com"}, 403}, // a name may lead to us by its owner's will
		{b, []string{"Origin: https://203.0.113.1"}, 403},
		{b, []string{"Origin: null"}, 403},
		{b, []string{"Origin: file://"}, 403},
		{b, []string{"Origin: http://%zz"}, 403},
		{listed, []string{"Origin: https://Phone.example.com"}, 101},
		{listed, []string{"Origin: http://phone.example.com"}, 403},
		{listed, []string{"Origin: https://phone.example.com.evil.example"}, 403},
		{listed, []string{"Origin: http://localhost"}, 403},
		{listed, nil, 101},
		{all, []string{"Origin: null"}, 101},
		{b, []string{"POST /any HTTP/1.1"}, 405},
		{b, []string{"Upgrade:"}, 426},
		{b, []string{"Upgrade: h2c"}, 426},
		{b, []string{"Connection: close"}, 426},
		{b, []string{"Sec-WebSocket-Version: 8"}, 426},
		{b, []string{"Sec-WebSocket-Protocol:"}, 400},
		{b, []string{"Sec-WebSocket-Protocol: chat"}, 400},
		{b, []string{"Sec-WebSocket-Key:"}, 400},
		{b, []string{"Sec-WebSocket-Key: AAAA"}, 400},
		{b, []string{"Content-Length: 5"}, 400},
		{b, []string{"OPTIONS * SIP/2.0"}, 400},
		{b, []string{"X: " + strings.Repeat("x", wsHead-100)}, 431},
	} {
		conn, err := net.Dial("tcp", tt.b.Addrs()[0].Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		w, r := open(t, conn, tt.lines...)
		if r.StatusCode != tt.code {
			t.Errorf("%.60q: %s, want %d", tt.lines, r.Status, tt.code)
		}
		switch {
		case tt.code == 101 && r.Header.Get("Sec-Websocket-Accept") != "BACScCJPNqyz+UBoqMH89VmURoA=":
			t.Errorf("accept %q", r.Header.Get("Sec-Websocket-Accept"))
		case tt.code == 426 && r.Header.Get("Sec-Websocket-Version") != "13":
			t.Errorf("%q: no version is offered", tt.lines)
		}
		w.Conn.Close()
	}
	if b.logs.FilterField(zapRule("origin")).Len() == 0 {
		t.Error("no line about the origin")
	}
	for _, bad := range []string{"phone.example.com", "ws://x", "https://x/path", "https://x?y", "https://a@x", "", "http://%zz"} {
		if checkOrigin(bad) == nil {
			t.Errorf("origin %q", bad)
		}
	}
}

// The server says good-bye when it stops.
func TestWebSocketAtTheEnd(t *testing.T) {
	b := start(t, quiet, overWeb)
	p := b.webPhone(b.Addrs()[0].Addr, nil)
	p.send(newCall(req{method: "OPTIONS"}))
	p.expect("OPTIONS", 200)
	go b.stop()
	p.read(patience)
	w := p.conn.(*webConn)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.control) != 1 || w.control[0].op != wsClose || string(w.control[0].data) != "\x03\xe9" {
		t.Errorf("%+v", w.control)
	}
}

// How long connections are waited for, in fake time.
func TestConnectionLifetimes(t *testing.T) {
	options := func() string {
		return (&phone{via: "TCP", addr: "a.invalid"}).text(newCall(req{method: "OPTIONS"}))
	}
	for name, tt := range map[string]struct {
		network string
		do      func(conn net.Conn)
		over    time.Duration
	}{
		"says nothing":      {"tcp", func(net.Conn) {}, messageTimeout},
		"pings only":        {"tcp", func(c net.Conn) { time.Sleep(20 * time.Second); io.WriteString(c, "\r\n\r\n") }, messageTimeout},
		"half a message":    {"tcp", func(c net.Conn) { io.WriteString(c, "OPTIONS sip:a") }, messageTimeout},
		"drips":             {"tcp", func(c net.Conn) { drip(c, "OPTIONS sip:a"+strings.Repeat("x", 1000)) }, messageTimeout},
		"idle":              {"tcp", func(c net.Conn) { io.WriteString(c, options()) }, idleTimeout},
		"no opening":        {"ws", func(net.Conn) {}, handshakeTimeout},
		"a dripped opening": {"ws", func(c net.Conn) { drip(c, opening()) }, handshakeTimeout},
		"opened and silent": {"ws", func(c net.Conn) { io.WriteString(c, opening()) }, messageTimeout},
		"fragments drip": {"ws", func(c net.Conn) {
			io.WriteString(c, opening())
			for op := byte(wsText); ; op = wsContinuation {
				if _, err := c.Write(maskedFrame(op, []byte("x"))); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, messageTimeout},
		"answers no ping": {"ws", func(c net.Conn) {
			io.WriteString(c, opening())
			c.Write(maskedFrame(0x80|wsText, []byte(options())))
		}, 2 * wsPingInterval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := NewServer(DefaultConfig(), nil)
				if err != nil {
					t.Fatal(err)
				}
				ours, theirs := net.Pipe()
				began := time.Now()
				c := &tcpConn{conn: ours}
				if rule := s.adopt(&listener{cfg: Listener{Network: tt.network}, host: "a", port: 1}, c); rule != "" {
					t.Fatal(rule)
				}
				go io.Copy(io.Discard, theirs)
				var wg sync.WaitGroup
				wg.Go(func() { tt.do(theirs) })
				<-c.over
				if took := time.Since(began); took < tt.over || took > tt.over+time.Second {
					t.Errorf("%v, want %v", took, tt.over)
				}
				wg.Wait()
				theirs.Close()
			})
		})
	}
}

// drip writes a byte each second until nobody listens.
func drip(c net.Conn, text string) {
	for _, b := range []byte(text) {
		if _, err := c.Write([]byte{b}); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// A browser that answers pings stays for the idle time, and longer with a call.
func TestWebSocketKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := NewServer(DefaultConfig(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := net.Pipe()
		c := &tcpConn{conn: ours}
		c.calls.Add(1)
		if rule := s.adopt(&listener{cfg: Listener{Network: "ws"}, host: "a", port: 1}, c); rule != "" {
			t.Fatal(rule)
		}
		go io.WriteString(theirs, opening())
		rd := bufio.NewReader(theirs)
		if _, err := http.ReadResponse(rd, nil); err != nil {
			t.Fatal(err)
		}
		w := &webConn{Conn: theirs, rd: rd, op: wsText}
		fmt.Fprint(w, (&phone{via: "WS", addr: "a.invalid"}).text(newCall(req{method: "OPTIONS"})))
		pings, began := 0, time.Now()
		for {
			f, err := w.frame()
			if err != nil {
				break
			}
			if f.op != wsPing {
				continue
			}
			if pings++; pings == 100 {
				c.calls.Add(-1)
			}
			theirs.Write(maskedFrame(0x80|wsPong, f.data))
		}
		if took := time.Since(began); took < 100*wsPingInterval || took > 101*wsPingInterval {
			t.Errorf("%d pings, %v", pings, took)
		}
		<-c.over
	})
}

func FuzzWSFramer(f *testing.F) {
	f.Add(append(maskedFrame(wsText, []byte("OPTIONS")), maskedFrame(0x80|wsContinuation, []byte(" sip:a"))...), uint8(3))
	f.Add(maskedFrame(0x80|wsPing, []byte("x")), uint8(1))
	f.Add([]byte{0x82, 0xfe, 0x01, 0x00, 1, 2, 3, 4}, uint8(200))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		const limit = 4096
		frames := wsFramer{max: limit}
		n := max(int(step), 1)
		for i := 0; i < len(b); i += n {
			frames.push(b[i:min(i+n, len(b))])
			for {
				got, ok, err := frames.next()
				if err != nil {
					return
				}
				if !ok {
					break
				}
				if len(got.data) > limit || got.op >= wsClose && len(got.data) > 125 {
					t.Fatalf("%x of %d bytes", got.op, len(got.data))
				}
			}
			if len(frames.buf)+len(frames.msg) > limit+14+n {
				t.Fatalf("holds %d bytes", len(frames.buf)+len(frames.msg))
			}
		}
	})
}

// However the bytes are cut, the messages are the same.
func TestWSFramerSteps(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 70000)
	all := append(maskedFrame(wsText, []byte("ab")), maskedFrame(0x80|wsPing, []byte("p"))...)
	all = append(append(all, maskedFrame(0x80|wsContinuation, []byte("c"))...), maskedFrame(0x80|wsBinary, long)...)
	for _, step := range []int{1, 2, 3, 7, 1000, len(all)} {
		w := wsFramer{max: 70000}
		var got []wsFrame
		for i := 0; i < len(all); i += step {
			w.push(all[i:min(i+step, len(all))])
			for {
				f, ok, err := w.next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				got = append(got, f)
			}
		}
		if len(got) != 3 || string(got[0].data) != "p" || string(got[1].data) != "abc" || got[1].op != wsText || !bytes.Equal(got[2].data, long) || w.partial() {
			t.Errorf("step %d: %d frames", step, len(got))
		}
	}
	if f := wsEncode(wsBinary, long); f[1] != 127 || len(f) != len(long)+10 {
		t.Errorf("%x", f[:10])
	}
}
