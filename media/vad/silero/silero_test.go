package silero

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// published is the real network, or nil with the reason in the log: the weights
// are not part of the repository, deploy/weights fetches them.
func published(t testing.TB, rate int) *Model {
	t.Helper()
	path := os.Getenv("PARLEY_SILERO")
	if path == "" {
		path = filepath.Join("..", "..", "..", ".cache", "silero_vad.onnx")
	}
	m, err := Load(path, rate)
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("the weights are not there (%s): what needs them is left out", path)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRecordedProbabilities(t *testing.T) {
	b, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var expected struct {
		At8  []float64 `json:"8000"`
		At16 []float64 `json:"16000"`
	}
	if err := json.Unmarshal(b, &expected); err != nil {
		t.Fatal(err)
	}
	for rate, want := range map[int][]float64{8000: expected.At8, 16000: expected.At16} {
		if len(want) != 125 {
			t.Fatalf("%d values recorded for %d Hz", len(want), rate)
		}
		m := published(t, rate)
		if m == nil {
			t.Skip("skipped: comparing 2 x 125 probabilities with those recorded from onnxruntime; run deploy/weights/fetch-silero.sh .cache first")
		}
		sound, state, worst := signal(rate), make([]float32, m.State()), 0.0
		for i, w := range want {
			p := float64(m.Probability(state, sound[i*m.Frame():][:m.Frame()]))
			worst = max(worst, math.Abs(p-w))
		}
		t.Logf("%d Hz: at most %.1g from onnxruntime", rate, worst)
		if worst > 1e-5 {
			t.Errorf("%d Hz: %.2g from onnxruntime", rate, worst)
		}
	}
}

// madeUp is an .onnx file of the same form with random weights, and the weights.
func madeUp(seed uint64) (file []byte, all map[string][]float32) {
	random := rand.New(rand.NewPCG(seed, 1))
	all = map[string][]float32{}
	branch := func(prefix string, bins, window int) []byte {
		var graph []byte
		constant := func(name string, dims ...int) {
			size := 1
			var shape []byte
			for _, d := range dims {
				size *= d
				shape = append(shape, varintField(1, uint64(d))...)
			}
			v, raw := make([]float32, size), []byte(nil)
			scale := 2 / math.Sqrt(float64(size/dims[0])+1)
			for i := range v {
				v[i] = float32(scale * random.NormFloat64())
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v[i]))
			}
			all[prefix+name] = v
			tensor := append(append(shape, varintField(2, 1)...), dataField(9, raw)...)
			attribute := append(dataField(1, []byte("value")), dataField(5, tensor)...)
			n := append(dataField(2, []byte(prefix+name)), dataField(4, []byte("Constant"))...)
			graph = append(graph, dataField(1, append(n, dataField(5, attribute)...))...)
		}
		constant("stft.forward_basis_buffer", 2*bins, 1, window)
		in := bins
		for i, out := range widths {
			constant(fmt.Sprintf("encoder.%d.reparam_conv.weight", i), out, in, 3)
			constant(fmt.Sprintf("encoder.%d.reparam_conv.bias", i), out)
			in = out
		}
		constant("decoder.rnn.weight_ih", 512, 128)
		constant("decoder.rnn.weight_hh", 512, 128)
		constant("decoder.rnn.bias_ih", 512)
		constant("decoder.rnn.bias_hh", 512)
		constant("decoder.decoder.2.weight", 1, 128, 1)
		constant("decoder.decoder.2.bias", 1)
		return graph
	}
	choice := dataField(4, []byte("If"))
	for _, g := range [][]byte{
		branch("If_0_then_branch__Inline_0__", 129, 256),
		branch("If_0_else_branch__Inline_0__", 65, 128),
	} {
		choice = append(choice, dataField(5, dataField(6, g))...)
	}
	return append(varintField(1, 8), dataField(7, dataField(1, choice))...), all
}

func varintField(number int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3), v)
}

func dataField(number int, b []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(out, uint64(len(b))), b...)
}

// slow computes the network straight from its description, in float64 and
// without any rearranging.
type slow struct {
	w               func(string) []float32
	context, window int
	past, h, c      []float64
}

