package phone

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Config says who the phone is and what its line is like. The zero value is an
// anonymous phone with PCMU on a perfect line at 127.0.0.1 over UDP.
type Config struct {
	// Name is the display name in From, Number the user part.
	Name, Number string
	// Domain is the host of From; the local address when empty.
	Domain string
	// Local is the address to bind for SIP and RTP; 127.0.0.1 when not set.
	Local netip.Addr
	// Transport is "udp" or "tcp"; "udp" when empty.
	Transport string
	// Codecs are the names offered, in order: "PCMU", "PCMA", those of Coders; PCMU when
	// empty.
	Codecs []string
	// Coders are encodings beside the two.
	Coders []Coder
	// Encryption is how the sound is encrypted: empty for not at all, SDES,
	// OptionalSDES or DTLS. Suite is the one suite offered, such as
	// AES_CM_128_HMAC_SHA1_80, which it is when empty.
	Encryption, Suite string
	// Noise is the level in dBFS of the room around the microphone, such as -65; 0
	// is a room without any sound.
	Noise float64
	// Room is sound at 8 kHz around the microphone, from the answer on, over and over.
	Room []int16
	// Echo has what is heard come back into the microphone.
	Echo Echo
	// Line impairs what the phone sends, HeardLine what it hears.
	Line, HeardLine Impairment
	// T1 is the retransmission interval of RFC 3261 section 17; 500 ms when 0.
	T1 time.Duration
	// Trace, when set, is given every SIP message as text, with "->" for sent and
	// "<-" for received. It is called from several goroutines at once.
	Trace func(direction, text string)
}

// codec finds an encoding among those the phone has and those it was given.
func (c Config) codec(name string) (codec, error) {
	for i, own := range c.Coders {
		if strings.EqualFold(own.Name, name) {
			return codec{name: own.Name, payloadType: own.PayloadType, coder: &c.Coders[i]}, nil
		}
	}
	return codecNamed(name)
}

// Phone is a user agent with one SIP address. Any number of calls may be up.
type Phone struct {
	config Config
	codecs []codec
	clock  clock
	udp    *net.UDPConn
	tcp    net.Listener
	wait   sync.WaitGroup
	closed chan struct{}

	mu       sync.Mutex
	links    map[netip.AddrPort]net.Conn // TCP connections by remote address
	waiting  map[string]chan *Message    // client transactions by branch and method
	calls    map[string]*Call            // by Call-ID
	replies  map[string][]byte           // last responses by branch and method, for repeated requests
	invites  map[string]*Incoming        // not answered yet, by branch
	incoming func(*Incoming)             // nil: calls are not answered
	refers   func(*Call, *Message)       // nil: REFERs are refused
	signals  []signal                    // every SIP message, for the capture
}

// signal is one datagram of a capture: a SIP message as it was sent or received,
// or an RTP packet.
type signal struct {
	at            time.Duration
	local, remote netip.AddrPort
	sent          bool
	data          []byte
}

// New opens the phone's SIP socket on a free port, UDP and TCP alike, since a
// server may choose either for a request of its own.
func New(config Config) (*Phone, error) {
	if !config.Local.IsValid() {
		config.Local = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if config.T1 == 0 {
		config.T1 = 500 * time.Millisecond
	}
	if config.Transport == "" {
		config.Transport = "udp"
	}
	if config.Transport != "udp" && config.Transport != "tcp" {
		return nil, fmt.Errorf("phone: transport %q; udp and tcp are there", config.Transport)
	}
	if len(config.Codecs) == 0 {
		config.Codecs = []string{"PCMU"}
	}
	p := &Phone{
		config: config, clock: newClock(), closed: make(chan struct{}),
		links: map[netip.AddrPort]net.Conn{}, waiting: map[string]chan *Message{},
		calls: map[string]*Call{}, replies: map[string][]byte{}, invites: map[string]*Incoming{},
	}
	for _, name := range config.Codecs {
		c, err := config.codec(name)
		if err != nil {
			return nil, err
		}
		p.codecs = append(p.codecs, c)
	}
	if err := p.bind(); err != nil {
		return nil, err
	}
	p.wait.Go(p.readUDP)
	p.wait.Go(p.acceptTCP)
	return p, nil
}

// bind finds a port that is free for UDP and TCP.
func (p *Phone) bind() error {
	var last error
	for range 50 {
		udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.config.Local, 0)))
		if err != nil {
			return fmt.Errorf("phone: SIP socket: %w", err)
		}
		tcp, err := net.Listen("tcp", udp.LocalAddr().String())
		if err == nil {
			p.udp, p.tcp = udp, tcp
			return nil
		}
		last = err
		_ = udp.Close()
	}
	return fmt.Errorf("phone: no port is free for both UDP and TCP: %w", last)
}

