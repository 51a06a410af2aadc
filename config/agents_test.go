package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mistakes loads a text that is wrong and compares the lines of the error with the
// beginnings in want, FILE being the file.
func mistakes(t *testing.T, why, text string, want []string) {
	t.Helper()
	file := write(t, text)
	_, err := Load(file, nil)
	if err == nil {
		t.Errorf("%s: no error", why)
		return
	}
	same(t, why, file, strings.Split(err.Error(), "\n"), want)
}

func same(t *testing.T, why, file string, got, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for _, w := range want {
		found := false
		for _, line := range got {
			found = found || strings.HasPrefix(line, strings.ReplaceAll(w, "FILE", file))
		}
		ok = ok && found
	}
	if !ok {
		t.Errorf("%s:\n got %s\nwant %s", why, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

const twoAgents = `
[llm]
provider = "agent"
[agent]
url = "http://127.0.0.1:9000/"
api_key = "top"
timeout_ms = 5000
[conversation]
greeting = "Hello."
reprompts = ["Still there?"]
[agents.sales.agent]
system = "Sell."
[agents.sales.turn]
idle = "20s"
[agents.echo-1.llm]
provider = "echo"
[agents.other]
agent.url = "http://192.0.2.1/"
conversation = { greeting = "" }
`

// A named agent takes the top level's values, those of the environment too, and
// changes what its own tables say.
func TestAgents(t *testing.T) {
	c := load(t, twoAgents, []string{"PARLEY_TURN_IDLE=15s", "PARLEY_TTS_VOICE=kal"})
	if names := strings.Join(c.AgentNames(), " "); names != "default echo-1 other sales" {
		t.Error(names)
	}
	if c.AgentNamed("") != &c.Assistant || c.AgentNamed("default") != &c.Assistant || c.AgentNamed("nobody") != nil {
		t.Error("agents are not found by their names")
	}
	for name, want := range map[string]struct {
		provider, url, key, system, greeting, voice string
		idle                                        time.Duration
	}{
		"":       {"agent", "http://127.0.0.1:9000/", "top", "", "Hello.", "kal", 15 * time.Second},
		"sales":  {"agent", "http://127.0.0.1:9000/", "top", "Sell.", "Hello.", "kal", 20 * time.Second},
		"echo-1": {"echo", "http://127.0.0.1:9000/", "top", "", "Hello.", "kal", 15 * time.Second},
		"other":  {"agent", "http://192.0.2.1/", "", "", "", "kal", 15 * time.Second}, // the key is not for that host
	} {
		a := c.AgentNamed(name)
		if a.LLM.Provider != want.provider || a.Agent.URL != want.url || a.Agent.APIKey.Reveal() != want.key || a.Agent.System != want.system ||
			a.Conversation.Greeting != want.greeting || a.TTS.Voice != want.voice || a.Turn.Idle != want.idle || a.Agent.TimeoutMS != 5000 || len(a.Conversation.Reprompts) != 1 {
			t.Errorf("%q: %+v", name, a)
		}
	}
	if len(c.Warnings) != 3 || !strings.Contains(c.Warnings[0], ":15: agents.echo-1: no route gives it calls") {
		t.Errorf("%q", c.Warnings)
	}
}

func TestSecretsOfAgents(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("filed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	top := "[agent]\napi_key_file = \"" + file + "\"\n"
	for _, c := range []struct{ why, text, env, want string }{
		{"the top level's file", top + "[agents.a-b.llm]\nprovider = \"echo\"\n", "", "filed"},
		{"a key of its own", top + "[agents.a-b.agent]\napi_key = \"own\"\n", "", "own"},
		{"a file of its own", "[agent]\napi_key = \"top\"\n[agents.a-b.agent]\napi_key_file = \"" + file + "\"\n", "", "filed"},
		{"the environment", top + "[agents.a-b.agent]\napi_key = \"own\"\n", "PARLEY_AGENTS_A_B_AGENT_API_KEY=told", "told"},
	} {
		got := load(t, c.text, []string{c.env})
		if key := got.Agents["a-b"].Agent.APIKey.Reveal(); key != c.want {
			t.Errorf("%s: %q, want %q", c.why, key, c.want)
		}
		for _, w := range got.Warnings {
			if !strings.Contains(w, "no route") {
				t.Error(w)
			}
		}
	}
}

func TestMistakesInAgents(t *testing.T) {
	for _, c := range []struct {
		why, text string
		want      []string
	}{
		{"each with its line", "[agents.a.llm]\nprovider = \"oracle\"\n[agents.a.turn]\nspeech_timeout = \"1h\"\n[agents.a.conversation]\nreopen_tries = -1\ngreting = \"\"\n", []string{
			`FILE:2: agents.a.llm.provider: "oracle", must be one of`, `FILE:4: agents.a.turn.speech_timeout: 1h0m0s is not between`,
			`FILE:6: agents.a.conversation.reopen_tries: -1 is negative`, `FILE:7: agents.a.conversation.greting: no such key; did you mean "greeting"?`,
		}},
		{"of the top level once", "[turn]\nspeech_timeout = \"1h\"\n[agents.a.llm]\nprovider = \"echo\"\n[agents.b.llm]\nprovider = \"echo\"\n", []string{`FILE:2: turn.speech_timeout: 1h0m0s`}},
		{"what is missing", "[agents.a.llm]\nprovider = \"agent\"\n", []string{`FILE:1: agents.a.agent.url: must be set`}},
		{"no section of an agent", "[agents.a.identity]\nregion = \"US\"\n[agents.a.lm]\nprovider = \"echo\"\n", []string{
			`FILE:1: agents.a.identity: no such section; an agent has turn, conversation, stt, tts, llm, script, agent, echo`, `FILE:3: agents.a.lm: no such section; did you mean "llm"?`,
		}},
		{"a key in the wrong place", "[agents.a]\nurl = \"http://h/\"\n[agents.a.llm]\nurl = \"http://h/\"\n", []string{
			`FILE:2: agents.a.url: a key outside of any section; it belongs into [agents.a.agent]`, `FILE:4: agents.a.llm.url: no such key; it belongs into [agents.a.agent]`,
		}},
		{"names", "[agents.default.llm]\nprovider = \"echo\"\n[agents.\"a b\".llm]\nprovider = \"echo\"\n[agents]\nc = 1\n[agents.x-y.llm]\n[agents.x_y.llm]\n", []string{
			`FILE:1: agents.default: is the name of the agent`, `FILE:3: agents.a b: a name is letters`, `FILE:6: agents.c: must be a section`, `FILE:8: agents.x_y: is too much like "x-y"`,
		}},
		{"no sections", "agents = 1\n", []string{`FILE:1: agents: must be sections`}},
		{"both secrets", "[agents.a.agent]\napi_key = \"k\"\napi_key_file = \"/dev/null\"\n", []string{`FILE:3: agents.a.agent.api_key_file: give api_key or api_key_file, not both`}},
	} {
		mistakes(t, c.why, c.text, c.want)
	}
}

// What is found wrong after Load has its place too.
func TestComplain(t *testing.T) {
	file := write(t, "[agents.a.script]\nfile = \"none\"\n[stt]\nmodel = \"none\"\n")
	c, err := Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for section, want := range map[string]string{
		"agents.a.script": file + ":2: agents.a.script.file: gone",
		"stt":             file + ":4: stt.model: gone", // of two, in order
	} {
		name := map[string]string{"stt": "model: gone"}[section]
		if name == "" {
			name = "file: gone"
		}
		if got := c.Complain(section, errors.New("room: "+name)); got == nil || got.Error() != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	if err := c.Complain("stt", nil); err != nil {
		t.Error(err)
	}
	plain := Default()
	if got := plain.Complain("call", errors.New("call: max_calls: 0, is too few")); got.Error() != "call.max_calls: 0, is too few" {
		t.Error(got)
	}
}
