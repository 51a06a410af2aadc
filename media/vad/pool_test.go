package vad

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lowTones is a model that takes for a voice what crosses zero as seldom as a
// tone below 800 Hz. block, if set, is what it waits for.
type lowTones struct {
	rate, frame int
	block       chan struct{}
	fail        bool
}

func (m *lowTones) Rate() int  { return m.rate }
func (m *lowTones) Frame() int { return m.frame }
func (m *lowTones) State() int { return 1 }

func (m *lowTones) Probability(state []float32, frame []int16) float32 {
	if m.block != nil {
		<-m.block
	}
	if m.fail {
		panic("broken")
	}
	state[0]++
	crossings, energy := 0, 0.0
	for i, s := range frame {
		energy += float64(s) * float64(s)
		if i > 0 && (s >= 0) != (frame[i-1] >= 0) {
			crossings++
		}
	}
	if energy/float64(len(frame)) < power(-45) || crossings*m.rate > 1600*m.frame {
		return 0.1
	}
	return 0.9
}

func eight() *lowTones { return &lowTones{rate: 8000, frame: 256} }

func pool(t testing.TB, c PoolConfig, m ...Model) *Pool {
	t.Helper()
	p, err := NewPool(c, m...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func gated(t testing.TB, p *Pool, rate int) *Gated {
	t.Helper()
	d, err := p.NewGated(DefaultEnergyConfig(rate))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// settling lets the workers finish after every frame, as they do in real time.
type settling struct{ Detector }

func (s settling) Process(pcm []int16) Edge {
	e := s.Detector.Process(pcm)
	synctest.Wait()
	return e
}

func TestModelDecides(t *testing.T) {
	for _, c := range []struct {
		name  string
		sound func(*sounds) *sounds
		want  []Kind
	}{
		{"silence", func(s *sounds) *sounds { return s.noise(ms(3000), -60) }, nil},
		{"a voice", func(s *sounds) *sounds { return s.noise(ms(1000), -60).tone(ms(500), 400, -20).noise(ms(1000), -60) }, voice},
		{"long noise", func(s *sounds) *sounds { return s.noise(ms(1000), -60).noise(ms(700), -20).noise(ms(1000), -60) }, []Kind{Candidate, Rejected}},
		{"a short knock", func(s *sounds) *sounds { return s.noise(ms(1000), -60).noise(ms(60), -20).noise(ms(1000), -60) }, []Kind{Candidate, Rejected}},
		{"a voice that begins in noise", func(s *sounds) *sounds {
			return s.noise(ms(1000), -60).noise(ms(300), -22).tone(ms(500), 400, -20).noise(ms(1000), -60)
		}, []Kind{Candidate, Rejected, Candidate, On, Off}},
		{"a voice that ends in noise", func(s *sounds) *sounds {
			return s.noise(ms(1000), -60).tone(ms(500), 400, -20).noise(ms(500), -22).noise(ms(1000), -60)
		}, voice},
		{"two words", func(s *sounds) *sounds {
			return s.noise(ms(1000), -60).tone(ms(300), 400, -20).noise(ms(400), -60).tone(ms(300), 400, -20).noise(ms(900), -60)
		}, append(slices.Clone(voice), voice...)},
	} {
		for _, rate := range []int{8000, 16000, 48000} {
			for _, frame := range []int{10, 20, 30, 60} {
				t.Run(c.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p := pool(t, PoolConfig{Workers: 2}, eight())
						edges := run(settling{gated(t, p, rate)}, c.sound(at(rate)).pcm, rate, ms(frame))
						grammar(t, edges)
						if !slices.Equal(kinds(edges), c.want) {
							t.Errorf("%d Hz, %d ms: %v, want %v", rate, frame, edges, c.want)
						}
						for i, e := range edges {
							if i > 0 && edges[i-1].Kind == Candidate && e.at-edges[i-1].at > ms(130+frame) {
								t.Errorf("%d Hz, %d ms: verdict took %v in %v", rate, frame, e.at-edges[i-1].at, edges)
							}
						}
						if s := p.Stats(); s.FellBack > 0 || s.Dropped > 0 || s.Faults > 0 || (s.Frames == 0) != (c.want == nil) {
							t.Errorf("%+v", s)
						}
						p.Close()
					})
				})
			}
		}
	}
}

