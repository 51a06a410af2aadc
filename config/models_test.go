package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestModels(t *testing.T) {
	system := filepath.Join(t.TempDir(), "system.md")
	if err := os.WriteFile(system, []byte("\nYou are Ada.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, `
[llm]
provider = "openai"
[openai]
model = "m1"
temperature = 0.5
usage = false
headers = { api-key = "hush" }
extra = { reasoning_effort = "low", seed = 7 }
[runtime]
system_file = "`+system+`"
memory_tools = false
summary_messages = 20
[tools]
timeout = "7s"
verbatim = true
[agents.local.llm]
provider = "ollama"
[agents.local.ollama]
model = "llama3.2"
keep_alive = "10m"
[agents.local.runtime]
system_file = ""
system = "You are Bob."
[agents.raw.llm]
provider = "stream"
[agents.raw.stream]
url = "wss://bot.example.com/media"
parameters = { who = "{from}" }
[agents.other.openai]
base_url = "http://127.0.0.1:8000/v1"
[[route]]
name = "l"
called = "1"
agent = "local"
[[route]]
name = "r"
called = "2"
agent = "raw"
[[route]]
name = "o"
agent = "other"
`, []string{"PARLEY_OPENAI_API_KEY=k1", "PARLEY_AGENTS_RAW_STREAM_AUTH_TOKEN=t1"})
	o := c.OpenAIConfig("")
	if o.Model != "m1" || o.APIKey != "k1" || *o.Temperature != 0.5 || !o.NoUsage || o.Header["api-key"] != "hush" || o.Extra["seed"] != int64(7) || c.OpenAIConfig("m2").Model != "m2" {
		t.Errorf("%+v", o)
	}
	r, err := c.RuntimeConfig()
	if err != nil || r.System != "You are Ada." || r.Memory.Tools || !r.Memory.Tell || r.Summary.MaxMessages != 20 || r.ToolTimeout != 7*time.Second || !r.SpeakQuestions {
		t.Errorf("%+v %v", r, err)
	}
	local := c.Agents["local"]
	if l := local.OllamaConfig(""); l.Model != "llama3.2" || l.KeepAlive != 10*time.Minute || l.Temperature != nil {
		t.Errorf("%+v", l)
	}
	if r, err := local.RuntimeConfig(); err != nil || r.System != "You are Bob." {
		t.Errorf("%+v %v", r, err)
	}
	if s := c.Agents["raw"].StreamConfig(); s.AuthToken != "t1" || s.Parameters["who"] != "{from}" || s.Dialect != "twilio" {
		t.Errorf("%+v", s)
	}
	// The key of one service is not for another.
	if o := c.Agents["other"].OpenAIConfig(""); o.APIKey != "" || len(o.Header) != 0 || o.Model != "m1" {
		t.Errorf("%+v", o)
	}
	if o := local.OpenAIConfig(""); o.APIKey != "k1" {
		t.Errorf("%+v", o)
	}
}

func TestMistakesOfModels(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"[llm]\nprovider = \"openai\"\n", []string{"openai.model: must be set, such as", "openai.api_key: must be set for api.openai.com: "}},
		{"[llm]\nprovider = \"openai\"\n[openai]\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\ntemperature = 3.0\n", []string{":6: openai.temperature: 3, must be between 0 and 2"}},
		{"[llm]\nprovider = \"openai\"\n[openai]\nmodel = \"m\"\napi_key_file = \"/nonexistent\"\n", []string{":5: openai.api_key_file: open /nonexistent"}},
		{"[llm]\nprovider = \"ollama\"\n[ollama]\nthink = \"hard\"\nbase_url = \"host\"\n", []string{"ollama.model: must be set", ":4: ollama.think: \"hard\"", ":5: ollama.base_url: must begin with"}},
		{"[llm]\nprovider = \"ollama\"\n[ollama]\nmodel = \"m\"\n[runtime]\nsystem_file = \"/nonexistent\"\nmax_rounds = 0\n", []string{":6: runtime.system_file: open /nonexistent", ":7: runtime.max_rounds: 0 is not 1 to 50"}},
		{"[llm]\nprovider = \"stream\"\n[stream]\nurl = \"http://x\"\ndialect = \"morse\"\n", []string{":4: stream.url: must begin with ws://", ":5: stream.dialect: \"morse\""}},
		{"[llm]\nprovider = \"openai-realtime\"\n", []string{"realtime.openai.api_key: must be set for api.openai.com"}},
		{"[llm]\nprovider = \"gemini-live\"\n[realtime]\nreply_timeout = \"1ms\"\nsystem_file = \"/nonexistent\"\n[realtime.gemini]\napi_version = \"v9\"\n", []string{
			":4: realtime.reply_timeout: 1ms is less than 1s", ":5: realtime.system_file: open /nonexistent", ":7: realtime.gemini.api_version: \"v9\"", "realtime.gemini.api_key: must be set for generativelanguage"}},
		{"[retrieval]\ndirectory = \"d\"\nembedder = \"ollama\"\nlimit = 0\nstore = \"s\"\ndsn = \"x\"\n", []string{":4: retrieval.limit: ", ":5: retrieval.store: give store or dsn", "retrieval.model: must be set"}},
		{"[openai]\nheaders = { a = 1 }\nextra = 5\n", []string{":2: openai.headers: must be text in quotes", ":3: openai.extra: 5, must be a table"}},
	} {
		_, err := Load(write(t, c.text), nil)
		if err == nil {
			t.Errorf("%s: no error", c.text)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no mistake %s in\n%v", c.text, want, err)
			}
		}
		if n := len(strings.Split(err.Error(), "\n")); n != len(c.want) {
			t.Errorf("%s: %d mistakes:\n%v", c.text, n, err)
		}
	}
}
