package kit

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live"
	"parley/agent/live/livetest"
)

// 11: a reminder after 5 minutes and the end after 15, counted from the last packet of
// the last reply.
func TestIdle(t *testing.T) {
	sit(t, func(b *bench) { b.idle = live.DefaultIdle() }, func(b *bench) {
		time.Sleep(time.Minute)
		b.tell(live.Message{Audio: pcm(30 * time.Second), TurnDone: true})
		time.Sleep(30*time.Second + 5*time.Minute - time.Second)
		b.want("reminder")
		time.Sleep(2 * time.Second)
		b.want("reminder", "")
		time.Sleep(10*time.Minute - 2*time.Second)
		b.is(live.StateListening)
		time.Sleep(2 * time.Second)
		b.is(live.StateInactive)
		b.want("reminder", "")
		b.want("end ", "<nil>")
	})
}

// 11: zero turns each off.
func TestIdleOff(t *testing.T) {
	for name, c := range map[string]struct {
		idle   IdleConfig
		remind int
		state  State
	}{
		"both":          {IdleConfig{}, 0, live.StateListening},
		"no reminder":   {IdleConfig{DeactivateAfter: 15 * time.Minute}, 0, live.StateInactive},
		"only reminder": {IdleConfig{ReminderAfter: 5 * time.Minute}, 1, live.StateListening},
	} {
		t.Run(name, func(t *testing.T) {
			sit(t, func(b *bench) { b.idle = c.idle }, func(b *bench) {
				time.Sleep(2 * time.Hour)
				b.is(c.state)
				if got := b.all("reminder"); len(got) != c.remind {
					b.Errorf("%d reminders, want %d", len(got), c.remind)
				}
			})
		})
	}
}

// 11: speech resets the silence; audio in which nobody speaks does not, and neither do
// sounds without words.
func TestIdleReset(t *testing.T) {
	for name, c := range map[string]struct {
		what func(*bench)
		ends bool
	}{
		"words": {func(b *bench) {
			b.tell(live.Message{User: live.Transcript{Text: "Still here.", Done: true}})
		}, false},
		"text":  {func(b *bench) { _ = b.session.SendText("still here") }, false},
		"reply": {func(b *bench) { b.tell(live.Message{Audio: pcm(time.Second), TurnDone: true}) }, false},
		"silent audio": {func(b *bench) { _ = b.session.SendAudio(make([]byte, 640)) },
			true},
		"noise": {func(b *bench) {
			b.tell(live.Message{SpeechStarted: true})
			b.tell(live.Message{SpeechStopped: true, User: live.Transcript{Done: true}})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			sit(t, func(b *bench) { b.idle = IdleConfig{DeactivateAfter: 10 * time.Minute} }, func(b *bench) {
				for range 5 {
					time.Sleep(4 * time.Minute)
					if b.session.State() != live.StateInactive {
						c.what(b)
					}
				}
				synctest.Wait()
				if got := b.session.State() == live.StateInactive; got != c.ends {
					b.Errorf("state %s", b.session.State())
				}
			})
		})
	}
}

// 11: the goodbye is spoken to its end, and a caller who speaks cancels it.
func TestIdleGoodbye(t *testing.T) {
	prepare := func(b *bench) {
		b.idle = IdleConfig{ReminderAfter: time.Minute, Reminder: "Ask whether anybody is there.", DeactivateAfter: 2 * time.Minute, Goodbye: "Say goodbye."}
		b.script.OnSent = func(c *livetest.ScriptConn, s livetest.Sent) error {
			if s.Kind == livetest.SentInstruct {
				return c.Tell(live.Message{Audio: pcm(4 * time.Second), TurnDone: true})
			}
			return nil
		}
	}
	t.Run("to the end", func(t *testing.T) {
		sit(t, prepare, func(b *bench) {
			time.Sleep(time.Minute + time.Second)
			if got := b.sent(); !slices.Equal(got, []string{"instruct Ask whether anybody is there."}) {
				b.Errorf("sent %q", got)
			}
			// The reminder breaks no silence.
			time.Sleep(time.Minute)
			if got := b.sent(); len(got) != 2 || got[1] != "instruct Say goodbye." {
				b.Fatalf("sent %q", got)
			}
			time.Sleep(2900 * ms)
			if b.session.State() == live.StateInactive {
				b.Error("the goodbye was cut")
			}
			time.Sleep(1500 * ms)
			b.is(live.StateInactive)
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		sit(t, prepare, func(b *bench) {
			time.Sleep(2*time.Minute + time.Second)
			b.tell(live.Message{SpeechStarted: true})
			time.Sleep(10 * time.Second)
			b.tell(live.Message{SpeechStopped: true, User: live.Transcript{Text: "Wait!", Done: true}})
			b.tell(live.Message{TurnDone: true})
			time.Sleep(40 * time.Second)
			b.is(live.StateListening)
			time.Sleep(90 * time.Second)
			b.is(live.StateInactive)
		})
	})
	t.Run("nothing said", func(t *testing.T) {
		sit(t, func(b *bench) {
			prepare(b)
			b.script.OnSent = nil
		}, func(b *bench) {
			time.Sleep(2*time.Minute + 50*time.Second)
			b.is(live.StateInactive)
		})
	})
}
