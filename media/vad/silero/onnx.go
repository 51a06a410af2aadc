package silero

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
)

// The published file is a protobuf message, ModelProto of ONNX. What is needed of
// it is little: in its graph there is an If node on the sampling rate, and the
// weights are the outputs of Constant nodes in the graphs of its two branches.
//
//	ModelProto.graph 7 ─ GraphProto.node 1 ─ NodeProto.attribute 5 ─┬ .g 6: a GraphProto
//	                                         NodeProto.output 2     └ .t 5: a TensorProto
//	TensorProto.dims 1, .data_type 2, .raw_data 9

var errDamaged = errors.New("silero: the file is damaged or no ONNX model")

// field is one field of a protobuf message.
type field struct {
	number int
	wire   int    // 0: value; 2: data
	value  uint64 // of a varint
	data   []byte // of a length-delimited field
}

// fields walks over the fields of a message. The last pair has an error if the
// message is cut or malformed.
func fields(b []byte) iter.Seq2[field, error] {
	return func(yield func(field, error) bool) {
		for len(b) > 0 {
			f, n := next(b)
			if n <= 0 {
				yield(field{}, errDamaged)
				return
			}
			b = b[n:]
			if !yield(f, nil) {
				return
			}
		}
	}
}

// next reads one field and says how long it is; 0 if it cannot.
func next(b []byte) (f field, n int) {
	key, k := binary.Uvarint(b)
	if k <= 0 || key>>3 > math.MaxInt32 {
		return f, 0
	}
	f.number, f.wire = int(key>>3), int(key&7)
	rest := b[k:]
	switch f.wire {
	case 0:
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			return f, 0
		}
		f.value = v
		return f, k + n
	case 1, 5:
		size := 8
		if f.wire == 5 {
			size = 4
		}
		if len(rest) < size {
			return f, 0
		}
		return f, k + size
	case 2:
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return f, 0
		}
		f.data = rest[n:][:size]
		return f, k + n + int(size)
	}
	return f, 0
}

// tensor is a TensorProto as it lies in the file.
type tensor struct {
	dims []int
	kind uint64 // 1: float32
	raw  []byte
}

func readTensor(b []byte) (t tensor, err error) {
	for f, err := range fields(b) {
		if err != nil {
			return t, err
		}
		switch {
		case f.number == 1 && f.wire == 0:
			t.dims = append(t.dims, int(f.value))
		case f.number == 1 && f.wire == 2: // packed
			for p := f.data; len(p) > 0; {
				v, n := binary.Uvarint(p)
				if n <= 0 {
					return t, errDamaged
				}
				t.dims = append(t.dims, int(v))
				p = p[n:]
			}
		case f.number == 2 && f.wire == 0:
			t.kind = f.value
		case f.number == 9 && f.wire == 2:
			t.raw = f.data
		}
		if len(t.dims) > 8 {
			return t, errDamaged
		}
	}
	return t, nil
}

// maxDepth bounds how deep graphs lie in each other; the published file has 3.
const maxDepth = 8

