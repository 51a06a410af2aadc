package httpagent

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The lines of the contract "bring your own agent", and the tests that show each. A
// test of another room has that room's folder before its name.
var lines = []struct {
	line  string
	what  string
	tests []string
}{
	{"a", "behind a tool call", []string{"agent/tool/plugin:TestExamples", "agent/tool/plugin:TestExampleInTypeScript", "agent/tool/plugin:TestExampleInGo", "agent/tool/mcp:TestConformance", "agent/tool:TestFuncTool"}},
	{"b", "an HTTP agent, as the seed has it", []string{"TestExamples", "TestSuite"}},
	{"c", "any service that speaks OpenAI's protocol, or Ollama's", []string{"agent/llm/openai:TestSuite", "agent/llm/openai:TestOddServices", "agent/llm/ollama:TestSuite", "agent/llm/ollama:TestAnswers"}},
	{"d", "the six methods", []string{"TestWayDTheAgentAsAClient", "agent/llm:TestAClientsWords", "agent/llm/openai:TestClient", "agent/llm/ollama:TestClient"}},
	{"e", "the built-in runtime", []string{"agent/llm/runtime:TestProviderSuite", "agent/llm/runtime:TestRollingSummary", "agent/llm/runtime:TestSkills", "agent/llm/runtime:TestRetrieval"}},
	{"1", "one POST per turn, its headers", []string{"TestLine1Post"}},
	{"2", "the fields, omitted when empty", []string{"TestLine2And3Fields"}},
	{"3", "text is exactly what was said", []string{"TestLine2And3Fields", "TestSuite"}},
	{"4", "system: instructions only, each once", []string{"TestLine4System", "TestLine23RefusalsAreToldOnce"}},
	{"5", "interrupted_text: what was heard", []string{"TestLine5Interrupted", "agent/cascade:TestAtAnyInstantTheHeardTextIsWhatWasOnTheWire", "agent/cascade:TestACutGreetingCounts"}},
	{"6", "context: what was found", []string{"TestLine6And7ContextAndSummary", "TestLine6Prefetch"}},
	{"7", "summary: the rolling digest", []string{"TestLine7TheDigest", "TestLine7And8ADigestInTheWay"}},
	{"8", "oneshot: beside the conversation", []string{"TestLine8OneShot", "TestWhatIsSetByDefault", "TestLine7And8ADigestInTheWay"}},
	{"9", "one live request, cancelled at once", []string{"TestLine9ANewerTurnCancels", "test/e2e:TestABargeInCancelsTheRequest"}},
	{"10", "X-Call-Id, start and end", []string{"TestLine10Notify", "TestWhatIsSetByDefault", "TestLine10NotifyOfAnAgentThatHangs", "TestLine10CallIDIsNoHeaderBreaker", "TestLine10WhatElseIsKnown"}},
	{"11", "one pool, proxies, the caller's token", []string{"TestLine11SharedPoolAndIdentity", "test/e2e:TestACallersToken"}},
	{"12", "any 2xx; errors and the fallback", []string{"TestReplies", "TestLine12BodyOfAnError", "TestAnOddAnswerIsBoundedAndCleaned", "agent/cascade:TestBR132TheModelFails"}},
	{"13", "the media type", []string{"TestReplies"}},
	{"14", "redirects", []string{"TestLine14Redirects", "agent/internal/wire:TestRedirects"}},
	{"15", "JSON", []string{"TestReplies", "agent/cascade:TestTheNextSentenceIsMadeWhileTheFormerPlays"}},
	{"16", "plain text", []string{"TestReplies"}},
	{"17", "events by the WHATWG's rules", []string{"TestReplies", "agent/internal/wire:TestEventStream"}},
	{"18", "what an event may hold", []string{"TestReplies", "TestLine18SkippedAreCounted"}},
	{"19", "a failure after some sentences", []string{"TestReplies", "agent/cascade:TestBR132TheModelFails"}},
	{"20", "where sentences end", []string{"agent/chat:TestSentences"}},
	{"21", "Markdown and delivery tags", []string{"TestLine21DeliveryTags", "agent/llm:TestStyler", "agent/chat:TestPlain"}},
	{"22", "the voice's time is not the agent's", []string{"TestBudget", "TestSuite", "agent/cascade:TestASlowVoiceDoesNotEatTheModelsTime"}},
	{"23", "actions", []string{"TestLine23Actions", "TestLine23RefusalsAreToldOnce", "agent/cascade:TestActionsAreDoneInTheirPlaces"}},
}

func TestEveryLineOfTheContractHasATest(t *testing.T) {
	named := regexp.MustCompile(`^(?:([a-z0-9/]+):)?(Test[A-Za-z0-9]+)$`)
	sources := make(map[string]string)
	for _, l := range lines {
		for _, name := range l.tests {
			parts := named.FindStringSubmatch(name)
			if parts == nil {
				t.Fatalf("line %s: %q", l.line, name)
			}
			dir := "."
			if parts[1] != "" {
				dir = filepath.Join("..", "..", "..", parts[1])
			}
			if _, read := sources[dir]; !read {
				files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					text, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					sources[dir] += string(text)
				}
			}
			if !regexp.MustCompile(`(?m)^func ` + parts[2] + `\(t \*testing\.T\)`).MatchString(sources[dir]) {
				t.Errorf("line %s, %s: there is no %s", l.line, l.what, name)
			}
		}
	}
	if len(lines) != 23+5 {
		t.Errorf("%d lines", len(lines))
	}
}