func TestModelEndsAVoiceThatPassesIntoNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool(t, PoolConfig{}, eight())
		pcm := at(8000).noise(ms(1000), -60).tone(ms(500), 400, -20).noise(ms(800), -22).pcm
		edges := run(settling{gated(t, p, 8000)}, pcm, 8000, ms(20))
		if !slices.Equal(kinds(edges), voice) {
			t.Fatal(edges)
		}
		off := edges[2]
		if off.at < ms(1690) || off.at > ms(1780) || (off.at-off.Lag-ms(1500)).Abs() > ms(40) {
			t.Errorf("%v", edges)
		}
		p.Close()
	})
}

// Whatever goes wrong with the model, loudness decides, as late as it must.
func TestLoudnessDecidesWithoutTheModel(t *testing.T) {
	word := at(8000).noise(ms(1000), -60).noise(ms(400), -20).noise(ms(1000), -60).pcm
	for _, c := range []struct {
		name  string
		late  time.Duration
		start func(t *testing.T) (*Pool, func())
		check func(PoolStats) bool
	}{
		{"closed pool", 0, func(t *testing.T) (*Pool, func()) {
			p := pool(t, PoolConfig{}, eight())
			p.Close()
			return p, func() {}
		}, func(s PoolStats) bool { return s.Frames == 0 }},
		{"model panics", ms(100), func(t *testing.T) (*Pool, func()) {
			m := eight()
			m.fail = true
			return pool(t, PoolConfig{}, m), func() {}
		}, func(s PoolStats) bool { return s.Faults == 1 }},
		{"model hangs", ms(100), func(t *testing.T) (*Pool, func()) {
			m := eight()
			m.block = make(chan struct{})
			return pool(t, PoolConfig{}, m), func() { close(m.block) }
		}, func(s PoolStats) bool { return s.Dropped > 0 }},
		{"queue full", 0, func(t *testing.T) (*Pool, func()) {
			m := eight()
			m.block = make(chan struct{})
			p := pool(t, PoolConfig{Workers: 1, Queue: 1}, m)
			for range 2 { // one hangs, one waits
				run(settling{gated(t, p, 8000)}, word[:8000+1600], 8000, ms(20))
			}
			return p, func() { close(m.block) }
		}, func(s PoolStats) bool { return s.Dropped > 0 && s.Waiting == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, free := c.start(t)
				d := gated(t, p, 8000)
				edges := run(settling{d}, word, 8000, ms(20))
				grammar(t, edges)
				if !slices.Equal(kinds(edges), voice) {
					t.Fatalf("%v", edges)
				}
				if took := edges[1].at - edges[0].at; took < ms(100) || took > ms(140)+c.late {
					t.Errorf("decided after %v", took)
				}
				if s := p.Stats(); !c.check(s) || s.FellBack == 0 {
					t.Errorf("%+v", s)
				}
				free()
				p.Close()
			})
		})
	}
}

func TestRecoversWhenTheModelDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := eight()
		m.block = make(chan struct{})
		p := pool(t, PoolConfig{Workers: 1}, m)
		d := settling{gated(t, p, 8000)}
		noise := at(8000).noise(ms(1000), -60).noise(ms(500), -20).noise(ms(1000), -60).pcm
		if e := run(d, noise, 8000, ms(20)); count(e, On) != 1 {
			t.Fatalf("while it hangs: %v", e)
		}
		close(m.block)
		synctest.Wait()
		if e := run(d, noise, 8000, ms(20)); !slices.Equal(kinds(e), []Kind{Candidate, Rejected}) {
			t.Errorf("afterwards: %v", e)
		}
		p.Close()
	})
}

func TestGatedReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pool(t, PoolConfig{}, eight())
		d := gated(t, p, 8000)
		pcm := at(8000).noise(ms(1000), -55).tone(ms(500), 400, -20).pcm
		first := run(settling{d}, pcm, 8000, ms(20))
		if !d.Speaking() || math.Abs(d.Level()+20) > 1 {
			t.Fatalf("%v at %v", first, d.Level())
		}
		d.Reset()
		if d.Speaking() {
			t.Error("speaks after a reset")
		}
		if again := run(settling{d}, pcm, 8000, ms(20)); !slices.Equal(again, first) {
			t.Errorf("%v, at first %v", again, first)
		}
		d.SetFloor(-10)
		d.Reset()
		if e := run(settling{d}, pcm, 8000, ms(20)); len(e) > 0 {
			t.Errorf("below the floor: %v", e)
		}
		p.Close()
	})
}