// constants collects the tensors of all Constant nodes of a GraphProto and the
// graphs in it, by the names of their outputs.
func constants(graph []byte, into map[string]tensor, depth int) error {
	if depth > maxDepth {
		return errDamaged
	}
	for f, err := range fields(graph) {
		if err != nil {
			return err
		}
		if f.number == 1 && f.wire == 2 {
			if err := node(f.data, into, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

func node(b []byte, into map[string]tensor, depth int) error {
	output, operator := "", ""
	for f, err := range fields(b) {
		if err != nil {
			return err
		}
		switch {
		case f.number == 2 && f.wire == 2:
			output = string(f.data)
		case f.number == 4 && f.wire == 2:
			operator = string(f.data)
		}
	}
	for f, err := range fields(b) {
		if err != nil {
			return err
		}
		if f.number != 5 || f.wire != 2 {
			continue
		}
		for a, err := range fields(f.data) {
			switch {
			case err != nil:
				return err
			case a.number == 6 && a.wire == 2:
				if err := constants(a.data, into, depth+1); err != nil {
					return err
				}
			case a.number == 5 && a.wire == 2 && operator == "Constant":
				t, err := readTensor(a.data)
				if err != nil {
					return err
				}
				into[output] = t
			}
		}
	}
	return nil
}

// weights finds tensors by name; it remembers the first thing that was wrong.
type weights struct {
	all    map[string]tensor
	prefix string
	err    error
}

// get is the values of a tensor, which must have the given dimensions.
func (w *weights) get(name string, dims ...int) []float32 {
	size := 1
	for _, d := range dims {
		size *= d
	}
	v := make([]float32, size)
	if w.err != nil {
		return v
	}
	t, ok := w.all[w.prefix+name]
	switch {
	case !ok:
		w.err = fmt.Errorf("silero: another network: no %s", name)
	case t.kind != 1 || fmt.Sprint(t.dims) != fmt.Sprint(dims):
		w.err = fmt.Errorf("silero: another network: %s has dimensions %v, not %v of float32", name, t.dims, dims)
	case len(t.raw) != 4*size:
		w.err = fmt.Errorf("silero: %s has %d bytes, not %d", name, len(t.raw), 4*size)
	default:
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.raw[4*i:]))
			if v[i]-v[i] != 0 { // infinite or not a number
				w.err = fmt.Errorf("silero: %s is damaged", name)
				break
			}
		}
	}
	return v
}

// Parse is Load for a file that is in memory. It does not keep b.
func Parse(b []byte, rate int) (*Model, error) {
	m := &Model{rate: rate}
	w := weights{all: map[string]tensor{}}
	switch rate {
	case 8000:
		w.prefix, m.frame, m.context, m.window = "If_0_else_branch__Inline_0__", 256, 32, 128
	case 16000:
		w.prefix, m.frame, m.context, m.window = "If_0_then_branch__Inline_0__", 512, 64, 256
	default:
		return nil, fmt.Errorf("silero: there is no network for %d Hz, only for 8000 and 16000", rate)
	}
	m.bins = m.window/2 + 1
	for f, err := range fields(b) {
		if err != nil {
			return nil, err
		}
		if f.number == 7 && f.wire == 2 {
			if err := constants(f.data, w.all, 0); err != nil {
				return nil, err
			}
		}
	}
	m.arrange(&w)
	if w.err != nil {
		return nil, w.err
	}
	return m, nil
}

// arrange puts the weights in the order in which they are used.
func (m *Model) arrange(w *weights) {
	m.basis = newMatrix(2*m.bins, m.window)
	copy(m.basis.v, w.get("stft.forward_basis_buffer", 2*m.bins, 1, m.window))
	in := m.bins
	for i := range m.conv {
		name := fmt.Sprintf("encoder.%d.reparam_conv.", i)
		out := widths[i]
		src := w.get(name+"weight", out, in, kernel)
		// Inputs of one step lie side by side, so each output is one product with
		// three rows of the input.
		width := pad(in, 8)
		m.conv[i] = newMatrix(out, kernel*width)
		for o := range out {
			row := m.conv[i].row(o)
			for j := range in {
				for k := range kernel {
					row[k*width+j] = src[(o*in+j)*kernel+k]
				}
			}
		}
		m.bias[i] = w.get(name+"bias", out)
		in = out
	}
	input, output := w.get("decoder.rnn.weight_ih", gates, hidden), w.get("decoder.rnn.weight_hh", gates, hidden)
	m.lstm = newMatrix(gates, 2*hidden)
	for i := range gates {
		copy(m.lstm.row(i), input[i*hidden:][:hidden])
		copy(m.lstm.row(i)[hidden:], output[i*hidden:][:hidden])
	}
	m.gate = w.get("decoder.rnn.bias_ih", gates)
	for i, v := range w.get("decoder.rnn.bias_hh", gates) {
		m.gate[i] += v
	}
	m.out = w.get("decoder.decoder.2.weight", 1, hidden, 1)
	m.outBias = w.get("decoder.decoder.2.bias", 1)[0]
}
