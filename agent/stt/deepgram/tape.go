package deepgram

import "time"

// tape is the audio of a call that may still be needed: what was not sent yet, and what
// was sent but has no final transcript. Positions count the stream's samples. Its owner
// locks it.
type tape struct {
	rate, most int // Hz; samples that are kept

	pcm   []int16
	start int64 // position of pcm[0]
	sent  int64 // up to where it was sent over this connection
	heard int64 // up to where there are final transcripts
	voice int64 // where the caller's voice began; -1: nobody speaks
	lost  bool  // audio of the caller's was dropped, and nobody was told yet
}

// lead is how much audio before Begin may hold the beginning of the voice.
const lead = 800 * time.Millisecond

func newTape(rate int, most time.Duration) *tape {
	return &tape{rate: rate, most: int(int64(most) * int64(rate) / int64(time.Second)), voice: -1}
}

func (t *tape) end() int64 { return t.start + int64(len(t.pcm)) }

// write adds pcm. What is too old is dropped, a second at a time, for little is to be
// copied; it is lost if it was not sent and somebody may have been speaking.
func (t *tape) write(pcm []int16) {
	for len(pcm) > 0 {
		n := min(len(pcm), t.rate)
		t.pcm = append(t.pcm, pcm[:n]...)
		pcm = pcm[n:]
		if len(t.pcm) > t.most+t.rate {
			t.drop(t.end() - int64(t.most))
		}
	}
}

// drop forgets what lies before a position.
func (t *tape) drop(before int64) {
	if before <= t.start {
		return
	}
	if t.sent < before {
		if t.voice >= 0 && before > t.voice-t.samples(lead) {
			t.lost = true
		}
		t.sent = before
	}
	t.pcm = t.pcm[:copy(t.pcm, t.pcm[before-t.start:])]
	t.start = before
	t.heard = max(t.heard, before)
}

// again has what has no final transcript sent over a new connection.
func (t *tape) again() { t.sent = max(t.start, min(t.heard, t.end())) }

// next copies into b, as bytes, at most n of the samples to be sent that lie before a
// position.
func (t *tape) next(b []byte, n int, before int64) []byte {
	from := int(t.sent - t.start)
	to := min(from+n, int(before-t.start), len(t.pcm))
	for ; from < to; from++ {
		b = append(b, byte(t.pcm[from]), byte(t.pcm[from]>>8)) //nolint:gosec // the bits are meant
	}
	t.sent = t.start + int64(max(from, to))
	return b
}

// begin notes that the voice began.
func (t *tape) begin() {
	if t.voice < 0 {
		t.voice = t.end()
	}
}

// settle notes that there is a final transcript of all before a position, or that none
// is wanted any more.
func (t *tape) settle(position int64, over bool) {
	t.heard = max(t.heard, min(position, t.end()))
	if over && t.voice <= position {
		t.voice = -1
	}
}

func (t *tape) samples(d time.Duration) int64 { return int64(d) * int64(t.rate) / int64(time.Second) }

// at is the time of a position.
func (t *tape) at(position int64) time.Duration {
	rate := int64(t.rate) // in two steps: a call may last for days
	return time.Duration(position/rate)*time.Second + time.Duration(position%rate)*time.Second/time.Duration(rate)
}
