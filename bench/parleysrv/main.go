// Command parleysrv is Parley as it is measured: its own sip, rtp, media and call
// rooms with the jitter buffer and the energy voice detector on, and an agent in
// the process that hears everything and plays PCM for ever.
//
// It prints one line of JSON a second: what the process holds.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/signal"
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
	profile := flag.String("profile", "", "write a CPU profile to this file")
	flag.Parse()
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
	if err := run(*host, *port, *silent, *maxCalls, *garbage); err != nil {
		fmt.Fprintln(os.Stderr, "parleysrv:", err)
	}
}

func run(host string, port int, silent bool, maxCalls int, garbage bool) error {
	debug.SetGCPercent(400) // as cmd/sip-server does
	debug.SetMemoryLimit(4 << 30)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
	voice := player{silent: silent}
	calls, err := call.NewServer(cc, call.Parts{
		Wheel: wheel, Identity: who, Codecs: []media.Codec{g711.PCMU(), g711.PCMA()},
		Route: func(call.Request) (call.Routed, bool) { return call.Routed{Opener: &voice}, true },
		Voice: func(rate int) (vad.Detector, error) { return vad.NewEnergy(vad.DefaultEnergyConfig(rate)) },
	})
	if err != nil {
		return err
	}
	sc := sip.DefaultConfig()
	sc.Listen = []sip.Listener{{Network: "udp", Addr: fmt.Sprintf("%s:%d", host, port)}}
	server, err := sip.NewServer(sc, zap.NewNop())
	if err != nil {
		return err
	}
	if err := server.Listen(); err != nil {
		return err
	}
	go report(ctx, calls, &voice)
	return server.Serve(ctx, calls.Handle)
}

// report prints what the process holds.
func report(ctx context.Context, calls *call.Server, p *player) {
	out := json.NewEncoder(os.Stdout)
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if calls.Active() == 0 {
			runtime.GC() // what is held, not what is yet to be collected
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = out.Encode(map[string]any{
			"calls": calls.Active(), "goroutines": runtime.NumGoroutine(),
			"heap_mb": float64(m.HeapAlloc) / 1e6, "heard": p.heard.Load(), "mallocs": m.Mallocs,
		})
	}
}

// player is an agent that plays a tone and counts what it hears.
type player struct {
	silent bool
	heard  atomic.Uint64
}

func (p *player) Format() agent.Format { return agent.Format{} }

func (p *player) Open(_ context.Context, c agent.Call) (agent.Session, error) {
	return &playing{player: p, speaker: c.Speaker}, nil
}

type playing struct {
	player  *player
	speaker agent.Speaker
}

func (s *playing) Hear([]int16)        { s.player.heard.Add(1) }
func (s *playing) Notice(agent.Notice) {}

func (s *playing) Run(ctx context.Context) error {
	for !s.player.silent {
		if err := s.speaker.Say(ctx, tone); err != nil {
			return context.Cause(ctx)
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
