package main

import (
	"slices"
	"time"

	"parley/media"
	"parley/media/plc"
	"parley/rtp/jitter"
)

// tick is how often a wheel looks.
const tick = 5 * time.Millisecond

// fixedDelay is what the fixed buffer adds to the first packet's delay.
const fixedDelay = 60 * time.Millisecond

// decoder decodes packets and conceals, or does not.
type decoder struct {
	media.Decoder
	plc     *plc.Concealer // nil: the codec does
	silence bool           // lost sound is silence
	noFEC   bool           // what the packet behind repeats is not used
}

func newDecoder(codec media.Codec) (*decoder, error) {
	dec, err := codec.NewDecoder()
	if err != nil {
		return nil, err
	}
	d := &decoder{Decoder: dec}
	if _, own := dec.(media.Concealer); !own {
		d.plc = plc.New(codec.SampleRate)
	}
	return d, nil
}

func (d *decoder) good(dst []int16, payload []byte) ([]int16, error) {
	old := len(dst)
	dst, err := d.Decode(dst, payload)
	if err == nil && d.plc != nil && !d.silence {
		d.plc.Good(dst[old:])
	}
	return dst, err
}

func (d *decoder) conceal(dst []int16, n int, next []byte) ([]int16, error) {
	if d.silence {
		return append(dst, make([]int16, n)...), nil
	}
	if d.plc != nil {
		return d.plc.Conceal(dst, n), nil
	}
	if r, ok := d.Decoder.(media.Recoverer); ok && next != nil && !d.noFEC {
		return r.Recover(dst, next, n)
	}
	return d.Decoder.(media.Concealer).Conceal(dst, n)
}

// adaptive gives the packets to Parley's own buffer, on a clock that is not real, and
// to a decoder that something is changed of.
func (t *trial) adaptive(change func(*decoder)) (res result, err error) {
	dec, err := newDecoder(t.codec)
	if err != nil {
		return res, err
	}
	change(dec)
	buffer := jitter.New(jitter.Config{ClockRate: t.codec.ClockRate, Min: jitterMin, Max: jitterMax, Depth: 32, MaxPacket: 1500, Duration: t.codec.Duration})
	step := uint32(media.Samples(packetTime, t.codec.ClockRate))
	per := media.Samples(packetTime, t.codec.SampleRate)
	gave := func(now time.Duration, n int) {
		for len(res.delays) < (len(res.pcm)+per/2)/per {
			res.delays = append(res.delays, now-time.Duration(len(res.delays))*t.every)
		}
	}
	pop := func(now time.Duration) error {
		for {
			it, ok := buffer.Pop(now)
			if !ok {
				return nil
			}
			n := it.Samples * t.codec.SampleRate / t.codec.ClockRate
			var err error
			switch {
			case it.Lost:
				res.pcm, err = dec.conceal(res.pcm, n, it.Next)
				res.concealed += media.Duration(n, t.codec.SampleRate)
			case it.Gap:
				res.pcm = append(res.pcm, make([]int16, n)...)
			default:
				res.pcm, err = dec.good(res.pcm, it.Payload)
			}
			if err != nil {
				return err
			}
			gave(now, n)
		}
	}
	k := 0
	end := t.trace[len(t.trace)-1].at + 150*time.Millisecond
	for now := time.Duration(0); now <= end; now += tick {
		for ; k < len(t.trace) && t.trace[k].at <= now; k++ {
			i := t.trace[k].i
			if buffer.Push(now, uint16(1000+i), 160000+uint32(i)*step, false, t.payloads[i]) {
				if res.pcm, err = dec.good(res.pcm, t.payloads[i]); err != nil {
					return res, err
				}
				gave(now, per)
			}
			if err := pop(now); err != nil {
				return res, err
			}
		}
		if err := pop(now); err != nil {
			return res, err
		}
	}
	st := buffer.Stats()
	res.lost, res.late = int(st.Lost), int(st.Late)
	return res, nil
}

// What calls have by default.
const (
	jitterMin = 20 * time.Millisecond
	jitterMax = 200 * time.Millisecond
)

// fixedBuffer plays packet i 60 ms and i packets after the first came, by its own
// clock, or conceals it. It conceals as well as Parley does.
func (t *trial) fixedBuffer() (res result, err error) {
	dec, err := newDecoder(t.codec)
	if err != nil {
		return res, err
	}
	came := make([]time.Duration, len(t.payloads))
	for i := range came {
		came[i] = -1
	}
	for _, a := range slices.Backward(t.trace) {
		came[a.i] = a.at
	}
	per := media.Samples(packetTime, t.codec.SampleRate)
	for i, b := range t.payloads {
		at := came[0] + fixedDelay + time.Duration(i)*packetTime
		res.delays = append(res.delays, at-time.Duration(i)*t.every)
		if came[i] >= 0 && came[i] <= at {
			if res.pcm, err = dec.good(res.pcm, b); err != nil {
				return res, err
			}
			continue
		}
		res.lost++
		if came[i] >= 0 {
			res.late++
		}
		res.concealed += packetTime
		var next []byte
		if i+1 < len(came) && came[i+1] >= 0 && came[i+1] <= at {
			next = t.payloads[i+1]
		}
		if res.pcm, err = dec.conceal(res.pcm, per, next); err != nil {
			return res, err
		}
	}
	return res, nil
}

// judge runs the other receivers and scores all of them.
func (t *trial) judge() (err error) {
	if t.bare, err = t.adaptive(func(d *decoder) { d.silence = true }); err != nil {
		return err
	}
	if t.fixed, err = t.fixedBuffer(); err != nil {
		return err
	}
	if t.noFEC, err = t.adaptive(func(d *decoder) { d.noFEC = true }); err != nil {
		return err
	}
	reference := newReference(t.clean, t.codec.SampleRate)
	for _, r := range []*result{&t.ours, &t.bare, &t.fixed, &t.noFEC} {
		r.score, r.shift = reference.compare(r.pcm)
		r.mean, r.percentile = spread(t.arrived(r.delays))
	}
	return nil
}

// arrived are the delays of the sound of packets that arrived at all: that of the rest
// is made up, whenever it is given.
func (t *trial) arrived(delays []time.Duration) (out []time.Duration) {
	came := make([]bool, len(t.payloads))
	for _, a := range t.trace {
		came[a.i] = true
	}
	for i, d := range delays {
		if i < len(came) && came[i] {
			out = append(out, d)
		}
	}
	return out
}

// spread is the mean and the 95th percentile.
func spread(d []time.Duration) (mean, percentile time.Duration) {
	if len(d) == 0 {
		return 0, 0
	}
	d = slices.Clone(d)
	slices.Sort(d)
	for _, v := range d {
		mean += v
	}
	return mean / time.Duration(len(d)), d[len(d)*95/100]
}
