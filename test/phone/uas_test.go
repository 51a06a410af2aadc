package phone

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
)

// uas is a server on another stack for the phone to call: it echoes sound, rings
// for ever when called as "ring", refuses "busy", hangs up on "bye" after 300 ms.
type uas struct {
	t      *testing.T
	addr   string
	media  *net.UDPConn
	cache  *sipgo.DialogServerCache
	mu     sync.Mutex
	offers []string
	seen   []string
	from   string
}

func newUAS(t *testing.T, network string) *uas {
	t.Helper()
	media, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	u := &uas{t: t, media: media}
	agent, err := sipgo.NewUA()
	if err != nil {
		t.Fatal(err)
	}
	server, err := sipgo.NewServer(agent)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sipgo.NewClient(agent)
	if err != nil {
		t.Fatal(err)
	}
	var serve func()
	u.addr, serve = listenSIP(t, server, network)
	host, port, _ := net.SplitHostPort(u.addr)
	contact := sip.ContactHeader{Address: sip.Uri{User: "uas", Host: host}}
	fmt.Sscan(port, &contact.Address.Port)
	u.cache = sipgo.NewDialogServerCache(client, contact)
	u.handle(server)
	go serve()
	done := make(chan struct{})
	go u.echo(done)
	t.Cleanup(func() {
		_ = media.Close()
		<-done
		_ = server.Close()
		_ = agent.Close()
	})
	return u
}

func listenSIP(t *testing.T, server *sipgo.Server, network string) (addr string, serve func()) {
	if network == "tcp" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l.Addr().String(), func() { _ = server.ServeTCP(l) }
	}
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.LocalAddr().String(), func() { _ = server.ServeUDP(l) }
}

func (u *uas) note(req *sip.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, req.Method.String())
	if req.Method == sip.INVITE {
		u.offers = append(u.offers, string(req.Body()))
		u.from = req.From().Value()
	}
}

func (u *uas) methods() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return strings.Join(u.seen, " ")
}

func (u *uas) offer(i int) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i >= len(u.offers) {
		return ""
	}
	return u.offers[i]
}

func (u *uas) handle(server *sipgo.Server) {
	server.OnInvite(func(req *sip.Request, tx sip.ServerTransaction) {
		u.note(req)
		if _, again := req.To().Params.Get("tag"); again {
			u.reinvite(req, tx)
			return
		}
		d, err := u.cache.ReadInvite(req, tx)
		if err != nil {
			u.t.Error(err)
			return
		}
		switch req.Recipient.User {
		case "busy":
			_ = d.Respond(486, "Busy Here", nil)
			return
		case "ring":
			_ = d.Respond(180, "Ringing", nil)
			<-tx.Done()
			return
		}
		_ = d.Respond(180, "Ringing", nil)
		answer := u.answer("sendrecv")
		if req.Recipient.User == "opus" {
			answer = strings.NewReplacer("AVP 0 ", "AVP 111 ", "a=rtpmap:0 PCMU/8000", "a=rtpmap:111 opus/48000/2").Replace(answer)
		}
		if d.RespondSDP([]byte(answer)) == nil && req.Recipient.User == "bye" {
			time.Sleep(300 * time.Millisecond)
			_ = d.Bye(context.Background())
			return
		}
		<-d.Context().Done()
	})
	server.OnAck(func(req *sip.Request, tx sip.ServerTransaction) { u.note(req); _ = u.cache.ReadAck(req, tx) })
	server.OnBye(func(req *sip.Request, tx sip.ServerTransaction) { u.note(req); _ = u.cache.ReadBye(req, tx) })
	server.OnCancel(func(req *sip.Request, tx sip.ServerTransaction) { u.note(req) })
	server.OnOptions(func(req *sip.Request, tx sip.ServerTransaction) {
		u.note(req)
		_ = tx.Respond(sip.NewResponseFromRequest(req, 200, "OK", nil))
	})
}

func (u *uas) reinvite(req *sip.Request, tx sip.ServerTransaction) {
	direction := "sendrecv"
	if strings.Contains(string(req.Body()), "a=sendonly") {
		direction = "recvonly"
	}
	r := sip.NewResponseFromRequest(req, 200, "OK", []byte(u.answer(direction)))
	r.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	_ = tx.Respond(r)
}

func (u *uas) answer(direction string) string {
	return fmt.Sprintf("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"+
		"m=audio %d RTP/AVP 0 96\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:96 telephone-event/8000\r\na=%s\r\n",
		addrPort(u.media.LocalAddr()).Port(), direction)
}

func (u *uas) echo(done chan<- struct{}) {
	defer close(done)
	buf := make([]byte, 2048)
	for {
		n, from, err := u.media.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		_, _ = u.media.WriteToUDPAddrPort(buf[:n], from)
	}
}