// Local is the address of the phone's SIP sockets.
func (p *Phone) Local() netip.AddrPort { return addrPort(p.udp.LocalAddr()) }

// Now is the time on the phone's clock, the one of all its logs.
func (p *Phone) Now() time.Duration { return p.clock.now() }

// Wall turns a time of the phone's clock to wall-clock time.
func (p *Phone) Wall(at time.Duration) time.Time { return p.clock.wall(at) }

// Close drops all calls without a word, closes the sockets and waits for every
// goroutine of the phone. It is not a hang-up: use Call.Hangup first.
func (p *Phone) Close() error {
	p.mu.Lock()
	select {
	case <-p.closed:
		p.mu.Unlock()
		return nil
	default:
	}
	close(p.closed)
	calls := make([]*Call, 0, len(p.calls))
	for _, c := range p.calls {
		calls = append(calls, c)
	}
	errs := []error{p.udp.Close(), p.tcp.Close()}
	for _, link := range p.links {
		_ = link.Close()
	}
	p.mu.Unlock()
	for _, c := range calls {
		c.over(End{Reason: "the phone was closed"})
	}
	p.wait.Wait()
	return errors.Join(errs...)
}

// Options asks a server what it can do and returns the final response.
func (p *Phone) Options(ctx context.Context, uri string) (*Message, error) {
	m, err := p.request("OPTIONS", uri, uri, token(), token(), "", 1, nil)
	if err != nil {
		return nil, err
	}
	m.Add("Accept", "application/sdp")
	return p.ask(ctx, m)
}

// request makes a request with the headers that all of them have.
func (p *Phone) request(method, target, to, callID, fromTag, toTag string, sequence int, routes []string) (*Message, error) {
	if _, err := hostPort(target); err != nil {
		return nil, err
	}
	local := p.Local()
	domain := p.config.Domain
	if domain == "" {
		domain = local.Addr().String()
	}
	from := fmt.Sprintf("<sip:%s@%s>;tag=%s", p.config.Number, domain, fromTag)
	if p.config.Number == "" {
		from = fmt.Sprintf("<sip:anonymous@anonymous.invalid>;tag=%s", fromTag)
	}
	if p.config.Name != "" {
		from = fmt.Sprintf("%q %s", p.config.Name, from)
	}
	to = "<" + to + ">"
	if toTag != "" {
		to += ";tag=" + toTag
	}
	m := &Message{Method: method, URI: target}
	m.Add("Via", p.via("z9hG4bK"+token()))
	for _, r := range routes {
		m.Add("Route", r)
	}
	m.Add("Max-Forwards", "70")
	m.Add("From", from)
	m.Add("To", to)
	m.Add("Call-ID", callID)
	m.Add("CSeq", fmt.Sprintf("%d %s", sequence, method))
	m.Add("Contact", fmt.Sprintf("<sip:%s@%s;transport=%s>", p.user(), local, p.config.Transport))
	m.Add("User-Agent", "Parley test phone")
	return m, nil
}

func (p *Phone) user() string {
	if p.config.Number == "" {
		return "phone"
	}
	return p.config.Number
}

func (p *Phone) via(branch string) string {
	transport := map[string]string{"udp": "UDP", "tcp": "TCP"}[p.config.Transport]
	return fmt.Sprintf("SIP/2.0/%s %s;branch=%s;rport", transport, p.Local(), branch)
}

// token is a random word for tags, branches and Call-IDs.
func token() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