func (s *slow) probability(frame []int16) float64 {
	x := append([]float64(nil), s.past...)
	for _, v := range frame {
		x = append(x, float64(v)/32768)
	}
	s.past = append([]float64(nil), x[len(x)-s.context:]...)
	for i, end := 0, len(x); i < s.context; i++ {
		x = append(x, x[end-2-i])
	}
	bins, basis := s.window/2+1, s.w("stft.forward_basis_buffer")
	layer := make([][]float64, 4) // by time, then channel
	for t := range layer {
		for k := range bins {
			var re, im float64
			for i := range s.window {
				re += x[t*s.window/2+i] * float64(basis[k*s.window+i])
				im += x[t*s.window/2+i] * float64(basis[(k+bins)*s.window+i])
			}
			layer[t] = append(layer[t], math.Hypot(re, im))
		}
	}
	for i, stride := range []int{1, 2, 2, 1} {
		w, b := s.w(fmt.Sprintf("encoder.%d.reparam_conv.weight", i)), s.w(fmt.Sprintf("encoder.%d.reparam_conv.bias", i))
		var out [][]float64
		for t := 0; t < len(layer); t += stride {
			row := make([]float64, len(b))
			for o := range row {
				v := float64(b[o])
				for k := -1; k <= 1; k++ {
					if t+k < 0 || t+k >= len(layer) {
						continue
					}
					for j, y := range layer[t+k] {
						v += y * float64(w[(o*len(layer[0])+j)*3+k+1])
					}
				}
				row[o] = max(0, v)
			}
			out = append(out, row)
		}
		layer = out
	}
	gate := make([]float64, 512)
	for g := range gate {
		gate[g] = float64(s.w("decoder.rnn.bias_ih")[g]) + float64(s.w("decoder.rnn.bias_hh")[g])
		for j := range 128 {
			gate[g] += layer[0][j]*float64(s.w("decoder.rnn.weight_ih")[g*128+j]) + s.h[j]*float64(s.w("decoder.rnn.weight_hh")[g*128+j])
		}
	}
	sig := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	sum := float64(s.w("decoder.decoder.2.bias")[0])
	for j := range 128 {
		s.c[j] = sig(gate[128+j])*s.c[j] + sig(gate[j])*math.Tanh(gate[256+j])
		s.h[j] = sig(gate[384+j]) * math.Tanh(s.c[j])
		sum += max(0, s.h[j]) * float64(s.w("decoder.decoder.2.weight")[j])
	}
	return sig(sum)
}

func TestAgainstSlowAndSimple(t *testing.T) {
	file, all := madeUp(1)
	for _, c := range []struct {
		rate, n, context, window int
		prefix                   string
	}{
		{8000, 256, 32, 128, "If_0_else_branch__Inline_0__"},
		{16000, 512, 64, 256, "If_0_then_branch__Inline_0__"},
	} {
		m, err := Parse(file, c.rate)
		if err != nil {
			t.Fatal(err)
		}
		if m.Rate() != c.rate || m.Frame() != c.n {
			t.Fatalf("rate %d, frame %d", m.Rate(), m.Frame())
		}
		s := &slow{
			w:       func(n string) []float32 { return all[c.prefix+n] },
			context: c.context, window: c.window,
			past: make([]float64, c.context), h: make([]float64, 128), c: make([]float64, 128),
		}
		sound, state := signal(c.rate)[c.rate:], make([]float32, m.State())
		low, high := 1.0, 0.0
		for i := range 20 {
			frame := sound[i*c.n:][:c.n]
			got, want := float64(m.Probability(state, frame)), s.probability(frame)
			if math.Abs(got-want) > 2e-4 {
				t.Errorf("%d Hz, frame %d: %.6f, want %.6f", c.rate, i, got, want)
			}
			low, high = min(low, want), max(high, want)
		}
		if high-low < 0.001 {
			t.Errorf("the test tells nothing: all within %v and %v", low, high)
		}
	}
}

