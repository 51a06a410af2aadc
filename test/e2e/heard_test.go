package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/record"
	"parley/agent/session"
	"parley/call"
	"parley/media/resample"
	"parley/sip"
	"parley/test/audio"
	"parley/test/phone"
)

// What the caller heard is told to the agent, to the record, to the events, and to a
// realtime model. All of them are held against the phone's capture here: it says by
// itself which words went out, because each word is a tone of its own.

// diction is how the words of a voice lie in its sound.
type diction struct {
	word, gap time.Duration
	rate      int // of the voice, in Hz
}

// spoken are the words of text that went out whole with a sound: those whose last
// sample did. It fails when a sound is not the word that belongs there.
func (d diction) spoken(pcm []int16, text string) (heard []string, err error) {
	held, err := resample.New(d.rate, 8000, resample.Voice) // as the gateway makes 8 kHz of it
	if err != nil {
		return nil, err
	}
	all, place := words(text), 0
	for n, word := range all {
		begin := time.Duration(n)*(d.word+d.gap) + held.Delay()
		end := begin + d.word
		if at(end) > len(pcm) {
			break
		}
		if got := height(pcm[at(begin+packet):at(end-packet)]); got != place {
			return nil, fmt.Errorf("word %d (%s) sounds like the word in place %d of a sentence, not %d", n, word, got, place)
		}
		heard = append(heard, word)
		if place++; strings.HasSuffix(word, ".") {
			place = 0
		}
	}
	if extra := len(pcm) - at(time.Duration(len(all))*(d.word+d.gap)+3*packet); extra > 0 && len(heard) == len(all) {
		return nil, fmt.Errorf("%d samples of speech after the last word", extra)
	}
	return heard, nil
}

// records keeps the conversations of a test's calls.
type records struct {
	t        *testing.T
	service  session.Service
	recorder *session.Recorder
}

