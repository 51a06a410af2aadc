package cascade

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/llm"
)

func TestAMinuteOfConversation(t *testing.T) {
	converse(t, func(r *rig) { r.model.delay = 300 * ms }, func(r *rig) {
		r.quiet(1)
		if got := r.all(agent.EventAgentStopped)[0]; got.Heard != "Welcome to Parley." || got.Interrupted {
			t.Errorf("greeting: %+v", got)
		}
		for i := range 16 {
			r.wait(time.Second)
			r.say("book a table.", 1500*ms)
			r.quiet(i + 2)
		}
		if took := time.Since(r.began); took < 55*time.Second {
			t.Errorf("%v are no minute", took)
		}
		turns := r.model.asked()
		if len(turns) != 16 {
			t.Fatalf("%d turns for 16", len(turns))
		}
		for _, turn := range turns {
			if turn != (llm.Turn{Text: "book a table.", Confidence: 0.9}) {
				t.Errorf("asked %+v", turn)
			}
		}
		if heard, want := strings.Join(r.heard(), " "), "Welcome to Parley. Reply number 1. Reply number 2."; !strings.HasPrefix(heard, want) {
			t.Errorf("heard %q", heard)
		}
		// 0.6 s of silence, 0.3 s of thinking, and a packet.
		for _, e := range r.all(agent.EventAgentStarted)[1:] {
			if e.Latency < 900*ms || e.Latency > 950*ms {
				t.Errorf("latency %v", e.Latency)
			}
		}
		if n := len(r.all(agent.EventError)); n != 0 {
			t.Errorf("%d errors:\n%s", n, r.log())
		}
	})
}

func TestTheModelKnowsWhoCalls(t *testing.T) {
	converse(t, nil, func(r *rig) {
		if c := r.model.opened; c.CallID != "call-1" || c.SessionID != "session-1" || c.ResourceID != "+15550100" || c.Direction != "inbound" || c.Called != "100" {
			t.Errorf("%+v", c)
		}
		r.wait(3 * time.Second)
		r.hangUpOnce()
		if e := r.model.ends[0]; e.Cause != "caller hung up" || e.Duration != 3*time.Second {
			t.Errorf("%+v", e)
		}
		if !errors.Is(r.err, errHungUp) {
			t.Errorf("run returned %v", r.err)
		}
	})
}

// hangUpOnce ends Run before the script does.
func (r *rig) hangUpOnce() {
	r.cancel(errHungUp)
	<-r.done
}

func TestTheModelGreets(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.Greeting = ""
		r.model.greet = func(_ context.Context, out func(llm.Chunk) error) error {
			return out(llm.Chunk{Text: "**Hello** there. How are you?"})
		}
	}, func(r *rig) {
		r.quiet(1)
		if got := r.all(agent.EventAgentStopped)[0]; got.Text != "Hello there. How are you?" || got.Heard != got.Text {
			t.Errorf("greeting: %+v", got)
		}
	})
}

func TestAModelWithoutAGreetingLeavesTheFirstWordToTheCaller(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.Greeting = ""
		r.cfg.Turn.MuteGreeting = true
	}, func(r *rig) {
		r.wait(time.Second)
		r.say("hello", 500*ms)
		r.quiet(1)
		if turns := r.model.asked(); len(turns) != 1 || turns[0].Text != "hello" {
			t.Errorf("asked %+v", turns)
		}
	})
}

func TestEveryStepIsReported(t *testing.T) {
	converse(t, nil, func(r *rig) {
		r.quiet(1)
		r.say("one", time.Second, "o")
		r.quiet(2)
		var got []string
		for _, e := range r.events {
			if e.Type != agent.EventState {
				got = append(got, string(e.Type))
			}
		}
		want := "agent_text agent_started agent_stopped user_started transcript transcript user_stopped inference agent_text agent_started agent_stopped"
		// The interim comes before the turn is confirmed and opens it.
		want = strings.Replace(want, "user_started transcript", "transcript user_started", 1)
		if strings.Join(got, " ") != want {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		var states []string
		for _, e := range r.all(agent.EventState) {
			states = append(states, e.Reason)
		}
		if got, want := strings.Join(states, ", "), "thinking, agent speaks, listening, caller speaks, thinking, agent speaks, listening"; got != want {
			t.Errorf("states %s", got)
		}
	})
}

func TestACallCostsFourGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		r := newRig(t, func(r *rig) { r.cfg.FillerAfter = time.Second })
		defer r.hangUp()
		r.speaks(1)
		// The recogniser's and the fake line's are among them.
		if n := runtime.NumGoroutine() - before; n > 3+1+1 {
			t.Errorf("%d goroutines", n)
		}
	})
}

