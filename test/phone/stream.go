package phone

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"parley/test/audio"
)

// packetTime is the length of the phone's packets.
const packetTime = 20 * time.Millisecond

// stream is the sound of one call: a socket, a thread that sends on absolute
// deadlines, and a reader for every socket it ever had.
type stream struct {
	clock  clock
	log    *Log
	guard  *guard // nil: the sound is not encrypted
	say    *mouth
	out    *impairment
	in     *impairment
	wait   sync.WaitGroup
	closed chan struct{}
	coders []codec // of this call
	echo   *echo   // nil: nothing comes back

	mu      sync.Mutex
	conn    *net.UDPConn
	answer  answer
	sending bool
	started bool
}

func newStream(c clock, log *Log, config Config) (*stream, error) {
	s := &stream{
		clock: c, log: log, say: newMouth(config.Noise), closed: make(chan struct{}),
		out: newImpairment(config.Line, 1), in: newImpairment(config.HeardLine, 2),
	}
	var err error
	for _, name := range config.Codecs {
		c, err := config.codec(name)
		if err != nil {
			return nil, err
		}
		if c.coder == nil {
			continue
		}
		if c, err = c.ready(); err != nil {
			return nil, fmt.Errorf("phone: %s: %w", name, err)
		}
		s.coders = append(s.coders, c)
	}
	s.say.room, s.echo = config.Room, newEcho(config.Echo)
	if s.guard, err = newGuard(config); err != nil {
		return nil, err
	}
	if err := s.open(config.Local); err != nil {
		return nil, err
	}
	return s, nil
}

// open binds a new socket, reads from it from now on and sends from it.
func (s *stream) open(local netip.Addr) error {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		return fmt.Errorf("phone: RTP socket: %w", err)
	}
	if err := stampArrivals(conn); err != nil {
		_ = conn.Close()
		return fmt.Errorf("phone: receive timestamps: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		_ = conn.Close()
		return ErrEnded
	}
	s.conn = conn
	s.wait.Go(func() { s.read(conn) })
	return nil
}

// socket is the socket in use.
func (s *stream) socket() *net.UDPConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// settle ends a move of the port: the old socket is closed, or, when the other
// side refused, the new one is, and the old one goes on.
func (s *stream) settle(old *net.UDPConn, moved bool) {
	s.mu.Lock()
	drop := old
	if !moved {
		drop, s.conn = s.conn, old
	}
	if s.isClosed() { // meanwhile, with the new one only
		_ = s.conn.Close()
	}
	s.mu.Unlock()
	_ = drop.Close()
}

func (s *stream) local() netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return addrPort(s.conn.LocalAddr())
}

func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.UDPAddr:
		p := a.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	case *net.TCPAddr:
		p := a.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}

// parse reads an answer, which must fit the offer.
func (s *stream) parse(body []byte) (answer, error) {
	a, err := parseAnswer(body, s.coders...)
	if err == nil {
		err = s.guard.take(a)
	}
	return a, err
}

// agree takes what the server answered and starts sending, if it is not yet.
func (s *stream) agree(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = a
	s.sending = a.peer.Port() != 0 && !a.peer.Addr().IsUnspecified() && a.direction != "sendonly" && a.direction != "inactive"
	if !s.started && !s.isClosed() {
		s.started = true
		s.wait.Go(s.send)
		if s.guard != nil && s.guard.kind == DTLS {
			s.wait.Go(func() { s.guard.meet(s, a) })
		}
	}
}

// close ends the thread and the readers and waits for them.
func (s *stream) close() {
	s.mu.Lock()
	close(s.closed)
	_ = s.conn.Close()
	s.mu.Unlock()
	s.wait.Wait()
	s.say.stop()
}

