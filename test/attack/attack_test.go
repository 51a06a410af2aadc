package attack

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// allowance is what an attack may make the server hold.
const allowance = 32 << 20

// during runs an attack while somebody calls, and compares what the server takes
// with what it took before. The attack returns while it still holds what it has;
// release lets go of it.
func (v *victim) during(name string, attack func() (release func())) {
	v.t.Helper()
	idle := v.measure()
	c := v.call()
	release := attack()
	under := v.measure()
	c.finish(v.t, name)
	release()
	after := v.settled(idle.Stats.Connections)
	v.t.Logf("%s: resident %d KB at rest, %+d under attack, %+d after; heap %+d, %+d; goroutines %d, %d, %d; files %d, %d, %d", name,
		idle.RSS>>10, (under.RSS-idle.RSS)>>10, (after.RSS-idle.RSS)>>10, (under.Heap-idle.Heap)>>10, (after.Heap-idle.Heap)>>10,
		idle.Goroutines, under.Goroutines, after.Goroutines, idle.Files, under.Files, after.Files)
	for when, m := range map[string]measure{"under attack": under, "after": after} {
		if m.RSS > idle.RSS+allowance || m.Heap > idle.Heap+allowance {
			v.t.Errorf("%s: %s it holds %d KB more, on the heap %d", name, when, (m.RSS-idle.RSS)>>10, (m.Heap-idle.Heap)>>10)
		}
		if m.Stats.Panics != 0 {
			v.t.Errorf("%s: %d panics", name, m.Stats.Panics)
		}
	}
	if after.Goroutines > idle.Goroutines+5 || after.Files > idle.Files+5 || after.Stats.Connections > idle.Stats.Connections {
		v.t.Errorf("%s: left behind: %d goroutines, %d files, %d connections", name,
			after.Goroutines-idle.Goroutines, after.Files-idle.Files, after.Stats.Connections)
	}
	if n := v.closeWait(); n != 0 {
		v.t.Errorf("%s: %d sockets in CLOSE_WAIT", name, n)
	}
}

// closeWait counts the server's sockets in CLOSE_WAIT (BR-172).
func (v *victim) closeWait() (n int) {
	v.t.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		v.t.Fatal(err)
	}
	for _, at := range []string{v.tcp, v.ws} {
		port := fmt.Sprintf(":%04X", netip.MustParseAddrPort(at).Port())
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 3 && f[3] == "08" && strings.HasSuffix(f[1], port) {
				n++
			}
		}
	}
	return n
}

// BR-164 and the rest of cases about floods, one attack after the other on one
// server. Real calls go on, and nothing is left.
func TestUnderAttack(t *testing.T) {
	if raced {
		t.Skip("memory is measured, which the race detector needs many times as much of")
	}
	v := start(t)
	warm := v.call() // so that what is made once is made
	time.Sleep(2 * time.Second)
	warm.finish(t, "at rest")

	v.during("20,000 made-up sources", func() func() { return v.spoof(20000) })
	v.during("200 slow TCP connections", func() func() { return v.slow(v.tcp, 200, "", "INVITE sip:bot@example.com SIP/2.0\r\nX: ") })
	v.during("200 silent TCP connections", func() func() { return v.slow(v.tcp, 200, "", "") })
	v.during("200 slow WebSockets", func() func() { return v.slow(v.ws, 200, opening, "\x01\xfe\x10\x00mask") })
	v.during("200 WebSockets that do not open", func() func() { return v.slow(v.ws, 200, "", opening[:60]) })
	v.during("50 MB of headers over TCP", func() func() {
		return v.flood(v.tcp, "INVITE sip:bot@example.com SIP/2.0\r\n", bytes.Repeat([]byte("X-Header: "+strings.Repeat("x", 90)+"\r\n"), 1000))
	})
	v.during("50 MB in one header over TCP", func() func() {
		return v.flood(v.tcp, "INVITE sip:bot@example.com SIP/2.0\r\nX: ", bytes.Repeat([]byte("x"), 100000))
	})
	v.during("50 MB of headers to open a WebSocket", func() func() {
		return v.flood(v.ws, "GET / HTTP/1.1\r\n", bytes.Repeat([]byte("X-Header: "+strings.Repeat("x", 90)+"\r\n"), 1000))
	})
	v.during("50 MB in one WebSocket message", func() func() {
		return v.flood(v.ws, opening+"\x81\xff"+string(binary.BigEndian.AppendUint64(nil, 50<<20))+"mask", bytes.Repeat([]byte("x"), 100000))
	})
	v.during("20 times 60 KB that wait for an end", func() func() {
		return v.slow(v.tcp, 20, "", "INVITE sip:bot@example.com SIP/2.0\r\nX: "+strings.Repeat("x", 60000))
	})
}

