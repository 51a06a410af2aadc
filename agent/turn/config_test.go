package turn

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	err := Config{
		Start: []StartStrategy{"voise", StartVoice, StartVoice, StartWakePhrase}, Stop: []StopStrategy{StopDeferred}, Mute: []MuteStrategy{"always"},
		Idle: time.Millisecond, MaxDigits: -1, Reprompts: -1, ConfirmWords: -2, MinWords: -3, Confirm: -1, BackchannelVoice: time.Minute, WakeTimeout: -1,
		SpellingTimeout: -1, STTLatency: -1, DetectorTimeout: -1, EagerTimeout: -1, NoAudio: 1,
		DetectorThreshold: 1.5, MinConfidence: math.NaN(), Commands: []string{"!"}, Backchannels: []string{strings.Repeat("a", 100)},
	}.Validate()
	if err == nil {
		t.Fatal("nothing is wrong?")
	}
	for _, word := range []string{
		"turn: confirm -1ns is not between 0s and 2s", "final timeout", "idle", "max digits", "reprompts -1 is negative", "max turn", "digit gap",
		"confirm words -2", "min words -3", "backchannel voice 1m0s", "wake timeout", "spelling timeout", "stt latency", "detector timeout",
		"stop timeout 0s is not between 1s and 1m0s", "eager timeout", "no audio 1ns", "detector threshold 1.5 is not between 0 and 1", "min confidence NaN",
		`start: "voise", must be one of ["voice" "transcript"`, `start: "voice" is there twice`, `wake phrases: none, but start has "wake_phrase"`,
		`stop has only "deferred"`, `mute: "always", must be one of`, `commands: item 1, "!", has no word`, "backchannels: item 1 is longer than 64 bytes",
	} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not said to be wrong in: %v", word, err)
		}
	}
}

// A zero Config of strategies is the usual one, and what is not known is no strategy.
func TestStrategiesThatAreNotSaid(t *testing.T) {
	cfg := testConfig()
	cfg.Start, cfg.Stop = nil, nil
	if got := play(t, cfg, "1.00 on\n 2.00 off\n 2.10 final hello.\n 3.00 tick"); got != "1.00 begin\n1.10 open by voice\n2.30 close \"hello.\"" {
		t.Error(got)
	}
	cfg.Start, cfg.Stop = []StartStrategy{"?"}, []StopStrategy{"?"}
	if got := play(t, cfg, "1.00 on\n 2.00 off\n 2.10 final hello.\n 3.00 tick"); got != "1.00 begin\n2.00 finalize" {
		t.Error(got)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for k := Begin; k <= Unmuted; k++ {
		if name := k.String(); name == "" || seen[name] {
			t.Errorf("kind %d is %q", k, name)
		}
		seen[k.String()] = true
	}
	if DecisionKind(200).String() != "unknown" || Rung(9).String() != "unknown" || Person.String() != "person" || Clear.String() != "clear" {
		t.Error("names")
	}
}
