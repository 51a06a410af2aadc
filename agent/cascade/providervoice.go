package cascade

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"parley/agent/live"
	"parley/agent/tts"
	"parley/media/resample"
)

// voiceOf speaks the sentences of a reply.
func (t *talk) voiceOf(r *spokenReply) {
	rate, err := resample.New(t.cfg.TTS.Rate(), live.OutputRate, resample.Voice)
	for p := range r.pieces {
		if err != nil || r.ctx.Err() != nil {
			continue // until there are no more
		}
		text := strings.TrimSpace(r.plain.Plain(p))
		if text == "" {
			r.space += p
			continue
		}
		lead := p[:len(p)-len(strings.TrimLeftFunc(p, unicode.IsSpace))]
		lead, r.space = r.space+lead, ""
		if r.length > 0 && lead == "" {
			lead = " "
		}
		if failed := t.speak(r, rate, lead, text); failed != nil && r.ctx.Err() == nil {
			t.warn(fmt.Errorf("cascade: the voice: %w", failed))
		}
	}
}

// speak speaks one sentence.
func (t *talk) speak(r *spokenReply, rate *resample.Resampler, lead, text string) error {
	begin := r.length
	r.spoken.Begin(begin, lead+text)
	tell := teller{out: t.out, reply: r, begin: begin, left: lead + text}
	samples, given := 0, 0
	var pcm []int16
	err := t.cfg.TTS.Speak(r.ctx, text, func(c tts.Chunk) error {
		for _, w := range c.Words {
			r.spoken.Word(w.Text, w.End)
			tell.word(w)
		}
		samples += len(c.PCM)
		pcm = rate.Process(pcm[:0], c.PCM)
		given += len(pcm)
		r.spoken.Grow(time.Duration(int64(samples) * int64(time.Second) / int64(t.cfg.TTS.Rate())))
		return tell.sound(pcm)
	})
	if err != nil {
		rate.Reset()
		r.spoken.Fail()
	} else {
		pcm = rate.Flush(pcm[:0])
		// The filter's tail is silence but for a few samples; the sentence lasts as long as
		// the voice made it.
		if more := int(int64(samples)*live.OutputRate/int64(t.cfg.TTS.Rate())) - given; more < len(pcm) {
			pcm = pcm[:max(more, 0)]
		}
		given += len(pcm)
		err = tell.sound(pcm)
		r.spoken.End()
	}
	r.mu.Lock()
	r.length = begin + time.Duration(int64(given)*int64(time.Second)/live.OutputRate)
	r.mu.Unlock()
	if err == nil {
		err = tell.rest(r.length)
	}
	return err
}

// teller tells the words of a sentence with its sound.
type teller struct {
	out   *outbox
	reply *spokenReply
	begin time.Duration
	left  string // not yet told
	timed bool   // the voice tells where words lie
	marks []live.Transcript
}

// word tells the words up to one whose place is known.
func (s *teller) word(w tts.Word) {
	at := strings.Index(s.left, w.Text)
	if at < 0 || w.Text == "" {
		return
	}
	s.timed = true
	s.marks = append(s.marks, live.Transcript{Delta: s.left[:at+len(w.Text)], Until: s.begin + w.End})
	s.left = s.left[at+len(w.Text):]
}

// sound tells a piece of sound, with the words that begin in it or after it.
func (s *teller) sound(pcm []int16) error {
	if !s.timed && s.left != "" {
		s.marks = append(s.marks, live.Transcript{Delta: s.left})
		s.left = ""
	}
	r := s.reply
	for _, m := range s.marks {
		if err := s.out.say(r.ctx, live.Message{ItemID: r.item, Agent: m}); err != nil {
			return err
		}
	}
	s.marks = nil
	if len(pcm) == 0 {
		return nil
	}
	audio := make([]byte, 2*len(pcm))
	for i, v := range pcm {
		audio[2*i], audio[2*i+1] = byte(v), byte(uint16(v)>>8)
	}
	r.mu.Lock()
	if r.began.IsZero() {
		r.began = time.Now()
	}
	r.mu.Unlock()
	return s.out.say(r.ctx, live.Message{ItemID: r.item, Audio: audio})
}

// rest tells what is left of the words, and where the sentence ends.
func (s *teller) rest(end time.Duration) error {
	return s.out.say(s.reply.ctx, live.Message{ItemID: s.reply.item, Agent: live.Transcript{Delta: s.left, Until: end}})
}
