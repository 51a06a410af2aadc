package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"parley/agent"
	"parley/call"
	"parley/identity"
	"parley/media"
	"parley/media/g711"
	"parley/media/vad"
	"parley/rtp"
	"parley/sip"
	"parley/test/peers"
	"parley/test/phone"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removePrograms()
		os.Exit(code)
	}))
}

// patience bounds every wait for something that is expected to come at once.
const patience = 15 * time.Second

// gateway is everything of the server but its configuration file, on loopback.
type gateway struct {
	t     *testing.T
	calls *call.Server
	wheel *rtp.Wheel
	sip   *sip.Server
	dir   string // of the journal

	mu      sync.Mutex
	agents  map[string]agent.Opener
	events  map[string][]agent.Event
	records map[string]call.Record // by SIP Call-ID
}

// startGateway starts a gateway without agents; change may alter its configuration. Without
// codecs it has those of G.711.
func startGateway(t *testing.T, change func(*call.Config, *sip.Config), codecs ...media.Codec) *gateway {
	t.Helper()
	g := &gateway{
		t: t, dir: filepath.Join(t.TempDir(), "events"),
		agents: map[string]agent.Opener{}, events: map[string][]agent.Event{}, records: map[string]call.Record{},
	}
	log := zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
	cc, sc, rc := call.DefaultConfig(), sip.DefaultConfig(), rtp.DefaultConfig()
	cc.EventsDir = g.dir
	rc.Addr, rc.PortMin, rc.PortMax = netip.MustParseAddr("127.0.0.1"), 0, 0
	sc.Listen = []sip.Listener{{Network: "udp", Addr: "127.0.0.1:0"}}
	if change != nil {
		change(&cc, &sc)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(codecs) == 0 {
		codecs = []media.Codec{g711.PCMU(), g711.PCMA()}
	}
	who, err := identity.New(identity.DefaultConfig())
	must(err)
	g.wheel, err = rtp.NewWheel(rc)
	must(err)
	g.calls, err = call.NewServer(cc, call.Parts{
		Wheel: g.wheel, Identity: who, Codecs: codecs, Observer: g, Log: log,
		Voice: func(rate int) (vad.Detector, error) { return vad.NewEnergy(vad.DefaultEnergyConfig(rate)) },
		Route: g.route,
	})
	must(err)
	g.sip, err = sip.NewServer(sc, log)
	must(err)
	must(g.sip.Listen())
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.sip.Serve(ctx, g.calls.Handle) }()
	t.Cleanup(func() {
		over, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		g.calls.Shutdown(over)
		cancel()
		for _, err := range []error{<-served, g.calls.Close(), g.wheel.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return g
}

func (g *gateway) route(r call.Request) (call.Routed, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.agents[r.Called]
	return call.Routed{Opener: o}, o != nil
}

// serve makes a the agent of those who call name.
func (g *gateway) serve(name string, a agent.Opener) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.agents[name] = a
}

func (g *gateway) uri(name string) string {
	return fmt.Sprintf("sip:%s@%v", name, g.sip.Addrs()[0].Addr)
}

// warm waits until the gateway answers, so that all its own goroutines run.
func warm(t *testing.T, g *gateway) {
	t.Helper()
	wait(t, "the gateway answers", patience, func(ctx context.Context) error {
		_, err := newPhone(t, phone.Config{}).Options(ctx, g.uri("ping"))
		return err
	})
}

// CallStarted implements call.Observer.
func (g *gateway) CallStarted(call.Started) {}

// CallEnded implements call.Observer.
func (g *gateway) CallEnded(r call.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.records[r.SIPCallID] = r
}

// CallRefused implements call.Observer.
func (g *gateway) CallRefused(int, string) {}

// CallEvent implements call.Observer.
func (g *gateway) CallEvent(id string, e agent.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events[id] = append(g.events[id], e)
}

// ended waits for the record of a call and returns it with the call's events.
func (g *gateway) ended(t *testing.T, c *phone.Call) (call.Record, []agent.Event) {
	t.Helper()
	var r call.Record
	eventually(t, patience, "the record of the call", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		var ok bool
		r, ok = g.records[c.ID()]
		return ok
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	return r, g.events[r.CallID]
}

// journal waits until the file of a call is complete and reads it.
func (g *gateway) journal(t *testing.T, id string) (events []agent.Event, record call.Record) {
	t.Helper()
	return readJournal(t, filepath.Join(g.dir, id+".jsonl"))
}

// readJournal waits until the file of a call is complete and reads it.
func readJournal(t *testing.T, file string) (events []agent.Event, record call.Record) {
	t.Helper()
	var text []byte
	eventually(t, patience, "the end of the journal", func() bool {
		text, _ = os.ReadFile(file)
		return bytes.Contains(text, []byte(`"type":"call_ended"`)) && bytes.HasSuffix(text, []byte("\n"))
	})
	for line := range bytes.Lines(text) {
		var e agent.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("journal line %q: %v", line, err)
		}
		if e.Type != "call_ended" {
			events = append(events, e)
		} else if err := json.Unmarshal(line, &record); err != nil {
			t.Fatalf("journal line %q: %v", line, err)
		}
	}
	return events, record
}

// of picks the events of a type.
func of(events []agent.Event, kind agent.EventType) (out []agent.Event) {
	for _, e := range events {
		if e.Type == kind {
			out = append(out, e)
		}
	}
	return out
}

// newPhone is a phone until the test ends.
func newPhone(t *testing.T, c phone.Config) *phone.Phone {
	t.Helper()
	p, err := phone.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// dial places a call that is hung up when the test ends.
func dial(t *testing.T, p *phone.Phone, uri string) *phone.Call {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := p.Dial(ctx, uri)
	if err != nil {
		t.Fatalf("dial %s: %v", uri, err)
	}
	t.Cleanup(func() { hangUp(t, c) })
	return c
}

func hangUp(t *testing.T, c *phone.Call) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Hangup(ctx); err != nil {
		t.Errorf("hang up: %v", err)
	}
}

// wait is how long a step of a call may take.
func wait(t *testing.T, what string, within time.Duration, step func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := step(ctx); err != nil {
		t.Fatalf("%s, within %v: %v", what, within, err)
	}
}

// eventually asks until met is true, and fails the test when it is not in time.
func eventually(t *testing.T, within time.Duration, what string, met func() bool) {
	t.Helper()
	if !peers.Eventually(within, met) {
		t.Fatalf("not within %v: %s", within, what)
	}
}

// together runs n tests, so many at a time: they spend their time waiting, so the
// number of processors does not matter.
func together(t *testing.T, limit, n int, name func(i int) string, run func(t *testing.T, i int)) {
	jobs := make(chan int, n)
	for i := range n {
		jobs <- i
	}
	close(jobs)
	var all sync.WaitGroup
	for range limit {
		all.Go(func() {
			for i := range jobs {
				t.Run(name(i), func(t *testing.T) { run(t, i) })
			}
		})
	}
	all.Wait()
}

func words(text string) []string { return strings.Fields(text) }