func TestWhichModel(t *testing.T) {
	p := pool(t, PoolConfig{Workers: 1}, eight(), &lowTones{rate: 16000, frame: 512})
	for rate, want := range map[int]int{8000: 8000, 16000: 16000, 24000: 8000, 32000: 16000, 48000: 16000} {
		if m, f := p.model(rate); m == nil || m.Rate() != want || f*want != rate {
			t.Errorf("%d Hz: %v, factor %d", rate, m, f)
		}
	}
	var none *Pool
	for _, c := range []struct {
		p    *Pool
		rate int
	}{{p, 22050}, {none, 8000}} {
		d, err := c.p.Detector(DefaultEnergyConfig(c.rate))
		if _, ok := d.(*Energy); !ok || err != nil {
			t.Errorf("%d Hz: %T, %v", c.rate, d, err)
		}
	}
	if d, err := p.Detector(DefaultEnergyConfig(48000)); err != nil {
		t.Error(err)
	} else if _, ok := d.(*Gated); !ok {
		t.Errorf("%T", d)
	}
	if _, err := p.NewGated(DefaultEnergyConfig(22050)); err == nil {
		t.Error("no model for 22050 Hz, and no error")
	}
	if _, err := p.Detector(EnergyConfig{Rate: 1}); err == nil {
		t.Error("1 Hz was accepted")
	}
}

func TestPoolRefusals(t *testing.T) {
	for name, c := range map[string]PoolConfig{
		"workers": {Workers: -1}, "queue": {Queue: -1}, "threshold": {Threshold: 1.5}, "frames": {Frames: -2}, "patience": {Patience: -1},
	} {
		if p, err := NewPool(c, eight()); err == nil {
			p.Close()
			t.Errorf("%s was accepted", name)
		}
	}
	for name, models := range map[string][]Model{"no model": nil, "senseless": {&lowTones{}}} {
		if p, err := NewPool(PoolConfig{}, models...); err == nil {
			p.Close()
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestVerdictsFitAWord(t *testing.T) {
	for _, v := range []verdict{{}, {1, 2, 3}, {1 << 21, 1 << 20, 200}} {
		if got, opening := unpack(v.pack(4097)); got != v || opening != 1 {
			t.Errorf("%+v became %+v of %d", v, got, opening)
		}
	}
	if got, _ := unpack(verdict{1 << 30, 1 << 30, 1 << 30}.pack(1)); got != (verdict{countMask, countMask, hitsMask}) {
		t.Errorf("%+v", got)
	}
}

// yielding lets others run between frames, as a wheel does.
type yielding struct{ Detector }

func (y yielding) Process(pcm []int16) Edge {
	runtime.Gosched()
	return y.Detector.Process(pcm)
}

// Many streams at full speed: for the race detector, and for the promise that
// the order of edges holds however late the workers are.
func TestManyStreams(t *testing.T) {
	p := pool(t, PoolConfig{Workers: 3, Queue: 4}, eight())
	var group sync.WaitGroup
	for i := range 24 {
		rate := []int{8000, 16000, 48000}[i%3]
		group.Go(func() {
			s := at(rate)
			for range 4 {
				s.noise(ms(400), -60).tone(ms(300), 400, -20).noise(ms(300), -20).noise(ms(250), -60)
			}
			d := gated(t, p, rate)
			grammar(t, run(yielding{d}, s.pcm, rate, ms(20)))
			d.Level()
			d.Reset()
		})
	}
	group.Wait()
	if s := p.Stats(); s.Frames == 0 || s.Busy == 0 {
		t.Errorf("%+v", s)
	}
}

func TestGatedDoesNotAllocate(t *testing.T) {
	p := pool(t, PoolConfig{Workers: 1}, eight())
	d, pcm := gated(t, p, 8000), at(8000).speech(ms(20), -20).pcm
	for range 50 {
		d.Process(pcm)
	}
	if n := testing.AllocsPerRun(200, func() { d.Process(pcm) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGatedSecond(b *testing.B) {
	p := pool(b, PoolConfig{}, eight())
	for name, pcm := range map[string][]int16{"silence": at(8000).noise(ms(1000), -60).pcm, "speech": at(8000).speech(ms(1000), -20).pcm} {
		b.Run(name, func(b *testing.B) {
			d := gated(b, p, 8000)
			b.ReportAllocs()
			for b.Loop() {
				for i := 0; i < 8000; i += 160 {
					d.Process(pcm[i : i+160])
				}
			}
		})
	}
}
