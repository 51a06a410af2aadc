package live_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The lines of the contract of agent sessions, and the tests that show each: the folder
// under agent/, then the test.
var lines = []struct {
	what  string
	tests string
}{
	{"1 defaults and ids", "kit:TestSessionDefaults"},
	{"2 Start", "kit:TestStartTwice kit:TestStartWhileConnecting kit:TestStartFails kit:TestStates live:TestProviderPanics"},
	{"3 tools of the registry", "kit:TestStartTellsTools"},
	{"4 Send while inactive, Stop", "kit:TestSendInactive kit:TestStopIsBounded kit:TestStopWaitsForTools kit:TestStopWithStuckCallback live:TestStopWaitsForWhatIsSentLate"},
	{"5 one start, one end", "kit:TestEveryWayOut kit:TestStartAgain kit:TestStopWhileConnecting"},
	{"6 speaking, settling, interrupted", "kit:TestSpeakingSettles kit:TestInterrupted kit:TestStates"},
	{"7 messages once", "kit:TestMessages kit:TestMessagesAtTheEnd kit:TestCutAnywhere live:TestHostHears"},
	{"8 tools", "kit:TestToolOrder kit:TestToolsOverlap kit:TestToolAnswers kit:TestToolArguments kit:TestToolCancelled kit:TestToolsInHistory"},
	{"9 the registry", "kit:TestRegistry tool:TestRegister tool:TestDefinitions"},
	{"10 memory", "kit:TestMemory"},
	{"11 silence", "kit:TestIdle kit:TestIdleOff kit:TestIdleReset kit:TestIdleGoodbye kit:TestIdleCall kit:TestNotIdle"},
	{"12 connections that end", "kit:TestRecover kit:TestRecoverStates kit:TestRecoverFails kit:TestGoAway kit:TestLostForGood live:TestConnectionsThatDoNotLast"},
	{"13 OpenAI Realtime", "live/openai:TestSuite live/openai:TestSessionUpdate live/openai:TestToolAnswers live/openai:TestOneReplyAtATime live/openai:TestTruncate live/openai:TestFormat"},
	{"14 Gemini Live", "live/gemini:TestSuite live/gemini:TestLikeTheSDK live/gemini:TestGoesOn live/gemini:TestLocalTurns live/gemini:TestToolAnswers"},
	{"15 the suites", "live/openai:TestSuite live/gemini:TestSuite live/livetest:TestScript tool/plugin:TestConformance tool/mcp:TestConformance"},
}

func TestEveryLineOfTheContractHasATest(t *testing.T) {
	if len(lines) != 15 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		for name := range strings.FieldsSeq(l.tests) {
			dir, test, _ := strings.Cut(name, ":")
			files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				found = found || regexp.MustCompile(`(?m)^func `+test+`\(t \*testing\.T\)`).Match(text)
			}
			if !found {
				t.Errorf("line %s: there is no %s", l.what, name)
			}
		}
	}
}
