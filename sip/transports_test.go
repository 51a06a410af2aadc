package sip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
)

// One socket for all addresses of both families: what comes by IPv4 is answered by
// IPv4, and Contact and Via are of the family and the address that was reached.
func TestBothFamiliesOnOneSocket(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle, func(c *Config) {
		c.Listen = []Listener{{Network: "udp", Addr: "[::]:0"}, {Network: "tcp", Addr: "[::]:0"}, {Network: "ws", Addr: "[::1]:0"}}
	})
	for i, network := range networks {
		for host, received := range map[string]string{"127.0.0.1": "127.0.0.1", "[::1]": "::1"} {
			to := netip.MustParseAddrPort(fmt.Sprintf("%s:%d", host, b.Addrs()[i].Addr.Port()))
			p := dialPhone(t, network, to)
			c := p.dial(newInvite())
			if want := "@" + to.String() + ";transport=" + network; !strings.Contains(c.ok.get("Contact"), want) || !strings.Contains(c.ok.get("Via"), "received="+received+";") {
				t.Errorf("%s %s:\n%s", network, host, c.ok.raw)
			}
			d := wait(t, h.calls, "the call")
			c.ack(1, "")
			go d.Bye(context.Background(), Reason{})
			bye := p.request("BYE")
			if !strings.HasPrefix(bye.get("Via"), "SIP/2.0/"+strings.ToUpper(network)+" "+to.String()) {
				t.Errorf("Via %q", bye.get("Via"))
			}
			p.reply(bye, 200)
			ended(t, d, ErrLocalBye)
		}
	}
	p := b.webPhone(b.Addrs()[2].Addr, nil)
	if c := p.dial(newInvite()); !strings.Contains(c.ok.get("Contact"), "@[::1]:") {
		t.Errorf("Contact %q", c.ok.get("Contact"))
	}
}

// BR-069: every spelling of a Via. Where the answer goes, and what is written into
// it. X is the sender's port, Y that of a second socket of the same address.
func TestViaOfNATs(t *testing.T) {
	b := start(t, quiet)
	for _, tt := range []struct {
		name, via, want string
		toVia           bool // to the port of Via
	}{
		{"rport", "SIP/2.0/UDP 10.99.99.99:5078;branch=z9hG4bKa;rport", "SIP/2.0/UDP 10.99.99.99:5078;branch=z9hG4bKa;received=127.0.0.2;rport=X", false},
		{"upper case", "SIP/2.0/UDP 10.99.99.99;RPORT;branch=z9hG4bKa", "SIP/2.0/UDP 10.99.99.99;branch=z9hG4bKa;received=127.0.0.2;rport=X", false},
		{"rport with an equals sign", "SIP/2.0/UDP h.example.com;rport=;branch=z9hG4bKa", "SIP/2.0/UDP h.example.com;branch=z9hG4bKa;received=127.0.0.2;rport=X", false},
		{"rport that is made up", "SIP/2.0/UDP h;rport=1;received=192.0.2.1;branch=z9hG4bKa", "SIP/2.0/UDP h;branch=z9hG4bKa;received=127.0.0.2;rport=X", false},
		{"no rport", "SIP/2.0/UDP 10.99.99.99:Y;branch=z9hG4bKa", "SIP/2.0/UDP 10.99.99.99:Y;branch=z9hG4bKa;received=127.0.0.2", true},
		{"maddr", "SIP/2.0/UDP 10.99.99.99:Y;maddr=127.0.0.9;branch=z9hG4bKa", "SIP/2.0/UDP 10.99.99.99:Y;maddr=127.0.0.9;branch=z9hG4bKa;received=127.0.0.2", true},
		{"maddr and rport", "SIP/2.0/UDP 10.99.99.99:Y;maddr=127.0.0.9;branch=z9hG4bKa;rport", "SIP/2.0/UDP 10.99.99.99:Y;maddr=127.0.0.9;branch=z9hG4bKa;received=127.0.0.2;rport=X", false},
		{"IPv6 in Via", "SIP/2.0/UDP [2001:db8::1]:5078;branch=z9hG4bKa;rport", "SIP/2.0/UDP [2001:db8::1]:5078;branch=z9hG4bKa;received=127.0.0.2;rport=X", false},
		{"the right address", "SIP/2.0/UDP 127.0.0.2:Y;branch=z9hG4bKa", "SIP/2.0/UDP 127.0.0.2:Y;branch=z9hG4bKa;received=127.0.0.2", true},
		{"blanks", "SIP / 2.0 / UDP 10.9.9.9 : Y ; branch = z9hG4bKa ; rport", "SIP / 2.0 / UDP 10.9.9.9 : Y;branch = z9hG4bKa;received=127.0.0.2;rport=X", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := b.phoneAt("127.0.0.2")
			second, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}, net.UDPAddrFromAddrPort(b.udp))
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			real := func(s string) string {
				s = strings.ReplaceAll(s, "X", strconv.Itoa(p.conn.LocalAddr().(*net.UDPAddr).Port))
				return strings.ReplaceAll(s, "Y", strconv.Itoa(second.LocalAddr().(*net.UDPAddr).Port))
			}
			inv := newInvite()
			inv.via = real(tt.via)
			p.send(inv)
			hears := p
			if tt.toVia {
				hears = &phone{t: t, conn: second}
			}
			m := hears.expect("INVITE", 486)
			if got := m.get("Via"); got != real(tt.want) {
				t.Errorf("Via %q, want %q", got, real(tt.want))
			}
			// Copies go the same way.
			if m := hears.read(patience); m == nil || m.code != 486 {
				t.Errorf("the copy: %+v", m)
			}
			ack := ackOf(inv, m)
			ack.via = inv.via
			p.send(ack)
		})
	}
}

