package call

import (
	"slices"
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/resample"
	"parley/media/tone"
	"parley/media/vad"
	"parley/rtp"
	"parley/rtp/dtmf"
	"parley/rtp/jitter"
)

// quietAfter is how long nothing may have been heard before the ear gives the
// agent silence in the caller's stead, so that recognisers and timers run on when
// a phone is muted or suppresses silence.
const quietAfter = 240 * time.Millisecond

// maxFill bounds the silence made up at once for a jump of the caller's clock.
const maxFill = 200 * time.Millisecond

// comfortNoise is the static payload type of RFC 3389.
const comfortNoise = 13

// ear is the way of the caller's sound to the agent. All of it runs on the wheel.
//
//	packet ─┬ telephone-event ─> dtmf ──────────────────> notice(digit)
//	        └ audio ─> jitter ─> decode or conceal ─┬──> voice ─> notice(voice on, off)
//	                                                └──> resample ─> 20 ms frames ─> hear
type ear struct {
	line   *line
	accept accept
	jitter *jitter.Buffer
	digits *dtmf.Decoder
	voice  vad.Detector
	// voiceRate is what voice was made for. A re-INVITE may change the line's; then
	// toVoice leads from one to the other.
	voiceRate int
	toVoice   *resample.Resampler
	voicePCM  []int16
	echo      *vad.Echo // nil: the agent's own echo may be taken for a voice
	floor     float64   // that voice was last told
	hearRate  int
	rate      *resample.Resampler
	frame     []int16 // at hearRate, less than a frame between packets
	pcm       []int16 // what the decoder just gave, at the line's rate

	hear   func([]int16)
	coded  wish // for an agent that wants the sound as it came
	notice func(agent.Notice)
	// deaf, while it says so, keeps the sound from the agent, but not from the
	// recording. hidden is the last edge of a voice that the agent was not told of.
	deaf   func() bool
	hidden agent.NoticeKind

	tape   *tape         // nil: the call is not recorded
	now    time.Duration // of the wheel
	delays *delays       // nil: not measured
	age    func() time.Duration

	tones   *tone.Keys // nil: not listened for
	pressed []byte
	plays   uint32

	began   bool
	heardAt time.Duration // when sound, or silence in its stead, was last given
	filled  int           // samples given in the caller's stead since then, at the line's rate
	counts  earCounts
}

// accept says what the payload types of the caller's packets are.
type accept struct {
	events [3]uint8 // telephone-event by our number, by the peer's, and of another clock
	hasEvt bool
	tones  bool // keys are listened for in the sound
}

func (a accept) event(pt uint8) bool { return a.hasEvt && slices.Contains(a.events[:], pt) }

// earCounts is kept by the wheel and read when the call is over.
type earCounts struct {
	concealed time.Duration
	undecoded uint64 // payloads that the decoder refused
}

// use makes the ear decode as l says; the wheel calls it between two packets.
func (e *ear) use(l *line, a accept, buf *jitter.Buffer, digits *dtmf.Decoder) error {
	e.accept, e.digits = a, digits
	switch {
	case !a.tones:
		e.tones = nil
	case e.tones == nil:
		e.tones = tone.NewKeys(e.voiceRate)
	}
	digits.SetClock(l.codec.ClockRate) // timestamps are the stream's, whatever clock events are said to have
	if e.line == l {
		return nil
	}
	if e.rate == nil || e.line.codec.SampleRate != l.codec.SampleRate {
		r, err := resample.New(l.codec.SampleRate, e.hearRate, resample.Voice)
		if err != nil {
			return err
		}
		toVoice, err := resample.New(l.codec.SampleRate, e.voiceRate, resample.Voice)
		if err != nil {
			return err
		}
		if e.line != nil {
			e.filled = e.filled * l.codec.SampleRate / e.line.codec.SampleRate
		}
		e.rate, e.toVoice = r, toVoice
	}
	e.line, e.jitter = l, buf
	if err := e.coded.use(l); err != nil {
		return err
	}
	if e.coded.enc != nil {
		e.frame = e.frame[:0] // what is there would come behind what is next
	}
	return nil
}

// packet takes one packet of the caller.
func (e *ear) packet(p *rtp.Packet) {
	e.now = p.Arrival
	if p.Resync {
		e.jitter.Reset()
	}
	if e.accept.event(p.PayloadType) {
		e.jitter.Skip(p.Arrival, p.Sequence)
		e.pop(p.Arrival)
		if digit, ok := e.digits.Receive(p.Arrival, p.Timestamp, p.Marker, p.Payload); ok {
			e.notice(agent.Notice{Kind: agent.Digit, At: time.Now(), Digit: digit})
		}
		return
	}
	if p.PayloadType == comfortNoise {
		// Silence (RFC 3389): turn fills in for what does not come.
		e.jitter.Skip(p.Arrival, p.Sequence)
		e.pop(p.Arrival)
		return
	}
	if e.jitter.Push(p.Arrival, p.Sequence, p.Timestamp, p.Marker, p.Payload) {
		e.play(p.Arrival, p.Arrival, p.Payload)
	}
	e.pop(p.Arrival)
}

// turn looks for packets whose waiting time is over, and for silence.
func (e *ear) turn(now time.Duration, held bool) {
	e.now = now
	if e.hidden != 0 && !e.deaf() {
		e.tellHidden()
	}
	e.pop(now)
	if !e.began || held {
		e.heardAt = now
		return
	}
	const step = media.FrameTime
	for now-e.heardAt > quietAfter {
		n := media.Samples(step, e.line.codec.SampleRate)
		e.heardAt += step
		e.now = e.heardAt // when it should have been heard, for the recording
		e.filled += n
		e.pcm = append(e.pcm[:0], make([]int16, n)...)
		e.give(e.pcm, nil)
	}
}

