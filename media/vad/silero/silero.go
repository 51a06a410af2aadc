// Package silero runs the Silero voice activity network (version 5 and later) in
// plain Go. It reads the weights out of the published .onnx file itself, so no
// runtime library is needed, and computes exactly what that graph says:
//
//	context + frame ─ pad ─ STFT magnitudes ─ 4 convolutions ─ LSTM ─ ReLU ─ 1 unit ─ sigmoid
//
// The file holds two networks, for 8 and for 16 kHz. A Model is one of them.
//
// On amd64 with AVX2 and FMA the products are computed by a few lines of
// assembly; elsewhere by Go, about five times slower.
package silero

import (
	"fmt"
	"io"
	"math"
	"os"
)

// The sizes that both networks share.
const (
	hidden  = 128 // units of the LSTM
	gates   = 4 * hidden
	steps   = 4 // STFT frames in one frame
	kernel  = 3 // taps of a convolution
	maxC    = 64
	maxN    = 512
	maxBins = 136 // padded
)

// The widths of the layers between the convolutions, and their strides.
var (
	widths  = [4]int{128, 64, 64, hidden}
	strides = [4]int{1, 2, 2, 1}
)

// Model is the network for one sampling rate. It is never changed after it was
// loaded; any number of goroutines may use it, each with the state of a stream of
// its own. It implements the Model of package vad.
type Model struct {
	rate    int
	frame   int // N: samples a frame
	context int // C: samples of the last frame put before it
	window  int // of the STFT
	bins    int // of its spectrum
	basis   matrix
	conv    [4]matrix // rows: outputs; columns: kernel times padded inputs
	bias    [4][]float32
	lstm    matrix // rows: gates i f g o; columns: input, then hidden
	gate    []float32
	out     []float32
	outBias float32
}

// matrix is rows of columns, both padded with zeros: rows to a multiple of 4,
// columns to one of 8.
type matrix struct {
	rows, columns int
	v             []float32
}

func newMatrix(rows, columns int) matrix {
	m := matrix{rows: pad(rows, 4), columns: pad(columns, 8)}
	m.v = make([]float32, m.rows*m.columns)
	return m
}

func (m matrix) row(i int) []float32 { return m.v[i*m.columns:][:m.columns] }

func pad(n, to int) int { return (n + to - 1) / to * to }

// maxFile bounds the file; the published one has 2.3 MB.
const maxFile = 64 << 20

// Load reads the network for rate, 8000 or 16000 Hz, out of the .onnx file at
// path. A file that is missing, damaged or another network is an error.
func Load(path string, rate int) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("silero: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("silero: %w", err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("silero: %s is larger than %d bytes", path, maxFile)
	}
	m, err := Parse(b, rate)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return m, nil
}

// Rate is the sampling rate of the sound in Hz.
func (m *Model) Rate() int { return m.rate }

// Frame is how many samples Probability takes: 32 ms of them.
func (m *Model) Frame() int { return m.frame }

// State is the size of the memory of one stream: context, LSTM input, LSTM
// output and LSTM cells.
func (m *Model) State() int { return m.context + 3*hidden }

// work is what one evaluation needs. It lives on the stack of who asks.
type work struct {
	sound [maxC + maxN + maxC]float32
	stft  [2 * maxBins]float32
	// The inputs of the convolutions, a row for each step, with a row of zeros
	// before the first and after the last.
	spectra [(steps + 2) * maxBins]float32
	layer   [3][(steps + 2) * hidden]float32
	gates   [gates]float32
}

// Probability tells how probably the next Frame samples of a stream are a voice,
// 0 to 1. state is the memory of the stream, State values, all zero at its
// beginning; it is changed. Slices of other lengths give 0 and change nothing.
func (m *Model) Probability(state []float32, frame []int16) float32 {
	if len(state) != m.State() || len(frame) != m.frame {
		return 0
	}
	var w work
	m.sound(&w, state[:m.context], frame)
	m.spectrum(&w)
	x := state[m.context:]
	rows := m.convolve(0, w.layer[0][:], m.conv[1].columns/kernel, w.spectra[:], steps)
	rows = m.convolve(1, w.layer[1][:], m.conv[2].columns/kernel, w.layer[0][:], rows)
	rows = m.convolve(2, w.layer[2][:], m.conv[3].columns/kernel, w.layer[1][:], rows)
	m.last(x[:hidden], w.layer[2][:], rows)
	return m.remember(&w, x)
}

// sound puts the context before the frame and mirrors the end.
func (m *Model) sound(w *work, context []float32, frame []int16) {
	n := copy(w.sound[:], context)
	for i, s := range frame {
		w.sound[n+i] = float32(s) / 32768
	}
	n += len(frame)
	copy(context, w.sound[n-m.context:n])
	for i := range m.context {
		w.sound[n+i] = w.sound[n-2-i]
	}
}

// spectrum computes the magnitudes of the four STFT frames.
func (m *Model) spectrum(w *work) {
	width := m.conv[0].columns / kernel
	for t := range steps {
		m.basis.times(w.stft[:], w.sound[t*m.window/2:][:m.window])
		row := w.spectra[(t+1)*width:][:m.bins]
		for k := range row {
			re, im := w.stft[k], w.stft[k+m.bins]
			row[k] = float32(math.Sqrt(float64(re*re + im*im)))
		}
	}
}

// convolve runs convolution i and its ReLU over in, which has rows rows between
// two of zeros, into out of the same form. It returns how many rows out has.
func (m *Model) convolve(i int, out []float32, width int, in []float32, rows int) int {
	c := &m.conv[i]
	n := 0
	for t := 0; t < rows; t += strides[i] {
		n++
		o := out[n*width:][:widths[i]]
		c.times(o, in[t*c.columns/kernel:][:c.columns])
		relu(o, m.bias[i])
	}
	return n
}

// last runs the last convolution; only its first row is used.
func (m *Model) last(out, in []float32, rows int) {
	c := &m.conv[3]
	if rows > 0 {
		c.times(out, in[:c.columns])
		relu(out, m.bias[3])
	}
}

func relu(v, bias []float32) {
	for i, b := range bias[:len(v)] {
		v[i] = max(0, v[i]+b)
	}
}

// remember runs the LSTM on x, which is its input, output and cells, and the last
// unit on what comes out.
func (m *Model) remember(w *work, x []float32) float32 {
	m.lstm.times(w.gates[:], x[:2*hidden])
	h, c := x[hidden:2*hidden], x[2*hidden:3*hidden]
	g, b := &w.gates, m.gate[:gates]
	sum := m.outBias
	for j := range hidden {
		in := sigmoid(g[j] + b[j])
		forget := sigmoid(g[j+hidden] + b[j+hidden])
		fresh := tanh(g[j+2*hidden] + b[j+2*hidden])
		open := sigmoid(g[j+3*hidden] + b[j+3*hidden])
		c[j] = forget*c[j] + in*fresh
		h[j] = open * tanh(c[j])
		sum += max(0, h[j]) * m.out[j]
	}
	return sigmoid(sum)
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

func tanh(x float32) float32 { return float32(1 - 2/(1+math.Exp(2*float64(x)))) }
