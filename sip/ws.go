package sip

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// SIP over WebSocket (RFC 7118), for telephones in browsers. A connection is a
// tcpConn like any other, with the same bounds; what differs is how it begins and
// how messages are framed in it. A browser cannot be connected to: requests of
// ours go back over the connection that its INVITE came by, whatever its Contact
// says, and end with it.

// wsHead bounds the HTTP request that opens a WebSocket.
const wsHead = 8192

// wsPingInterval is how long a WebSocket may be silent before we ask whether the
// peer is still there (RFC 7118 section 6): proxies cut what is idle for a minute,
// and pages cannot send pings themselves.
const wsPingInterval = 25 * time.Second

// websocket says that a listener speaks SIP over WebSocket.
func (l *listener) websocket() bool { return l.cfg.Network == "ws" || l.cfg.Network == "wss" }

// wsRefusal is an opening request that is refused.
type wsRefusal struct {
	code int
	rule string
	text string
}

func (r *wsRefusal) Error() string { return "sip: WebSocket refused: " + r.text }

var errWSHead = &wsRefusal{431, "websocket", "the opening request is too large"}

// upgrade reads the request that opens a WebSocket and answers it. rest is what
// came after the request.
func (c *tcpConn) upgrade(origins []string) (rest []byte, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	head, rest, err := readHead(c.conn)
	if err != nil && err != errWSHead {
		return nil, err
	}
	accept, refused := "", errWSHead
	if err == nil {
		accept, refused = openWebSocket(head, origins)
	}
	if refused != nil {
		more := ""
		if refused.code == http.StatusUpgradeRequired {
			more = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		}
		text := refused.text + "\n"
		_, werr := fmt.Fprintf(c.conn, "HTTP/1.1 %d %s\r\n%sContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			refused.code, http.StatusText(refused.code), more, len(text), text)
		return nil, errors.Join(refused, werr)
	}
	if _, err := io.WriteString(c.conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: "+accept+"\r\nSec-WebSocket-Protocol: sip\r\n\r\n"); err != nil {
		return nil, err
	}
	return rest, c.conn.SetDeadline(time.Time{})
}

// readHead reads up to the blank line that ends the headers.
func readHead(r io.Reader) (head, rest []byte, err error) {
	buf := make([]byte, 0, 1024)
	for {
		buf = slices.Grow(buf, 512)
		n, err := r.Read(buf[len(buf):min(cap(buf), len(buf)+512)])
		from := max(0, len(buf)-3)
		buf = buf[:len(buf)+n]
		if i := bytes.Index(buf[from:], []byte("\r\n\r\n")); i >= 0 {
			end := from + i + 4
			if end > wsHead {
				return nil, nil, errWSHead
			}
			return buf[:end], buf[end:], nil
		}
		if err != nil {
			return nil, nil, err
		}
		if len(buf) > wsHead {
			return nil, nil, errWSHead
		}
	}
}

// openWebSocket checks an opening request (RFC 6455 section 4.2.1, RFC 7118
// section 4.2) and returns the value of Sec-WebSocket-Accept.
func openWebSocket(head []byte, origins []string) (accept string, refused *wsRefusal) {
	bad := func(code int, text string) (string, *wsRefusal) { return "", &wsRefusal{code, "websocket", text} }
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil || r.ContentLength > 0 || r.TransferEncoding != nil {
		return bad(400, "not an HTTP request that could open a WebSocket")
	}
	switch {
	case r.Method != http.MethodGet:
		return bad(405, "a WebSocket is opened with GET")
	case !hasToken(r.Header["Upgrade"], "websocket") || !hasToken(r.Header["Connection"], "upgrade"):
		return bad(426, "this port speaks SIP over WebSocket")
	case r.Header.Get("Sec-Websocket-Version") != "13":
		return bad(426, "version 13 of WebSocket is spoken here")
	case !hasToken(r.Header["Sec-Websocket-Protocol"], "sip"):
		return bad(400, "the subprotocol sip must be offered")
	}
	if key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-Websocket-Key")); err != nil || len(key) != 16 {
		return bad(400, "bad Sec-WebSocket-Key")
	}
	if from := r.Header["Origin"]; len(from) > 1 || len(from) == 1 && !originAllowed(from[0], origins) {
		return "", &wsRefusal{403, "origin", "pages of this origin may not call"}
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// hasToken looks for one element of comma-separated header values.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// originAllowed says whether pages of an origin may open a WebSocket. Without a
// list those are pages of this machine or of a private address: names do not
// count, for a stranger's page can have a name that leads to us.
func originAllowed(origin string, allowed []string) bool {
	for _, a := range allowed {
		if a == "*" || strings.EqualFold(strings.TrimSuffix(a, "/"), origin) {
			return true
		}
	}
	if len(allowed) > 0 {
		return false
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if strings.EqualFold(u.Hostname(), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && Inside(addr)
}

// checkOrigin is nil when s can stand in Config.Origins.
func checkOrigin(s string) error {
	if s == "*" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("%q is not * or such as \"https://phone.example.com\"", s)
	}
	return nil
}

// drainWS handles all whole messages of a WebSocket. done says that there was one.
func (s *Server) drainWS(f *flow, w *wsFramer) (done bool, err error) {
	for {
		frame, ok, err := w.next()
		if err != nil {
			return done, f.conn.part(err)
		}
		if !ok {
			return done, nil
		}
		switch frame.op {
		case wsPing:
			if err := f.conn.frame(wsPong, frame.data); err != nil {
				return done, err
			}
		case wsPong:
		case wsClose:
			return done, f.conn.part(errWSDone)
		default:
			done = true
			if err := s.receiveWS(f, frame.data); err != nil {
				return done, err
			}
		}
	}
}

// receiveWS takes one message. Of line ends alone four are a ping, which is
// answered with two (RFC 5626 section 4.4.1).
func (s *Server) receiveWS(f *flow, data []byte) error {
	text := bytes.TrimLeft(data, "\r\n")
	if len(text) > 0 {
		s.receive(f, text)
		return nil
	}
	if string(data) == "\r\n\r\n" {
		return f.conn.frame(wsText, []byte("\r\n"))
	}
	return nil
}

// part says good-bye with the code of why, and returns why.
func (c *tcpConn) part(why error) error {
	var w *wsError
	if !errors.As(why, &w) {
		return why
	}
	// The peer may be gone already: then nobody misses it.
	if err := c.frame(wsClose, binary.BigEndian.AppendUint16(nil, w.code)); err != nil && w != errWSDone {
		return errors.Join(why, err)
	}
	return why
}

// farewell closes a connection at the end of the server. TLS and WebSocket say
// good-bye, which may take time.
func (c *tcpConn) farewell() {
	if c.web.Load() && !c.gone.Load() {
		c.part(errWSAway) //nolint:errcheck // it is going away either way
	}
	c.close()
}

// refusedUpgrade logs why no WebSocket was opened.
func (s *Server) refusedUpgrade(f *flow, err error) {
	rule := "handshake"
	var r *wsRefusal
	if errors.As(err, &r) {
		rule = r.rule
	}
	s.noise.warn("websocket "+rule, "sip: WebSocket refused", zap.String("rule", rule), zap.String("peer", f.remote.String()), zap.Error(err))
}
