package deepgram

import (
	"strings"
	"time"

	"parley/agent/stt"
)

const (
	// slack is how far the service's times may be off.
	slack = 50 * time.Millisecond
	// A service that never ends an utterance by itself is not waited for any longer with
	// so many segments or bytes of text.
	mostSegments, mostBytes = 100, 4 << 10
)

// segment is a piece of transcript that the service will not change any more, or the
// one that it will (the interim one). Its place is in positions of the stream.
type segment struct {
	start, end int64
	text       string
	confidence float64
	words      []stt.Word
}

// ask is a Finalize.
type ask struct {
	position int64
	sent     bool
	at       time.Time // it was sent
	alive    bool      // the service said something since
	passed   bool      // of audio behind it, or up to it
}

// splice is where a connection's audio lies in the stream's.
type splice struct{ conn, position int64 }

// hearing makes the results of a stream of what the service says. It has no clock and
// no connection; one goroutine owns it.
type hearing struct {
	cfg Config

	splices  []splice
	segments []segment
	interim  segment
	said     string // the latest interim result
	asks     []ask
	owed     int       // answers to Finalize that may still come, of asks that have their result
	lastAt   time.Time // of the service's last message

	sent     int64 // up to where the service has the audio
	covered  int64 // up to where it has said anything, over this connection
	heard    int64 // up to where there are segments that do not change
	answered int64 // up to where there are final results

	out []stt.Result
}

// connected begins a connection whose first audio is that at a position. What it was
// asked for is to be asked again, and what could have changed will come again.
func (h *hearing) connected(now time.Time, position int64) {
	h.splices = append(h.splices[:0], splice{0, position})
	h.interim = segment{}
	h.sent, h.covered = position, position
	h.lastAt = now
	h.owed = 0
	for i := range h.asks {
		h.asks[i] = ask{position: h.asks[i].position}
	}
}

// splice notes that behind so many samples of the connection that of another place of
// the stream comes.
func (h *hearing) splice(conn, position int64) {
	if len(h.splices) >= 100 { // a connection that never keeps up; old times are off
		h.splices = append(h.splices[:0], h.splices[50:]...)
	}
	h.splices = append(h.splices, splice{conn, position})
}

// position is that of a time of the connection. The service cannot have heard what it
// does not have.
func (h *hearing) position(seconds number) int64 {
	conn := int64(float64(seconds) * float64(h.cfg.Rate))
	at := splice{}
	for i, s := range h.splices {
		if i == 0 || s.conn <= conn {
			at = s
		}
	}
	return min(at.position+conn-at.conn, h.sent)
}

// unsent is the position of the first ask that was not sent; ok is false when there is
// none.
func (h *hearing) unsent() (position int64, ok bool) {
	for _, a := range h.asks {
		if !a.sent {
			return a.position, true
		}
	}
	return 0, false
}

// asked notes that the first ask that was not sent was.
func (h *hearing) asked(now time.Time) {
	for i := range h.asks {
		if !h.asks[i].sent {
			h.asks[i].sent, h.asks[i].at = true, now
			return
		}
	}
}

// ask wants a final result of all before a position. Of what is answered already there
// is nothing more to be heard.
func (h *hearing) ask(position int64) []stt.Result {
	h.out = h.out[:0]
	h.asks = append(h.asks, ask{position: position})
	if len(h.asks) == 1 && position <= h.answered && len(h.segments) == 0 {
		h.answer()
	}
	return h.out
}

// idle says whether nothing is under way.
func (h *hearing) idle() bool {
	return len(h.asks) == 0 && len(h.segments) == 0 && h.interim.text == ""
}

// take takes a message. The results are valid until the next call.
func (h *hearing) take(m message, now time.Time) []stt.Result {
	h.out = h.out[:0]
	h.lastAt = now
	switch m.Type {
	case "Results":
		h.results(m)
	case "UtteranceEnd":
		if len(h.asks) == 0 {
			h.unasked()
		}
	}
	return h.out
}

func (h *hearing) results(m message) {
	start, end := h.position(m.Start), h.position(m.Start+m.Duration)
	h.covered = max(h.covered, end)
	off := h.samples(slack)
	for i := range h.asks {
		if a := &h.asks[i]; a.sent {
			a.alive = true
			a.passed = a.passed || end >= a.position-off
		}
	}
	s := h.fresh(segment{start: start, end: end, text: m.best.Transcript, confidence: float64(m.best.Confidence), words: h.words(m.best)})
	if !m.IsFinal {
		h.interim = s
		h.tell()
		return
	}
	h.interim = segment{}
	if s.text != "" {
		h.segments = append(h.segments, s)
	}
	h.heard = max(h.heard, end)
	for len(h.asks) > 0 && h.asks[0].sent && start >= h.asks[0].position {
		h.answer() // the service has gone on without a word
		h.owed++
	}
	answers := m.FromFinalize && !h.belated(end+off)
	for len(h.asks) > 0 && h.asks[0].sent && (answers || (m.FromFinalize || m.SpeechFinal) && h.asks[0].position <= end+off) {
		h.answer()
		if !answers {
			h.owed++
		}
		answers = false
	}
	if len(h.asks) == 0 && (m.SpeechFinal || h.full()) {
		h.unasked()
	}
	h.tell()
}

// belated says whether an answer to Finalize that is of audio before a position is that of
// one which has its result: it does not end the turn that the caller is in by now.
func (h *hearing) belated(position int64) bool {
	if h.owed == 0 || len(h.asks) > 0 && h.asks[0].position <= position {
		return false
	}
	h.owed--
	return true
}

