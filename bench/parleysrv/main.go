// Command parleysrv is Parley as it is measured: its own sip, rtp, media and call
// rooms with the jitter buffer and the energy voice detector on, and an agent in
// the process that hears everything and plays PCM for ever.
//
// It prints one line of JSON a second: what the process holds.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"os"
	ossignal "os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/call"
	"parley/identity"
	"parley/media"
	"parley/media/g711"
	"parley/media/vad"
	"parley/rtp"
	"parley/sip"
)

func main() {
	host := flag.String("host", "127.77.0.1", "address to bind")
	port := flag.Int("port", 5078, "port to bind")
	silent := flag.Bool("silent", false, "an agent that says nothing")
	maxCalls := flag.Int("max", 20000, "limit of concurrent calls")
	garbage := flag.Bool("garbage", false, "hold 200 MB live and make 100 MB/s of garbage")
	signalling := flag.Bool("signalling", false, "the sip room alone: answers with 180 and 200, and has no media")
	turns := flag.Bool("turns", false, "an agent that speaks for 400 ms and is silent for 600")
	profile := flag.String("profile", "", "write a CPU profile to this file")
	heap := flag.String("heap", "", "write a profile of what is held to this file, at each SIGUSR1")
	flag.Parse()
	if *heap != "" {
		go writeHeap(*heap)
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "parleysrv:", err)
			os.Exit(1)
		}
		defer f.Close()
		defer pprof.StopCPUProfile()
	}
	var err error
	if *signalling {
		err = signal(*host, *port)
	} else {
		err = run(*host, *port, &player{silent: *silent, turns: *turns}, *maxCalls, *garbage)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "parleysrv:", err)
	}
}

// writeHeap writes what is held when it is asked to.
func writeHeap(file string) {
	asked := make(chan os.Signal, 1)
	ossignal.Notify(asked, syscall.SIGUSR1)
	for range asked {
		f, err := os.Create(file)
		if err == nil {
			runtime.GC()
			err = errors.Join(pprof.WriteHeapProfile(f), f.Close())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "parleysrv:", err)
		}
	}
}

// listen binds the sip room, with room for the transactions of 32 seconds at any rate
// that a bench may reach.
func listen(host string, port int) (*sip.Server, error) {
	sc := sip.DefaultConfig()
	sc.Listen = []sip.Listener{{Network: "udp", Addr: fmt.Sprintf("%s:%d", host, port)}}
	sc.MaxTransactions = 500_000
	server, err := sip.NewServer(sc, zap.NewNop())
	if err != nil {
		return nil, err
	}
	return server, server.Listen()
}

// signal answers calls that have no media.
func signal(host string, port int) error {
	debug.SetGCPercent(400)
	ctx, stop := ossignal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := listen(host, port)
	if err != nil {
		return err
	}
	answer := fmt.Appendf(nil, "v=0\r\no=- 1 1 IN IP4 %s\r\ns=-\r\nc=IN IP4 %s\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\n", host, host)
	go report(ctx, func() int { return server.Stats().Dialogs }, map[string]func() any{})
	return server.Serve(ctx, func(_ context.Context, inv *sip.Invite) {
		if inv.Ring() != nil {
			return
		}
		_, _ = inv.Answer(answer, nil)
	})
}

func run(host string, port int, voice *player, maxCalls int, garbage bool) error {
	debug.SetGCPercent(400) // as cmd/sip-server does
	debug.SetMemoryLimit(4 << 30)
	ctx, stop := ossignal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if garbage {
		go litter(ctx)
	}

	addr, err := netip.ParseAddr(host)
	if err != nil {
		return err
	}
	rc := rtp.DefaultConfig()
	rc.Addr, rc.PortMin, rc.PortMax = addr, 0, 0
	wheel, err := rtp.NewWheel(rc)
	if err != nil {
		return err
	}
	defer wheel.Close()
	who, err := identity.New(identity.DefaultConfig())
	if err != nil {
		return err
	}
	cc := call.DefaultConfig()
	cc.MaxCalls = maxCalls
	calls, err := call.NewServer(cc, call.Parts{
		Wheel: wheel, Identity: who, Codecs: []media.Codec{g711.PCMU(), g711.PCMA()},
		Route: func(call.Request) (call.Routed, bool) { return call.Routed{Opener: voice}, true },
		Voice: func(rate int) (vad.Detector, error) { return vad.NewEnergy(vad.DefaultEnergyConfig(rate)) },
	})
	if err != nil {
		return err
	}
	server, err := listen(host, port)
	if err != nil {
		return err
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	go report(ctx, calls.Active, map[string]func() any{
		"heard":  func() any { return voice.heard.Load() },
		"driver": func() any { return wheel.Driver() },
		"delays": func() any { // what /metrics has as histograms
			d := calls.SoundStats().Delays
			return map[string]float64{
				"hear_p50": ms(d.Hear.Quantile(.5)), "hear_p99": ms(d.Hear.Quantile(.99)), "hear": float64(d.Hear.Total()),
				"say_p50": ms(d.Say.Quantile(.5)), "say_p99": ms(d.Say.Quantile(.99)), "say": float64(d.Say.Total()),
			}
		},
	})
	return server.Serve(ctx, calls.Handle)
}

// report prints what the process holds.
func report(ctx context.Context, active func() int, more map[string]func() any) {
	out := json.NewEncoder(os.Stdout)
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if active() == 0 {
			runtime.GC() // what is held, not what is yet to be collected
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		line := map[string]any{
			"calls": active(), "goroutines": runtime.NumGoroutine(), "heap_mb": float64(m.HeapAlloc) / 1e6, "mallocs": m.Mallocs,
		}
		for name, value := range more {
			line[name] = value()
		}
		_ = out.Encode(line)
	}
}

// player is an agent that plays a tone and counts what it hears.
type player struct {
	silent bool
	turns  bool
	heard  atomic.Uint64
}

func (p *player) Format() agent.Format { return agent.Format{} }

func (p *player) Open(_ context.Context, c agent.Call) (agent.Session, error) {
	return &playing{player: p, speaker: c.Speaker}, nil
}

// length is how many samples are said at once.
func (p *player) length() int {
	if p.turns {
		return len(tone) * 2 / 5
	}
	return len(tone)
}

type playing struct {
	player  *player
	speaker agent.Speaker
}

func (s *playing) Hear([]int16)        { s.player.heard.Add(1) }
func (s *playing) Notice(agent.Notice) {}

func (s *playing) Run(ctx context.Context) error {
	for !s.player.silent {
		if err := s.speaker.Say(ctx, tone[:s.player.length()]); err != nil {
			return context.Cause(ctx)
		}
		if s.player.turns {
			s.speaker.Flush()
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// tone is a second of 400 Hz.
var tone = func() []int16 {
	pcm := make([]int16, 8000)
	for i := range pcm {
		pcm[i] = int16(8000 * math.Sin(2*math.Pi*400*float64(i)/8000))
	}
	return pcm
}()

// litter makes the garbage collector work.
func litter(ctx context.Context) {
	live := make([][]byte, 2000) // 100 KB each
	for i := range live {
		live[i] = make([]byte, 100_000)
	}
	for tick, i := time.NewTicker(time.Millisecond), 0; ctx.Err() == nil; i++ {
		<-tick.C
		live[i%len(live)] = make([]byte, 100_000)
	}
}
