package e2e

import (
	"context"
	"encoding/binary"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent/echo"
	"parley/media/g711"
	"parley/test/audio"
	"parley/test/phone"
)

// TestAStrangerOnTheMediaPort (BR-158): who sends valid RTP to a call's port from
// elsewhere, even before the caller's first packet, hears nothing and is not heard.
func TestAStrangerOnTheMediaPort(t *testing.T) {
	g := startGateway(t, nil)
	opener, err := echo.New(echo.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	g.serve("echo", opener)
	evil := newStranger(t)
	var once sync.Once
	on := newPhone(t, phone.Config{Trace: func(direction, text string) {
		// The phone learns the port after its trace does: these come before its own.
		if port := mediaPort(text); direction == "<-" && port != 0 && strings.HasPrefix(text, "SIP/2.0 200") {
			once.Do(func() { evil.begin(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)) })
		}
	}})
	c := dial(t, on, g.uri("echo"))
	speech := append(human(t, "one-moment-please"), human(t, "transfer")...)
	u := c.Say(speech)
	wait(t, "the call", patience, u.Wait)
	wait(t, "the echo", patience, func(ctx context.Context) error { return c.Pause(ctx, 400*time.Millisecond) })
	sent, answered := evil.end()
	hangUp(t, c)

	first := c.Log().Packets()[0].At
	if evil.first.IsZero() || !evil.first.Before(on.Wall(first)) {
		t.Fatalf("the stranger's first packet was sent at %v, the caller's at %v: no attack", evil.first, on.Wall(first))
	}
	if sent < 100 || answered != 0 {
		t.Errorf("the stranger sent %d packets and got %d, want none", sent, answered)
	}
	sound, least := c.Log().Stereo(), 0.9
	if raced {
		least = 0.75
	}
	if m := audio.FindEnvelope(speech, 8000, sound.Right, sound.Rate); m.Score < least {
		t.Errorf("the caller's echo has a score of %.2f", m.Score)
	}
	if level := power(sound.Right, strangerTone) / float64(len(sound.Right)); level > power(sound.Left, strangerTone)/float64(len(sound.Left))*4+1000 {
		t.Errorf("the caller heard the stranger's tone")
	}
	record, _ := g.ended(t, c)
	// One-byte datagrams are no RTP; everything else of the stranger's is strange.
	if s := record.Stats; int(s.Strange) < sent*9/10 || int(s.Strange+s.Malformed) > 2*sent {
		t.Errorf("the record counts %d strange and %d malformed packets of %d", s.Strange, s.Malformed, sent)
	}
	if in := int(record.Stats.PacketsIn); in > len(c.Log().Marks(phone.Sent))+1 {
		t.Errorf("%d packets counted as the caller's, who sent %d", in, len(c.Log().Marks(phone.Sent)))
	}
}

// mediaPort is the port of the first audio line in a SIP message, or 0.
func mediaPort(text string) uint16 {
	_, after, ok := strings.Cut(text, "m=audio ")
	if !ok {
		return 0
	}
	port, _, _ := strings.Cut(after, " ")
	n, _ := strconv.ParseUint(port, 10, 16)
	return uint16(n)
}

const strangerTone = 1000

// stranger sends a loud tone as RTP from another address.
type stranger struct {
	conn  *net.UDPConn
	stop  chan struct{}
	done  sync.WaitGroup
	first time.Time

	sent, answered int
}

func newStranger(t *testing.T) *stranger {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 3)})
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{conn: conn, stop: make(chan struct{})}
	t.Cleanup(func() { s.end() })
	return s
}

// begin sends four packets at once and then 50 a second, with datagrams of one byte
// between them.
func (s *stranger) begin(to netip.AddrPort) {
	s.first = time.Now()
	for range 4 {
		s.send(to)
	}
	s.done.Go(func() {
		tick := time.NewTicker(packet)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
				s.send(to)
				_, _ = s.conn.WriteToUDPAddrPort([]byte{0x80}, to)
			}
		}
	})
	s.done.Go(func() {
		var buf [2048]byte
		for {
			if _, _, err := s.conn.ReadFrom(buf[:]); err != nil {
				return
			}
			s.answered++
		}
	})
}

func (s *stranger) send(to netip.AddrPort) {
	b := []byte{0x80, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(s.sent))
	b = binary.BigEndian.AppendUint32(b, uint32(s.sent*160))
	b = binary.BigEndian.AppendUint32(b, 0xbad)
	pcm := make([]int16, 160)
	for i := range pcm {
		pcm[i] = int16(12000 * math.Sin(2*math.Pi*strangerTone*float64(s.sent*160+i)/8000))
	}
	encoder, err := g711.PCMU().NewEncoder()
	if err != nil {
		return
	}
	if b, err = encoder.Encode(b, pcm); err != nil {
		return
	}
	if _, err := s.conn.WriteToUDPAddrPort(b, to); err == nil {
		s.sent++
	}
}

// end stops and says how many packets were sent and how many came.
func (s *stranger) end() (sent, answered int) {
	select {
	case <-s.stop:
	default:
		close(s.stop)
		_ = s.conn.Close()
	}
	s.done.Wait()
	return s.sent, s.answered
}