func newRecords(t *testing.T) *records {
	store := session.NewStore(session.NewMemory())
	r := &records{t: t, service: store, recorder: session.NewRecorder(store, session.RecorderConfig{})}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.recorder.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// keep puts the calls of an agent on record.
func (r *records) keep(of agent.Opener) agent.Opener {
	return record.New(of, r.recorder, record.Config{})
}

// replies are the events of what the agent said to a caller, once the call is over.
func (r *records) replies(t *testing.T, number string) (out []*session.Event) {
	t.Helper()
	eventually(t, patience, "the record of "+number, func() bool {
		list, err := r.service.List(t.Context(), &session.ListRequest{AppName: "default", UserID: number})
		if err != nil || len(list.Sessions) == 0 {
			return false
		}
		got, err := r.service.Get(t.Context(), &session.GetRequest{AppName: "default", UserID: number, SessionID: list.Sessions[0].ID()})
		if err != nil {
			t.Fatal(err)
		}
		out = nil
		ended := false
		for e := range got.Session.Events().All() {
			_, played := e.CustomMetadata[record.MetaPlayed]
			_, last := e.CustomMetadata[record.MetaEnded]
			ended = ended || last
			if played {
				out = append(out, e)
			}
		}
		return ended
	})
	return out
}

// textOf is what an event holds, "" when it holds no message.
func textOf(e *session.Event) string {
	if e.Content == nil {
		return ""
	}
	var parts []string
	for _, p := range e.Content.Parts {
		parts = append(parts, p.Text)
	}
	return strings.Join(parts, "")
}

// playedOf is how much of a reply an event says was played.
func playedOf(e *session.Event) time.Duration {
	switch v := e.CustomMetadata[record.MetaPlayed].(type) {
	case float64:
		return time.Duration(v) * time.Millisecond
	case int64:
		return time.Duration(v) * time.Millisecond
	}
	return -1
}

// heardReply is one reply in all accounts of it but the capture.
type heardReply struct {
	stopped agent.Event
	kept    *session.Event
}

// accounts pairs the events of a call's replies with those on record, which must be as
// many as are wanted.
func accounts(t *testing.T, events []agent.Event, kept []*session.Event, want int) []heardReply {
	t.Helper()
	stopped := of(events, agent.EventAgentStopped)
	if len(stopped) != want || len(kept) != want {
		t.Fatalf("%d replies in the events and %d on record, want %d\n%+v", len(stopped), len(kept), want, stopped)
	}
	var out []heardReply
	for i := range stopped {
		out = append(out, heardReply{stopped[i], kept[i]})
	}
	return out
}

// holds compares the accounts of a reply with what the capture says of it.
func (r heardReply) holds(t *testing.T, name string, heard string, length time.Duration, interrupted bool) {
	t.Helper()
	if r.stopped.Heard != heard || r.stopped.Interrupted != interrupted {
		t.Errorf("%s: the event says heard %q, interrupted %v; want %q, %v", name, r.stopped.Heard, r.stopped.Interrupted, heard, interrupted)
	}
	if got := textOf(r.kept); got != heard || r.kept.Interrupted != interrupted {
		t.Errorf("%s: on record is %q, interrupted %v; want %q, %v", name, got, r.kept.Interrupted, heard, interrupted)
	}
	if got := playedOf(r.kept); got > length || got < length-packet {
		t.Errorf("%s: %v were played as the record says; the capture holds %v", name, got, length)
	}
}

// lengthOf is how long a sound at 8 kHz is.
func lengthOf(pcm []int16) time.Duration { return time.Duration(len(pcm)) * time.Second / 8000 }

// cutter is a caller who cuts replies off.
type cutter struct {
	t      *testing.T
	phone  *phone.Phone
	call   *phone.Call
	number string
	random *rand.Rand
}

func (g *gateway) cutter(t *testing.T, name string, number int, random *rand.Rand) *cutter {
	c := &cutter{t: t, number: fmt.Sprintf("+14155551%03d", number), random: random}
	c.phone = newPhone(t, phone.Config{Number: c.number})
	c.call = dial(t, c.phone, g.uri(name))
	return c
}

// speaks waits for the first packet of speech after a time and returns when it came.
func (c *cutter) speaks(after time.Duration) (came time.Duration) {
	c.t.Helper()
	eventually(c.t, patience, "the agent speaks", func() bool {
		for _, m := range c.call.Log().Marks(phone.Heard) {
			if m.At > after && m.Level >= audio.Loud {
				came = m.At
				return true
			}
		}
		return false
	})
	return came
}

// speaksAnew waits for speech that comes after a silence, which ended after a time. Agents
// here think longer than that.
func (c *cutter) speaksAnew(after time.Duration) (came time.Duration) {
	c.t.Helper()
	eventually(c.t, patience, "the agent speaks anew", func() bool {
		last := time.Duration(0)
		for _, m := range c.call.Log().Marks(phone.Heard) {
			if m.Level < audio.Loud {
				continue
			}
			if m.At > after && m.At-last > thinks*2/3 {
				came = m.At
				return true
			}
			last = m.At
		}
		return false
	})
	return came
}

// at waits until so long after a moment of the phone's clock.
func (c *cutter) at(begin, after time.Duration) {
	wait(c.t, "the call goes on", patience, func(ctx context.Context) error {
		return c.call.Pause(ctx, begin+after-c.phone.Now())
	})
}

// press presses a key and says when the first packet of it was sent.
func (c *cutter) press() time.Duration {
	c.t.Helper()
	u, err := c.call.Press('5', 100*time.Millisecond)
	if err != nil {
		c.t.Fatal(err)
	}
	wait(c.t, "the key is sent", patience, u.Wait)
	begin, _, _ := u.Loud()
	return begin
}

// say speaks and says when it became loud.
func (c *cutter) say(pcm []int16) time.Duration {
	c.t.Helper()
	u := c.call.Say(pcm)
	wait(c.t, "it is said", patience, u.Wait)
	begin, _, _ := u.Loud()
	return begin
}

// cut is a reply that was cut off: when, and what of it was captured.
type cut struct {
	reply string
	captured
}

// quiet waits until the agent has said all.
func (c *cutter) quiet() {
	c.t.Helper()
	wait(c.t, "the end of the reply", patience, func(ctx context.Context) error { return c.call.WaitAgentSilent(ctx, 400*time.Millisecond) })
}

// interruptAll cuts each of the replies at an instant that chance has it, between two
// times after its first sound, by voice or by key, and hears the last one out. speak tells
// that a voice is about to be heard.
func (c *cutter) interruptAll(replies []string, after, within time.Duration, speak func()) (cuts []cut) {
	c.t.Helper()
	begin := c.speaks(0)
	for _, reply := range replies[:len(replies)-1] {
		c.at(begin, after+time.Duration(c.random.Int64N(int64(within-after))))
		var acted time.Duration
		if c.random.IntN(2) == 0 {
			acted = c.press()
		} else {
			speak()
			acted = c.say(human(c.t, interruptions[c.random.IntN(len(interruptions))]))
		}
		next := c.speaksAnew(acted)
		cuts = append(cuts, cut{reply, capture(c.t, c.call, begin, next-1)})
		begin = next
	}
	c.quiet()
	return append(cuts, cut{replies[len(replies)-1], capture(c.t, c.call, begin, time.Hour)})
}

// enough counts the cuts that were compared with the capture. A call that came with gaps,
// which a machine makes that stands still, shows nothing; another one is made for it.
type enough struct {
	want      int
	mu        sync.Mutex
	cut, torn int
}

// whole says whether a call is to be judged, in which there were so many cuts.
func (e *enough) whole(t *testing.T, c *cutter, cuts int) bool {
	s := capture(t, c.call, 0, time.Hour)
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.torn {
		e.torn++
	} else {
		e.cut += cuts
	}
	return !s.torn
}

// calls makes calls until enough replies were cut off and compared.
func (e *enough) calls(t *testing.T, most int, run func(t *testing.T, i int)) {
	atOnce := 7
	if raced {
		atOnce = 2
	}
	together(t, atOnce, most, func(i int) string { return fmt.Sprint("call", i) }, func(t *testing.T, i int) {
		e.mu.Lock()
		done := e.cut >= e.want
		e.mu.Unlock()
		if !done {
			run(t, i)
		}
	})
	fmt.Printf("%d replies that were cut off were compared with the capture; %d calls came with gaps\n", e.cut, e.torn)
	if e.cut < e.want && !raced {
		t.Errorf("%d cuts were compared, want %d; %d calls came with gaps", e.cut, e.want, e.torn)
	}
}

var tones = diction{word: toneTime, gap: wordTime - toneTime, rate: 16000}

// TestHeardText cuts greetings and replies of an agent over HTTP at 40 random instants and more.
// interrupted_text, the event, the record and the capture say the same to the word
// (BR-122).
func TestHeardText(t *testing.T) {
	const most = 42
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	replies := []string{numbered("greet", 4, 6), numbered("word", 5, 7, 4), numbered("thing", 8, 3, 9), numbered("last", 3)}
	a := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ turn, before int) {
		think(r, thinks)
		say(w, replies[1+min(before, 2)])
	})
	kept := newRecords(t)
	g := startGateway(t, func(c *call.Config, _ *sip.Config) { c.MaxCalls = most })
	compared := enough{want: 40}
	compared.calls(t, most, func(t *testing.T, i int) {
		p := newParts(a.URL)
		p.cascade.Greeting, p.cascade.Turn.MaxDigits = replies[0], 1
		name := fmt.Sprint("heard", i)
		p.plugWith(t, g, name, kept.keep)
		c := g.cutter(t, name, i, rand.New(rand.NewPCG(seed, uint64(i))))
		cuts := c.interruptAll(replies, 20*time.Millisecond, 2200*time.Millisecond, func() { p.hears.Add(utterance("stop there")) })
		hangUp(t, c.call)
		_, events := g.ended(t, c.call)
		if !compared.whole(t, c, len(cuts)-1) {
			return
		}
		all := accounts(t, events, kept.replies(t, c.number), len(replies))
		asked := slices.DeleteFunc(a.asked(""), func(got turn) bool { return got.ResourceID != c.number })
		if len(asked) != len(replies)-1 {
			t.Fatalf("the agent was asked %d times", len(asked))
		}
		for n, cut := range cuts {
			name, interrupted := fmt.Sprint("reply ", n), n < len(asked)
			heard, err := tones.spoken(cut.pcm, cut.reply)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			text := strings.Join(heard, " ")
			all[n].holds(t, name, text, lengthOf(cut.pcm), interrupted)
			if !interrupted {
				continue
			}
			if got, there := asked[n].Interrupted, asked[n].raw["interrupted_text"] != nil; got != text || there != (text != "") {
				t.Errorf("%s: interrupted_text %q (there: %v), the capture holds %q", name, got, there, text)
			}
		}
	})
}