// pop plays what the jitter buffer has ready.
func (e *ear) pop(now time.Duration) {
	for {
		it, ok := e.jitter.Pop(now)
		switch {
		case !ok:
			return
		case it.Lost:
			n := e.samples(it.Samples)
			e.counts.concealed += media.Duration(n, e.line.codec.SampleRate)
			if n = e.unfilled(n); n > 0 {
				e.pcm = e.line.conceal(e.pcm[:0], n, it.Next)
				e.give(e.pcm, nil)
			}
			e.heardAt = now
		case it.Gap:
			limit := media.Samples(maxFill, e.line.codec.SampleRate)
			if n := min(e.unfilled(e.samples(it.Samples)), limit); n > 0 {
				e.pcm = append(e.pcm[:0], make([]int16, n)...)
				e.give(e.pcm, nil)
			}
			e.heardAt = now
		default:
			e.play(now, it.At, it.Payload)
		}
	}
}

// unfilled is what of n samples was not yet given in the caller's stead.
func (e *ear) unfilled(n int) int {
	done := min(n, e.filled)
	e.filled -= done
	return n - done
}

// samples converts a length in units of the RTP clock.
func (e *ear) samples(n int) int { return n * e.line.codec.SampleRate / e.line.codec.ClockRate }

// play decodes one payload of a packet that arrived at a time.
func (e *ear) play(now, arrived time.Duration, payload []byte) {
	pcm, err := e.line.dec.Decode(e.pcm[:0], payload)
	if err != nil {
		e.counts.undecoded++
		return
	}
	e.pcm = pcm
	if e.line.plc != nil {
		e.line.plc.Good(pcm)
	}
	e.began, e.heardAt, e.filled = true, now, 0
	e.give(pcm, payload)
	if e.delays != nil {
		e.measure(now - arrived)
	}
}

// measure counts how long one packet of measureEvery took to be heard: what it waited
// here, or else its age.
func (e *ear) measure(wait time.Duration) {
	e.plays++
	switch {
	case e.plays == 1:
		e.age() // the first answer is none, see rtp.Session.Age
	case e.plays%measureEvery != 0:
	case wait != 0:
		e.delays.hear.observe(wait)
	default:
		e.delays.hear.observe(e.age())
	}
}

// measureEvery is which share of packets is measured: to ask for the age of one costs
// a system call.
const measureEvery = 32

// give hands sound on to the voice detector and to the agent. payload is what it was
// decoded from, nil for sound made up in the caller's stead.
func (e *ear) give(pcm []int16, payload []byte) {
	if e.tape != nil {
		e.tape.heard(e.now, e.line, pcm)
	}
	heard := pcm
	if e.line.codec.SampleRate != e.voiceRate {
		e.voicePCM = e.toVoice.Process(e.voicePCM[:0], pcm)
		heard = e.voicePCM
	}
	if e.tones != nil {
		e.pressed = e.tones.Hear(e.pressed[:0], heard)
		for _, digit := range e.pressed {
			e.notice(agent.Notice{Kind: agent.Digit, At: time.Now(), Digit: digit})
		}
	}
	for rest, n := heard, media.Samples(media.FrameTime, e.voiceRate); len(rest) > 0; {
		piece := rest[:min(n, len(rest))]
		rest = rest[len(piece):]
		e.edge(e.listen(piece))
	}
	if e.deaf() {
		e.frame = e.frame[:0]
		return
	}
	if e.coded.enc != nil {
		e.coded.give(pcm, payload)
		return
	}
	size := media.Samples(media.FrameTime, e.hearRate)
	if e.line.codec.SampleRate == e.hearRate && len(e.frame) == 0 && len(pcm) == size {
		e.hear(pcm) // the common case: no copy
		return
	}
	e.frame = e.rate.Process(e.frame, pcm)
	done := 0
	for ; len(e.frame)-done >= size; done += size {
		e.hear(e.frame[done : done+size])
	}
	e.frame = e.frame[:copy(e.frame, e.frame[done:])]
}

// listen has the voice detector hear a piece of at most 20 ms, and no echo of the agent.
func (e *ear) listen(piece []int16) vad.Edge {
	if e.echo == nil {
		return e.voice.Process(piece)
	}
	if floor := e.echo.Floor(); floor != e.floor {
		e.floor = floor
		e.voice.SetFloor(floor)
	}
	v := e.voice.Process(piece)
	e.echo.Heard(e.voice.Level(), media.Duration(len(piece), e.voiceRate))
	e.echo.Edge(v)
	return v
}

// edge tells the agent what the voice detector found.
func (e *ear) edge(v vad.Edge) {
	var kind agent.NoticeKind
	switch v.Kind {
	case vad.Candidate:
		kind = agent.VoiceOn
	case vad.On:
		kind = agent.VoiceConfirmed
	case vad.Off, vad.Rejected:
		kind = agent.VoiceOff
	default:
		return
	}
	if e.deaf() {
		e.hidden = kind
		return
	}
	e.notice(agent.Notice{Kind: kind, At: time.Now(), Lag: v.Lag})
}

// tellHidden tells the agent of a voice that it finds under way.
func (e *ear) tellHidden() {
	kind := e.hidden
	e.hidden = 0
	if kind == agent.VoiceOn || kind == agent.VoiceConfirmed {
		e.notice(agent.Notice{Kind: agent.VoiceOn, At: time.Now()})
	}
	if kind == agent.VoiceConfirmed {
		e.notice(agent.Notice{Kind: kind, At: time.Now()})
	}
}