func TestRunWithAContextThatIsDone(t *testing.T) {
	converse(t, nil, func(r *rig) { r.hangUpOnce() })
}

func TestBR150SetUpFails(t *testing.T) {
	no := errors.New("no")
	for name, prepare := range map[string]func(*rig){
		"recogniser": func(r *rig) { r.stt.OpenErr = no },
		"model":      func(r *rig) { r.cfg.LLM = refusing{no} },
	} {
		t.Run(name, func(t *testing.T) {
			r := &rig{cfg: DefaultConfig(), voice: &words{}, model: &mind{}}
			r.stt = newFakeSTT()
			r.cfg.STT, r.cfg.TTS, r.cfg.LLM = r.stt, r.voice, r.model
			prepare(r)
			opener, err := New(r.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := opener.Open(t.Context(), agent.Call{}); !errors.Is(err, no) {
				t.Errorf("got %v", err)
			}
			if name == "recogniser" && len(r.model.ends) != 1 {
				t.Errorf("the model was closed %d times", len(r.model.ends))
			}
		})
	}
}

func TestOpenIsCancelled(t *testing.T) {
	r := &rig{cfg: DefaultConfig(), voice: &words{}, model: &mind{}, stt: newFakeSTT()}
	r.cfg.STT, r.cfg.TTS, r.cfg.LLM = r.stt, r.voice, r.model
	opener, _ := New(r.cfg)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errHungUp)
	if _, err := opener.Open(ctx, agent.Call{}); err == nil {
		t.Error("no error")
	}
	for _, s := range r.stt.Streams() {
		if !s.Closed() {
			t.Error("the stream is open")
		}
	}
	if len(r.model.ends) != 1 {
		t.Errorf("the model was closed %d times", len(r.model.ends))
	}
}

type refusing struct{ err error }

func (m refusing) Open(context.Context, llm.Conversation) (llm.Model, error) { return nil, m.err }

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Fatal("an empty configuration passes")
	} else {
		for _, word := range []string{"recogniser", "first token", "first sound", "reopen", "turn:"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q is not named in %v", word, err)
			}
		}
	}
	cfg := DefaultConfig()
	cfg.FillerAfter, cfg.ReopenTries, cfg.VoiceTries, cfg.NoAudio, cfg.Eager = -1, -1, -1, 1, time.Minute
	cfg.MinConfidence, cfg.MachineWait, cfg.BeepWait, cfg.FillerEvery, cfg.ToolTime, cfg.MisheardTo = 2, 1, 1, 1, 0, "+1"
	err := cfg.Validate()
	for _, word := range []string{
		"filler after", "filler every", "reopen tries", "voice tries", "no audio", "eager", "min confidence", "machine wait",
		"beep wait", "tool time", "misheard to",
	} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not named in %v", word, err)
		}
	}
}

func TestFormatIsTheProvidersRates(t *testing.T) {
	r := &rig{cfg: DefaultConfig(), voice: &words{}, model: &mind{}, stt: newFakeSTT()}
	r.stt.SampleRate = 16000
	r.cfg.STT, r.cfg.TTS, r.cfg.LLM = r.stt, r.voice, r.model
	opener, _ := New(r.cfg)
	if f := opener.Format(); f != (agent.Format{HearRate: 16000, SayRate: 8000}) {
		t.Errorf("%+v", f)
	}
}

func TestTheRecogniserHearsEverything(t *testing.T) {
	converse(t, nil, func(r *rig) {
		r.wait(10*time.Second + 10*ms)
		if n := len(r.stt.Streams()[0].PCM()); n != 10*rate {
			t.Errorf("%d samples of %d", n, 10*rate)
		}
	})
}
