package vad

import (
	"math"
	"testing"
	"time"
)

// path is a line that gives back what the agent says: later, softer, with noise of its
// own, and with what the caller says.
type path struct {
	echo  *Echo
	voice Detector
	gain  float64 // dB
	delay int     // steps of 20 ms
	sent  [][]int16
	noise *sounds
	edges []Edge
	// obey silences the agent while the detector hears something, as a conversation does.
	obey, quiet bool
}

func newPath(t *testing.T, gain float64, delay time.Duration) *path {
	t.Helper()
	e, err := NewEcho(EchoConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return &path{echo: e, voice: energy(t, 8000), gain: gain, delay: int(delay / echoStep), noise: at(8000).noise(ms(60000), -60)}
}

// run sends what the agent says while the caller says something else, and counts the
// candidates.
func (p *path) run(agent, caller []int16) (candidates int) {
	const n = 160
	for i := 0; i+n <= len(agent); i += n {
		out := agent[i : i+n]
		if p.quiet {
			out = make([]int16, n)
		}
		p.sent = append(p.sent, out)
		p.echo.Sent(Loudness(out, n), echoStep)
		in := make([]int16, n)
		for k := range in {
			v := float64(p.noise.pcm[(len(p.sent)*n+k)%len(p.noise.pcm)])
			if at := len(p.sent) - 1 - p.delay; at >= 0 {
				v += float64(p.sent[at][k]) * math.Pow(10, p.gain/20)
			}
			if i+k < len(caller) {
				v += float64(caller[i+k])
			}
			in[k] = int16(max(-32768, min(32767, v)))
		}
		p.voice.SetFloor(p.echo.Floor())
		edge := p.voice.Process(in)
		p.echo.Heard(p.voice.Level(), echoStep)
		p.echo.Edge(edge)
		switch edge.Kind {
		case Candidate:
			candidates++
			p.quiet = p.obey
		case Off, Rejected:
			p.quiet = false
		case None:
			continue
		}
		p.edges = append(p.edges, edge)
	}
	return candidates
}

// Contract 8: the agent's own echo never interrupts it.
func TestTheAgentsEchoIsNotAVoice(t *testing.T) {
	for _, gain := range []float64{-60, -40, -30, -20, -15} {
		for _, delay := range []int{0, 60, 200, 400} {
			p := newPath(t, gain, ms(delay))
			p.obey = true
			p.run(make([]int16, 8000), nil)
			agent := at(8000).speech(ms(3000), -18).silence(ms(700)).speech(ms(8000), -22).silence(ms(1000)).speech(ms(600), -16).silence(ms(1000)).pcm
			if n := p.run(agent, nil); n > 0 {
				t.Errorf("echo at %v dB after %d ms: %d candidates (gain %.1f)", gain, delay, n, p.echo.Gain())
			}
		}
	}
}

// One that is louder than any that was reckoned with does so once or twice, and is known
// then.
func TestALoudEchoIsLearned(t *testing.T) {
	for _, gain := range []float64{-3, -6, -10} {
		for _, delay := range []int{40, 200} {
			p := newPath(t, gain, ms(delay))
			p.obey = true
			p.run(make([]int16, 8000), nil)
			if n := p.run(at(8000).speech(ms(4000), -18).silence(ms(800)).pcm, nil); n > 2 {
				t.Errorf("echo at %v dB after %d ms: %d candidates", gain, delay, n)
			}
			if n := p.run(at(8000).speech(ms(10000), -18).silence(ms(800)).speech(ms(5000), -20).pcm, nil); n > 0 {
				t.Errorf("echo at %v dB after %d ms: %d candidates once it is known (gain %.1f)", gain, delay, n, p.echo.Gain())
			}
		}
	}
}

// The line becomes a loudspeaker amid the call.
func TestAnEchoThatBegins(t *testing.T) {
	p := newPath(t, -60, ms(120))
	p.obey = true
	p.run(at(8000).speech(ms(8000), -18).pcm, nil)
	p.gain = -12
	if n := p.run(at(8000).speech(ms(10000), -18).pcm, nil); n > 2 {
		t.Errorf("%d candidates", n)
	}
	if n := p.run(at(8000).speech(ms(10000), -18).pcm, nil); n > 0 {
		t.Errorf("%d candidates later", n)
	}
	// And a handset again: softer callers are heard.
	p.gain = -60
	p.run(at(8000).speech(ms(6000), -18).pcm, nil)
	if g := p.echo.Gain(); g > -30 {
		t.Errorf("the gain is still %.1f dB", g)
	}
}

// Who speaks over the agent is heard, with and without an echo, and at once.
func TestWhoSpeaksOverTheAgentIsHeard(t *testing.T) {
	for _, c := range []struct{ gain, caller float64 }{{-60, -40}, {-60, -25}, {-20, -22}, {-30, -25}} {
		p := newPath(t, c.gain, ms(100))
		p.run(make([]int16, 8000), nil)
		p.run(at(8000).speech(ms(5000), -18).pcm, nil)
		caller := at(8000).silence(ms(1000)).speech(ms(1000), c.caller).pcm
		if n := p.run(at(8000).speech(ms(3000), -18).pcm, caller); n == 0 {
			t.Errorf("echo at %v dB: a caller at %v dBFS is not heard (floor %.1f)", c.gain, c.caller, p.echo.Floor())
		}
	}
}

// A caller who talks over the agent does not raise the floor for those after it.
func TestACallerIsNotTakenForAnEcho(t *testing.T) {
	p := newPath(t, -60, 0)
	p.run(at(8000).speech(ms(4000), -18).pcm, nil)
	p.run(at(8000).speech(ms(2000), -18).pcm, at(8000).speech(ms(2000), -15).pcm)
	if g := p.echo.Gain(); g > -30 {
		t.Errorf("the gain is %.1f dB", g)
	}
}

// A cough that a model takes for no voice while it still sounds has not ended with the
// agent: whoever speaks after it is heard. One that has ended may be the echo.
func TestACoughIsNotTakenForAnEcho(t *testing.T) {
	for _, c := range []struct {
		lag  time.Duration
		echo bool
	}{{0, false}, {10 * time.Millisecond, false}, {60 * time.Millisecond, true}} {
		e, err := NewEcho(EchoConfig{})
		if err != nil {
			t.Fatal(err)
		}
		e.Sent(-18, time.Second)
		e.Heard(-15, 40*time.Millisecond)
		e.Edge(Edge{Candidate, 40 * time.Millisecond})
		e.Sent(Quiet, 100*time.Millisecond)
		e.Heard(-15, 100*time.Millisecond)
		e.Edge(Edge{Rejected, c.lag})
		if g := e.Gain(); (g > -20) != c.echo {
			t.Errorf("after a sound that ended %v ago the gain is %.1f dB", c.lag, g)
		}
	}
}

func TestTheFloorGoesWithTheAgent(t *testing.T) {
	e, err := NewEcho(EchoConfig{Loss: 20, Margin: 6, Delay: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if e.Floor() != Quiet || !e.Above(-90) {
		t.Error("a floor before anything was sent")
	}
	e.Sent(-20, 60*time.Millisecond)
	if f := e.Floor(); f != -34 || e.Above(-34) || !e.Above(-33) {
		t.Errorf("floor %v", f)
	}
	e.Sent(-40, 60*time.Millisecond)
	if f := e.Floor(); f != -34 {
		t.Errorf("floor %v while the echo may still come", f)
	}
	e.Sent(Quiet, 160*time.Millisecond)
	if f := e.Floor(); f != -54 {
		t.Errorf("floor %v", f)
	}
	e.Sent(Quiet, time.Second)
	if f := e.Floor(); f != Quiet {
		t.Errorf("floor %v of a silent agent", f)
	}
	e.Sent(0, 20*time.Millisecond)
	e.Reset()
	e.Sent(math.NaN(), time.Hour)
	e.Heard(math.NaN(), time.Hour)
	if f := e.Floor(); f != Quiet {
		t.Errorf("floor %v after a reset", f)
	}
}

func TestEchoConfigs(t *testing.T) {
	for _, c := range []EchoConfig{{Loss: -1}, {Loss: math.NaN()}, {Margin: 40}, {Delay: time.Millisecond}, {Delay: time.Minute}} {
		if _, err := NewEcho(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestLoudness(t *testing.T) {
	pcm := at(8000).tone(ms(20), 400, -20).tone(ms(20), 400, -40).pcm
	for n, want := range map[int]float64{160: -20, 0: -23, 1000: -23} {
		if got := Loudness(pcm, n); math.Abs(got-want) > 0.2 {
			t.Errorf("parts of %d: %.2f, want %v", n, got, want)
		}
	}
	if l := Loudness(nil, 0); l != Quiet {
		t.Errorf("nothing is %v", l)
	}
}

func TestEchoDoesNotAllocate(t *testing.T) {
	e, err := NewEcho(EchoConfig{})
	if err != nil {
		t.Fatal(err)
	}
	pcm := at(8000).speech(ms(20), -20).pcm
	if n := testing.AllocsPerRun(1000, func() {
		e.Sent(Loudness(pcm, 160), echoStep)
		e.Heard(-30, echoStep)
		e.Edge(Edge{Kind: Candidate})
		e.Edge(Edge{Kind: Rejected})
		_ = e.Floor()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEcho(b *testing.B) {
	e, err := NewEcho(EchoConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		e.Sent(-20, echoStep)
		e.Heard(-40, echoStep/2)
		_ = e.Floor()
	}
}