// spoof sends INVITEs, other requests and garbage from n addresses that do not
// exist, 8 datagrams a millisecond.
func (v *victim) spoof(n int) func() {
	v.t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{})
	if err != nil {
		v.t.Fatal(err)
	}
	defer conn.Close()
	to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(v.udp))
	began, sent := time.Now(), 0
	for i := range n {
		from := [4]byte{127, byte(1 + i>>14), byte(i >> 6), byte(1 + i&0x3f)}
		oob := unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: from})
		host := netip.AddrFrom4(from).String()
		for _, text := range []string{spoofed("INVITE", host, i), spoofed("OPTIONS", host, i), spoofed("REGISTER", host, i), spoofed("INVITE", host, i)[:200], "\x16\x03\x01 garbage"} {
			if _, _, err := conn.WriteMsgUDP([]byte(text), oob, to); err != nil {
				v.t.Fatal(err)
			}
			if sent++; sent%8 == 0 {
				time.Sleep(time.Until(began.Add(time.Duration(sent/8) * time.Millisecond)))
			}
		}
	}
	return func() {}
}

func spoofed(method, host string, i int) string {
	body := ""
	if method == "INVITE" {
		body = description
	}
	return fmt.Sprintf("%s sip:+1900%07d@example.com SIP/2.0\r\nVia: SIP/2.0/UDP %s:5060;branch=z9hG4bK%d%s\r\nFrom: \"%d\" <sip:%d@%s>;tag=%d\r\nTo: <sip:+1900@example.com>\r\n"+
		"Call-ID: %d.%s@%s\r\nCSeq: 1 %s\r\nContact: <sip:%d@%s>\r\nUser-Agent: %s\r\nContent-Type: application/sdp\r\nContent-Length: %d\r\n\r\n%s",
		method, i, host, i, method, i, i, host, i, i, method, host, method, i, host, []string{"friendly-scanner", "Parley", "pplsip"}[i%3], len(body), body)
}

// opening opens a WebSocket.
var opening = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sip\r\n" +
	"Sec-WebSocket-Key: " + base64.StdEncoding.EncodeToString(make([]byte, 16)) + "\r\n\r\n"

// slow opens n connections that begin a message and then send a byte at a time,
// for five seconds. They are held until release.
func (v *victim) slow(to string, n int, first, begin string) (release func()) {
	v.t.Helper()
	var all []net.Conn
	for range n {
		conn, err := net.Dial("tcp", to)
		if err != nil {
			v.t.Fatal(err)
		}
		if first != "" {
			if _, err := io.WriteString(conn, first); err != nil {
				v.t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 4096)); err != nil {
				v.t.Fatal(err)
			}
		}
		if _, err := io.WriteString(conn, begin); err != nil {
			v.t.Fatal(err)
		}
		all = append(all, conn)
	}
	for range 50 {
		time.Sleep(100 * time.Millisecond)
		for _, conn := range all {
			if begin != "" {
				_, _ = conn.Write([]byte("x")) // it may have been closed: that is right
			}
		}
	}
	return func() {
		for _, conn := range all {
			conn.Close()
		}
	}
}

// flood sends 50 MB over each of four connections at once, or as much of it as is
// taken.
func (v *victim) flood(to, begin string, chunk []byte) func() {
	v.t.Helper()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			conn, err := net.Dial("tcp", to)
			if err != nil {
				v.t.Error(err)
				return
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
				v.t.Error(err)
				return
			}
			go io.Copy(io.Discard, conn)
			n, err := io.WriteString(conn, begin)
			for sent := n; err == nil && sent < 50<<20; sent += n {
				n, err = conn.Write(chunk)
			}
			if err == nil {
				v.t.Errorf("50 MB were taken")
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Second) // some calls more
	return func() {}
}
