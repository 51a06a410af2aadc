package failover

import (
	"time"

	"parley/agent/stt"
)

// maxAsked bounds how many turns may wait for their final transcripts.
const maxAsked = 100

// kept is what the caller said that has no final transcript yet: what the next recogniser
// hears. Positions count the stream's samples. Its owner locks it.
type kept struct {
	rate int // Hz
	most int // samples

	pcm   []int16
	start int64  // position of pcm[0]
	asked []turn // that a final transcript was asked for, the oldest first
	begun bool   // the caller's voice began behind the last of asked
}

// turn is what the caller said up to a Finalize.
type turn struct {
	end   int64 // position behind it
	begun bool
}

func (k *kept) end() int64 { return k.start + int64(len(k.pcm)) }

// write adds pcm. What is too old is dropped, but rarely, so that little is copied.
func (k *kept) write(pcm []int16) {
	k.pcm = append(k.pcm, pcm...)
	if len(k.pcm) > 2*k.most {
		k.trim()
	}
}

// trim drops what is too old.
func (k *kept) trim() { k.forget(k.end() - int64(k.most)) }

// forget drops what lies before a position.
func (k *kept) forget(before int64) {
	n := min(before, k.end()) - k.start
	if n <= 0 {
		return
	}
	k.pcm = k.pcm[:copy(k.pcm, k.pcm[n:])]
	k.start += n
}

// ask notes that the turn ended here.
func (k *kept) ask() {
	if len(k.asked) < maxAsked {
		k.asked = append(k.asked, turn{k.end(), k.begun})
	}
	k.begun = false
}

// final notes that a final transcript came: that of the oldest turn that waits for one, or,
// when none does, of an utterance whose end the recogniser found by itself. Then the
// caller may have spoken on, in the same turn: what lies behind the last word is still to be
// heard.
func (k *kept) final(words []stt.Word) {
	switch {
	case len(k.asked) > 0:
		k.forget(k.asked[0].end)
		k.asked = append(k.asked[:0], k.asked[1:]...)
	case len(words) > 0:
		k.forget(k.position(words[len(words)-1].End))
	default:
		k.forget(k.end())
	}
}

// again gives a stream all that is kept, as if the caller said it now.
func (k *kept) again(begin, finalize func(), write func([]int16)) {
	at := 0
	for _, t := range k.asked {
		if t.begun { // first: of audio before it a recogniser may take no more than a pre-roll
			begin()
		}
		if to := int(t.end - k.start); to > at {
			write(k.pcm[at:to])
			at = to
		}
		finalize()
	}
	if k.begun {
		begin()
	}
	if at < len(k.pcm) {
		write(k.pcm[at:])
	}
}

// at is the time of a position, in two steps: a call may last for days.
func (k *kept) at(position int64) time.Duration {
	rate := int64(k.rate)
	return time.Duration(position/rate)*time.Second + time.Duration(position%rate)*time.Second/time.Duration(rate)
}

// position is that of a time.
func (k *kept) position(at time.Duration) int64 {
	return int64(at/time.Second)*int64(k.rate) + int64(at%time.Second)*int64(k.rate)/int64(time.Second)
}