func TestDamagedFiles(t *testing.T) {
	file, _ := madeUp(2)
	cut := func(n int) []byte { return file[:n] }
	flip := func(at int) []byte {
		b := append([]byte(nil), file...)
		b[at] ^= 0x55
		return b
	}
	deep := []byte{}
	for range 50 {
		deep = dataField(1, dataField(5, dataField(6, deep)))
	}
	for name, b := range map[string][]byte{
		"empty": {}, "text": []byte("<html>not found</html>"), "half": cut(len(file) / 2), "one short": cut(len(file) - 1),
		"start flipped": flip(3), "deep": dataField(7, deep), "no constants": dataField(7, nil),
		"long length": {7<<3 | 2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F},
	} {
		if _, err := Parse(b, 8000); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := Parse(file, 44100); err == nil {
		t.Error("a rate without a network was accepted")
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.onnx"), 8000); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad.onnx")
	if err := os.WriteFile(bad, cut(100), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(bad, 8000); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("a cut file: %v", err)
	}
}

func TestWrongLengthsChangeNothing(t *testing.T) {
	file, _ := madeUp(3)
	m, err := Parse(file, 8000)
	if err != nil {
		t.Fatal(err)
	}
	state := make([]float32, m.State())
	for _, c := range []struct{ state, frame int }{{0, 256}, {m.State() - 1, 256}, {m.State(), 255}, {m.State(), 512}} {
		frame := make([]int16, c.frame)
		for i := range frame {
			frame[i] = 1000
		}
		if p := m.Probability(state[:c.state], frame); p != 0 {
			t.Errorf("%+v: %v", c, p)
		}
	}
	for i, v := range state {
		if v != 0 {
			t.Fatalf("state %d changed", i)
		}
	}
}

func TestManyStreamsAtOnce(t *testing.T) {
	file, _ := madeUp(4)
	m, err := Parse(file, 8000)
	if err != nil {
		t.Fatal(err)
	}
	sound := signal(8000)[8000:]
	run := func() (out []float32) {
		state := make([]float32, m.State())
		for i := range 10 {
			out = append(out, m.Probability(state, sound[i*256:][:256]))
		}
		return out
	}
	want := fmt.Sprint(run())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got := fmt.Sprint(run()); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
	group.Wait()
}

func TestTimesAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][2]int{{4, 8}, {8, 16}, {258, 128}, {512, 256}, {3, 5}} {
		m := newMatrix(size[0], size[1])
		x := make([]float32, m.columns)
		for i := range m.v {
			m.v[i] = random.Float32() - 0.5
		}
		for i := range x {
			x[i] = random.Float32() - 0.5
		}
		a, b := make([]float32, m.rows+1), make([]float32, m.rows+1)
		m.times(a, x)
		m.timesPlain(b, x)
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-5 {
				t.Fatalf("%v, row %d: %g and %g", size, i, a[i], b[i])
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	file, _ := madeUp(5)
	for _, rate := range []int{8000, 16000} {
		m, err := Parse(file, rate)
		if err != nil {
			t.Fatal(err)
		}
		state, frame := make([]float32, m.State()), make([]int16, m.Frame())
		if n := testing.AllocsPerRun(50, func() { m.Probability(state, frame) }); n != 0 {
			t.Errorf("%d Hz: %v allocations a frame", rate, n)
		}
		if n := 4 * m.State(); n > 2048 {
			t.Errorf("%d Hz: a stream remembers %d bytes", rate, n)
		}
	}
}

// FuzzParse: whatever the file, no panic and no endless memory.
func FuzzParse(f *testing.F) {
	file, _ := madeUp(6)
	f.Add([]byte{}, 8000)
	f.Add(file[:2000], 8000)
	f.Add(dataField(7, dataField(1, dataField(5, dataField(6, dataField(1, dataField(4, []byte("Constant"))))))), 16000)
	f.Add(dataField(7, dataField(1, append(dataField(4, []byte("Constant")), dataField(5, dataField(5, append(varintField(1, 1<<63), dataField(9, nil)...)))...))), 8000)
	f.Add([]byte{0x3A, 0x03, 0x0A, 0x7F, 0x00}, 8000)
	f.Fuzz(func(t *testing.T, b []byte, rate int) {
		m, err := Parse(b, rate)
		if (m == nil) == (err == nil) {
			t.Fatalf("%v, %v", m, err)
		}
		if m != nil {
			m.Probability(make([]float32, m.State()), make([]int16, m.Frame()))
		}
	})
}

func BenchmarkFrame(b *testing.B) {
	file, _ := madeUp(7)
	for _, rate := range []int{8000, 16000} {
		m, err := Parse(file, rate)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(rate), func(b *testing.B) {
			state, sound := make([]float32, m.State()), signal(rate)[rate:]
			b.ReportAllocs()
			for b.Loop() {
				m.Probability(state, sound[:m.Frame()])
			}
		})
	}
	b.Run("lstm plain", func(b *testing.B) {
		m, _ := Parse(file, 8000)
		x, out := make([]float32, 256), make([]float32, 512)
		for b.Loop() {
			m.lstm.timesPlain(out, x)
		}
	})
}
