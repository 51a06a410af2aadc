package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/call"
	"parley/identity"
	"parley/media"
	"parley/media/g711"
	"parley/media/opus"
	"parley/media/resample"
	"parley/media/vad"
	"parley/rtp"
	"parley/sip"
	"parley/test/phone"
)

// gateway is everything of the server but its configuration file, on loopback.
type gateway struct {
	calls *call.Server
	wheel *rtp.Wheel
	sip   *sip.Server
	stop  context.CancelFunc
	done  chan error

	mu     sync.Mutex
	agents map[string]agent.Opener
	events map[string][]agent.Event
	ended  map[string]chan []agent.Event // by SIP Call-ID
}

// newGateway starts a gateway whose voice detectors are made by detect.
func newGateway(detect func(rate int) (vad.Detector, error)) (*gateway, error) {
	g := &gateway{
		done: make(chan error, 1), agents: map[string]agent.Opener{}, events: map[string][]agent.Event{}, ended: map[string]chan []agent.Event{},
	}
	wideband, err := opus.Opus(opus.DefaultConfig())
	if err != nil {
		return nil, err
	}
	who, err := identity.New(identity.DefaultConfig())
	if err != nil {
		return nil, err
	}
	rc := rtp.DefaultConfig()
	rc.Addr, rc.PortMin, rc.PortMax = netip.MustParseAddr("127.0.0.1"), 0, 0
	if g.wheel, err = rtp.NewWheel(rc); err != nil {
		return nil, err
	}
	cc := call.DefaultConfig()
	cc.Codecs, cc.MaxCalls = []string{"opus", "PCMU"}, 1000
	g.calls, err = call.NewServer(cc, call.Parts{
		Wheel: g.wheel, Identity: who, Codecs: []media.Codec{wideband, g711.PCMU()}, Observer: g, Voice: detect, Route: g.route,
	})
	if err != nil {
		return nil, errors.Join(err, g.wheel.Close())
	}
	sc := sip.DefaultConfig()
	sc.Listen = []sip.Listener{{Network: "udp", Addr: "127.0.0.1:0"}}
	if g.sip, err = sip.NewServer(sc, zap.NewNop()); err == nil {
		err = g.sip.Listen()
	}
	if err != nil {
		return nil, errors.Join(err, g.calls.Close(), g.wheel.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	go func() { g.done <- g.sip.Serve(ctx, g.calls.Handle) }()
	return g, nil
}

func (g *gateway) close() error {
	over, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	g.calls.Shutdown(over)
	g.stop()
	return errors.Join(<-g.done, g.calls.Close(), g.wheel.Close())
}

func (g *gateway) route(r call.Request) (call.Routed, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.agents[r.Called]
	return call.Routed{Opener: o}, o != nil
}

// serve makes a the agent of those who call name, and returns the address.
func (g *gateway) serve(name string, a agent.Opener) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.agents[name] = a
	return fmt.Sprintf("sip:%s@%v", name, g.sip.Addrs()[0].Addr)
}

// record is where the events of a call come when it is over.
func (g *gateway) record(sipCallID string) chan []agent.Event {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended[sipCallID] == nil {
		g.ended[sipCallID] = make(chan []agent.Event, 1)
	}
	return g.ended[sipCallID]
}

// CallStarted implements call.Observer.
func (g *gateway) CallStarted(call.Started) {}

// CallEnded implements call.Observer.
func (g *gateway) CallEnded(r call.Record) {
	out := g.record(r.SIPCallID)
	g.mu.Lock()
	defer g.mu.Unlock()
	out <- g.events[r.CallID]
	delete(g.events, r.CallID)
}

// CallRefused implements call.Observer.
func (g *gateway) CallRefused(int, string) {}

// CallEvent implements call.Observer.
func (g *gateway) CallEvent(id string, e agent.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events[id] = append(g.events[id], e)
}

// coder is Opus for the phone, whose sound is narrower than the codec's.
func coder() phone.Coder {
	return phone.Coder{
		Name: "opus", ClockRate: opus.ClockRate, Channels: 2, PayloadType: opus.PayloadType,
		New: func() (func([]int16) []byte, func([]byte) []int16, error) {
			codec, err := opus.Opus(opus.DefaultConfig())
			if err != nil {
				return nil, nil, err
			}
			enc, err := codec.NewEncoder()
			if err != nil {
				return nil, nil, err
			}
			dec, err := codec.NewDecoder()
			if err != nil {
				return nil, nil, err
			}
			up, err := resample.New(rate, codec.SampleRate, resample.Voice)
			if err != nil {
				return nil, nil, err
			}
			down, err := resample.New(codec.SampleRate, rate, resample.Voice)
			if err != nil {
				return nil, nil, err
			}
			encode := func(pcm []int16) []byte {
				b, _ := enc.Encode(nil, up.Process(nil, pcm)) // of 20 ms it cannot fail
				return b
			}
			decode := func(b []byte) []int16 {
				pcm, err := dec.Decode(nil, b)
				if err != nil {
					return nil
				}
				return down.Process(nil, pcm)
			}
			return encode, decode, nil
		},
	}
}

// codecNames are what a phone offers for a codec of the table.
func codecNames(codec string) []string {
	if strings.EqualFold(codec, "opus") {
		return []string{"opus"}
	}
	return []string{"PCMU"}
}