// fresh is s without what a final result was given of: one that was not waited for.
func (h *hearing) fresh(s segment) segment {
	if s.start >= h.answered {
		return s
	}
	if len(s.words) == 0 {
		if s.start+s.end < 2*h.answered {
			s.text = ""
		}
		return s
	}
	from := h.at(h.answered)
	n := 0
	for n < len(s.words) && (s.words[n].Start+s.words[n].End)/2 < from {
		n++
	}
	if n == 0 {
		return s
	}
	texts := make([]string, 0, len(s.words)-n)
	for _, w := range s.words[n:] {
		texts = append(texts, w.Text)
	}
	s.words, s.text = s.words[n:], strings.Join(texts, " ")
	return s
}

func (h *hearing) full() bool {
	n := 0
	for _, s := range h.segments {
		n += len(s.text)
	}
	return n > mostBytes || len(h.segments) > mostSegments
}

// tell reports what there is of the utterance, if it is new.
func (h *hearing) tell() {
	if !h.cfg.Interims {
		return
	}
	text := join(h.segments, h.interim.text)
	if text == "" || text == h.said {
		return
	}
	h.said = text
	h.out = append(h.out, stt.Result{Text: text})
}

// answer gives the final result that was asked for first.
func (h *hearing) answer() {
	a := h.asks[0]
	h.asks = append(h.asks[:0], h.asks[1:]...)
	n := 0
	for n < len(h.segments) && h.segments[n].start < a.position {
		n++
	}
	h.final(n, a.position)
}

// unasked gives the final result of an utterance whose end the service has found.
func (h *hearing) unasked() {
	if n := len(h.segments); n > 0 {
		h.final(n, h.segments[n-1].end)
	}
}

// final gives the result of the first n segments, which hold all before a position.
func (h *hearing) final(n int, position int64) {
	r := stt.Result{Final: true, Text: join(h.segments[:n], "")}
	weight := 0.0
	for _, s := range h.segments[:n] {
		w := float64(max(1, len(s.words)))
		r.Confidence += s.confidence * w
		weight += w
		r.Words = append(r.Words, s.words...)
	}
	if weight > 0 {
		r.Confidence = min(1, r.Confidence/weight)
	}
	if r.Confidence > 0 && r.Confidence < h.cfg.Reject {
		r.Text, r.Words = "", nil
	}
	h.segments = append(h.segments[:0], h.segments[n:]...)
	h.answered = max(h.answered, position)
	h.heard = max(h.heard, position)
	h.said = ""
	h.out = append(h.out, r)
}

// due is when expire is to be called.
func (h *hearing) due() (at time.Time, ok bool) {
	if len(h.asks) == 0 || !h.asks[0].sent {
		return time.Time{}, false
	}
	at = h.stalls()
	if over := h.patience(); over.Before(at) {
		at = over
	}
	return at, true
}

// stalls is when the service counts as standing still.
func (h *hearing) stalls() time.Time {
	at := h.asks[0].at
	if h.lastAt.After(at) {
		at = h.lastAt
	}
	return at.Add(h.cfg.Stall)
}

// patience is when an answer is waited for no longer.
func (h *hearing) patience() time.Time {
	switch a := h.asks[0]; {
	case a.passed:
		return a.at.Add(h.cfg.FinalWait)
	case a.alive:
		return a.at.Add(2 * h.cfg.Stall)
	default:
		return a.at.Add(time.Hour) // it will stall
	}
}

// expire gives answers up, with what there is of them. stalled says that the service
// stands still.
func (h *hearing) expire(now time.Time) (out []stt.Result, stalled bool) {
	h.out = h.out[:0]
	for len(h.asks) > 0 && h.asks[0].sent {
		still := !now.Before(h.stalls())
		switch {
		case !now.Before(h.patience()), still && h.silenced():
			if h.interim.text != "" && h.interim.start < h.asks[0].position {
				h.segments = append(h.segments, h.interim)
				h.interim = segment{}
			}
			h.answer()
			h.owed++
		case still:
			return h.out, true
		default:
			return h.out, false
		}
	}
	return h.out, false
}

// silenced says whether the service need not say anything: there was hardly any audio
// behind Finalize, and it has told of nearly all before.
func (h *hearing) silenced() bool {
	const tail = 1200 * time.Millisecond // interim results come each second
	position := h.asks[0].position
	return h.sent-position < h.samples(h.cfg.Stall)/2 && h.covered >= position-h.samples(tail)
}

// maxWords bounds the words of a segment.
const maxWords = 1000

func (h *hearing) words(a alternative) (out []stt.Word) {
	for _, w := range a.Words {
		text := w.Punctuated
		if text == "" {
			text = w.Word
		}
		if text = clean(text); text == "" || len(text) > 200 || len(out) >= maxWords {
			continue
		}
		from := max(0, h.position(w.Start))
		out = append(out, stt.Word{Text: text, Start: h.at(from), End: h.at(max(from, h.position(w.End)))})
	}
	return out
}

func (h *hearing) samples(d time.Duration) int64 {
	return int64(d) * int64(h.cfg.Rate) / int64(time.Second)
}

func (h *hearing) at(position int64) time.Duration {
	return (&tape{rate: h.cfg.Rate}).at(position)
}

// join is the text of segments, and of one more.
func join(segments []segment, more string) string {
	var b strings.Builder
	for _, s := range segments {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s.text)
	}
	if more != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(more)
	}
	return b.String()
}