// BR-172: peers that go away leave nothing in CLOSE_WAIT, whatever they were in
// the middle of.
func TestNoCloseWait(t *testing.T) {
	b := start(t, answering(&script{}).handle, func(c *Config) {
		c.Listen = append(c.Listen, Listener{Network: "ws", Addr: "127.0.0.1:0"})
	})
	plain, web := b.Addrs()[1].Addr, b.Addrs()[2].Addr
	for i := range 100 {
		to := plain
		if i%3 == 0 {
			to = web
		}
		p := dialPhone(t, "tcp", to)
		switch i % 5 {
		case 1:
			p.write("INVITE sip:half")
		case 2:
			p.write("\r\n\r\n")
		case 3:
			if to == plain {
				p.dial(newInvite())
			}
		}
		p.conn.(*net.TCPConn).CloseWrite()
	}
	eventually(t, "the end of all connections", func() bool { return b.Stats().Connections == 0 })
	if n := closeWait(t, plain.Port(), web.Port()); n != 0 {
		t.Errorf("%d sockets in CLOSE_WAIT", n)
	}
}

// closeWait counts sockets of this machine in CLOSE_WAIT at local ports.
func closeWait(t *testing.T, ports ...uint16) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "08" { // enum of include/net/tcp_states.h
			continue
		}
		for _, p := range ports {
			if strings.HasSuffix(f[1], fmt.Sprintf(":%04X", p)) {
				n++
			}
		}
	}
	return n
}

// BR-063: a whole INVITE, cut at each line end, which then comes alone.
func TestTCPCutAtLineEnds(t *testing.T) {
	b := start(t, quiet)
	p := b.phone("tcp")
	for i, line := range strings.SplitAfter(p.text(newInvite()), "\r\n") {
		text := strings.TrimSuffix(line, "\r\n")
		p.write(text)
		if text != line {
			p.write("\r")
			p.write("\n")
		}
		if i == 2 {
			p.write("Subject: a\r\n")
			p.write(" \r\n") // folding
			p.write(" b\r\n")
		}
	}
	p.expect("INVITE", 486)
}

// BR-066: a body longer than its Content-Length. What is left over begins no
// message: the connection is closed, and does not hang.
func TestTCPLongBody(t *testing.T) {
	b := start(t, quiet)
	for tail, goesOn := range map[string]bool{"\r\n": true, "\r\n\r\n\r\n": true, "\n\r\n": true, "xy\r\n": false, " \r\n": false, "\x00": false} {
		p := b.phone("tcp")
		options := p.text(newCall(req{method: "OPTIONS", body: "1234567890", kind: "a/b"}))
		p.write(options + tail)
		p.expect("OPTIONS", 200)
		if goesOn {
			p.write(options)
			p.expect("OPTIONS", 200)
			continue
		}
		if p.conn.Write([]byte(options)); p.read(patience) != nil {
			t.Errorf("%q: the connection goes on", tail)
		}
	}
}