func (s *stream) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// send is the microphone: one packet every 20 ms until the stream is closed.
func (s *stream) send() {
	ownThread()
	p := Packet{Direction: Sent, Sequence: uint16(rand.Uint32()), Timestamp: rand.Uint32(), SSRC: rand.Uint32(), Marker: true}
	var line delayLine
	for due := s.clock.now(); ; {
		next, waiting := line.next()
		if waiting && next < due {
			s.clock.sleepUntil(next)
			s.transmit(line.pop())
			continue
		}
		s.clock.sleepUntil(due)
		if s.isClosed() {
			return
		}
		due += packetTime
		s.mu.Lock()
		a, on := s.answer, s.sending
		s.mu.Unlock()
		frame := s.say.next(a, p.Timestamp, s.echo.take(s.clock.now()))
		p.clock = a.codec.clock()
		if on {
			s.offer(&p, frame, &line)
		}
		p.Timestamp += frameSamples * p.clock / sampleRate
	}
}

// offer sends one frame, or loses or delays it as the impairment wants.
func (s *stream) offer(p *Packet, f frame, line *delayLine) {
	out := *p
	out.Payload, out.Level, out.Audio = f.payload, f.level, f.digit == 0
	out.PayloadType, out.Digit, out.DigitEnd, out.pcm = f.payloadType, f.digit, f.last, f.pcm
	out.Marker, out.utterance = p.Marker || f.first, f.utterance
	if f.digit != 0 {
		out.Timestamp = f.timestamp
	}
	p.Sequence++
	p.Marker = false
	lost, delay := s.out.judge()
	switch {
	case lost:
		out.Dropped = true
		s.stamp(&out)
		s.log.add(out)
	case delay > 0:
		line.push(out, s.clock.now()+delay)
	default:
		s.transmit(out)
	}
}

func (s *stream) stamp(p *Packet) *net.UDPConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Local, p.Remote = addrPort(s.conn.LocalAddr()), s.answer.peer
	p.At = s.clock.now()
	return s.conn
}

func (s *stream) transmit(p Packet) {
	conn := s.stamp(&p)
	b, ok := s.guard.encrypt(appendRTP(make([]byte, 0, 256), p))
	if !ok {
		return
	}
	if _, err := conn.WriteToUDPAddrPort(b, p.Remote); err == nil {
		s.log.add(p)
		if p.utterance != nil {
			p.utterance.packet(p)
		}
	}
}

// read is the ear of one socket. It ends when the socket is closed.
func (s *stream) read(conn *net.UDPConn) {
	local := addrPort(conn.LocalAddr())
	buf, oob := make([]byte, 65536), make([]byte, 256)
	for {
		n, on, _, from, err := conn.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // a refused packet of ours is reported on the next read
		}
		b, ok := s.guard.decrypt(buf[:n])
		if !ok {
			continue
		}
		p, ok := parseRTP(b)
		if !ok {
			continue
		}
		p.Direction, p.Local = Heard, local
		p.Remote = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		p.At = s.clock.arrival(kernelTime(oob[:on]))
		s.understand(&p)
		p.Dropped, _ = s.in.judge()
		s.log.add(p)
	}
}

// understand says whether a received packet is sound or a key.
func (s *stream) understand(p *Packet) {
	s.mu.Lock()
	a := s.answer
	s.mu.Unlock()
	switch {
	case p.PayloadType == eventType || (a.event != 0 && p.PayloadType == a.event):
		if len(p.Payload) >= 4 && int(p.Payload[0]) < len(eventDigits) {
			p.Digit, p.DigitEnd = eventDigits[p.Payload[0]], p.Payload[1]&0x80 != 0
		}
	case a.codec.coder != nil && p.PayloadType == a.codec.payloadType:
		p.pcm, p.clock = a.codec.pcm(p.Payload), a.codec.clock()
		p.Audio, p.Level = true, audio.Level(p.pcm)
		s.echo.heard(p.At, p.pcm)
	case p.PayloadType == 0 || p.PayloadType == 8:
		name := "PCMU"
		if p.PayloadType == 8 {
			name = "PCMA"
		}
		c, _ := codecNamed(name)
		pcm := c.pcm(p.Payload)
		p.Audio, p.Level = true, audio.Level(pcm)
		s.echo.heard(p.At, pcm)
	}
}
