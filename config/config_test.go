package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var compareAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

const sample = "../deploy/sip-server.toml"

func TestSampleEqualsDefault(t *testing.T) {
	got, err := Load(sample, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	if diff := cmp.Diff(want, *got, compareAddr, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("the sample says otherwise than Default (-default +sample):\n%s", diff)
	}
}

func TestSampleMentionsEveryKey(t *testing.T) {
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	at := lines(text)
	c := Default()
	for _, k := range keys(&c) {
		if at[k.path()] == 0 {
			t.Errorf("%s is missing in %s", k.path(), sample)
		}
	}
}

func TestSampleCommentsEverySection(t *testing.T) {
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\[(\w+)\]\n(.)`).FindAllStringSubmatch(string(text), -1) {
		if m[2] != "#" {
			t.Errorf("section %s begins without a comment", m[1])
		}
	}
}

func TestDefaultIsValid(t *testing.T) {
	if _, err := Load("", nil); err != nil {
		t.Error(err)
	}
}

func TestEveryKeyCanBeSetFromTheEnvironment(t *testing.T) {
	c := Default()
	for _, k := range keys(&c) {
		value := map[string]string{"string": "x", "int": "7", "int64": "7", "uint16": "7", "float64": "7", "slice": "a,b"}[k.value.Kind().String()]
		switch {
		case k.value.Type() == durationType:
			value = "7s"
		case k.value.Kind() == reflect.Bool:
			value = strconv.FormatBool(!k.value.Bool())
		case k.value.Type() == reflect.TypeFor[Secret]():
			value = "x"
		case k.value.Kind() == reflect.Map:
			value = "x=y"
		case k.path() == "call.advertise":
			value = "192.0.2.7"
		}
		got, _ := Load("", []string{k.env + "=" + value}) // it need not be valid
		var was, is any = k.value.Interface(), nil
		for _, after := range keys(got) {
			if after.path() == k.path() {
				is = after.value.Interface()
			}
		}
		if cmp.Equal(was, is, compareAddr) {
			t.Errorf("%s=%s changes nothing", k.env, value)
		}
	}
}

func TestKeyNames(t *testing.T) {
	for name, want := range map[string]string{
		"MaxCalls": "max_calls", "T1": "t1", "DSCP": "dscp", "APIKey": "api_key", "APIKeyFile": "api_key_file",
		"EventsDir": "events_dir", "URL": "url", "TimeoutMS": "timeout_ms", "NAT": "nat", "FirstTokenTimeoutMS": "first_token_timeout_ms",
	} {
		if got := snake(name); got != want {
			t.Errorf("snake(%s) = %s, want %s", name, got, want)
		}
	}
}

func TestLoadReadsAFile(t *testing.T) {
	c := load(t, `
[sip]
listen = ["tcp://[::1]:5070"]
advertise = "sip.example.com:5080"
[rtp]
address = "127.0.0.1"
ports = "30000-30009"
[call]
media_timeout = "1m30s"
advertise = "192.0.2.1"
`, nil)
	if c.Call.MediaTimeout != 90*time.Second || c.Call.Advertise != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("call: %+v", c.Call)
	}
	s, err := c.SIPConfig()
	if err != nil || len(s.Listen) != 1 || s.Listen[0].Network != "tcp" || s.Listen[0].Addr != "[::1]:5070" || s.Listen[0].Advertise != "sip.example.com:5080" {
		t.Errorf("sip: %+v %v", s, err)
	}
	r, err := c.RTPConfig()
	if err != nil || r.Addr != netip.MustParseAddr("127.0.0.1") || r.PortMin != 30000 || r.PortMax != 30009 {
		t.Errorf("rtp: %+v %v", r, err)
	}
}

func TestEnvironmentWinsOverTheFile(t *testing.T) {
	c := load(t, "[call]\nmax_calls = 5\ncodecs = [\"PCMA\"]\n", []string{
		"PARLEY_CALL_MAX_CALLS=9", "PARLEY_CALL_CODECS=PCMU, PCMA", "PARLEY_VAD_MARGIN=12.5", "PARLEY_TURN_IDLE=15s",
		"PARLEY_CALL_LOG_WORDS=true", "PARLEY_API_LISTEN=", "HOME=/root",
	})
	if c.Call.MaxCalls != 9 || strings.Join(c.Call.Codecs, " ") != "PCMU PCMA" || c.VAD.Margin != 12.5 || c.Turn.Idle != 15*time.Second || !c.Call.LogWords {
		t.Errorf("%+v", c.Call)
	}
	if c.API.Listen == "" {
		t.Error("an empty variable counts as set")
	}
}

func TestMisspeltEnvironmentIsAWarning(t *testing.T) {
	c := load(t, "", []string{"PARLEY_CALL_MAXCALLS=9", "PARLEY_PORT=tcp://10.0.0.1:80"})
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], `PARLEY_CALL_MAXCALLS is not used; did you mean "PARLEY_CALL_MAX_CALLS"?`) {
		t.Errorf("warnings: %q", c.Warnings)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		why, text string
		env       []string
		want      []string // each line of the error, FILE is the file
	}{
		{why: "all at once, in order",
			text: "[call]\nmax_cals = 5\nmax_duration = \"long\"\n\n[sip]\nlisten = \"udp://0.0.0.0:5060\"\nnat = \"maybe\"\n\n[log]\nlevel = 3\n",
			want: []string{
				`FILE:2: call.max_cals: no such key; did you mean "max_calls"?`,
				`FILE:3: call.max_duration: "long", must be a time such as "500ms" or "2m"`,
				`FILE:6: sip.listen: "udp://0.0.0.0:5060", must be a list such as ["a", "b"]`,
				`FILE:7: sip.nat: "maybe" is not auto, always or never`,
				`FILE:10: log.level: 3, must be text in quotes`,
			}},
		{why: "not TOML", text: "[call]\nmax_calls = \n", want: []string{`FILE:2: not TOML: `}},
		{why: "twice", text: "[call]\nmax_calls = 1\nmax_calls = 2\n", want: []string{`FILE:3: not TOML: `}},
		{why: "section misspelt", text: "\n[cal]\nmax_calls = 1\n", want: []string{`FILE:2: cal: no such section; did you mean "call"?`}},
		{why: "list of sections misspelt", text: "\n[[plugin]]\nname = \"a\"\n", want: []string{`FILE:2: plugin: no such section; did you mean "plugins"?`}},
		{why: "agent with an s", text: "[agents]\nurl = \"http://127.0.0.1\"\n", want: []string{`FILE:2: agents.url: must be a section, such as [agents.url.llm]; what is set for the one agent there is stands in [agent], not [agents]`}},
		{why: "key outside of its section", text: "max_calls = 1\n", want: []string{`FILE:1: max_calls: a key outside of any section; it belongs into [call]`}},
		{why: "key in another section", text: "[sip]\nmax_calls = 1\n", want: []string{`FILE:2: sip.max_calls: no such key; it belongs into [call]`}},
		{why: "section as a value", text: "call = 1\n", want: []string{`FILE:1: call: must be a section: [call]`}},
		{why: "array of tables", text: "[[call]]\nmax_calls = 1\n", want: []string{`FILE:1: call: must be a section: [call]`}},
		{why: "dotted and inline", text: "call.max_calls = \"x\"\nvad = { kind = \"loud\" }\n", want: []string{
			`FILE:1: call.max_calls: "x", must be a whole number`,
			`FILE:2: vad.kind: "loud", must be one of auto, energy, silero`,
		}},
		{why: "types", text: "[call]\nlog_words = \"yes\"\ncodecs = [1]\nmax_calls = 1.5\nmax_duration = 3600\nadvertise = 4\n[vad]\nmargin = \"x\"\n", want: []string{
			`FILE:2: call.log_words: "yes", must be true or false`,
			`FILE:3: call.codecs: item 1: 1, must be text in quotes`,
			`FILE:4: call.max_calls: 1.5, must be a whole number`,
			`FILE:5: call.max_duration: 3600, must be a time such as "500ms" or "2m"`,
			`FILE:6: call.advertise: 4, must be text in quotes`,
			`FILE:8: vad.margin: "x", must be a number`,
		}},
		{why: "rooms are asked", text: "[call]\nmax_calls = 0\n[rtp]\nticks = 1\ndscp = 99\nports = \"9-1\"\naddress = \"host\"\n[identity]\nregion = \"XX\"\n[turn]\nspeech_timeout = \"1h\"\n[vad]\nmin_level = 7\n[echo]\nbuffer = \"1ms\"\n[api]\nlisten = \"8080\"\n", want: []string{
			`FILE:2: call.max_calls: 0, must be at least 1`,
			`FILE:4: rtp.ticks: no such key; did you mean "tick"?`,
			`FILE:6: rtp.ports: "9-1", must be a range such as "20000-20999"`,
			`FILE:7: rtp.address: "host" is not an IP address`,
			`FILE:9: identity.region: "XX" is not an ISO 3166 country code`,
			`FILE:11: turn.speech_timeout: 1h0m0s is not between 0s and 10s`,
			`FILE:12: vad: minimum level`,
			`FILE:15: echo.buffer: 1ms is not between delay`,
			`FILE:17: api.listen: "8080" is not host:port`,
		}},
		{why: "TLS without a certificate", text: "[sip]\nlisten = [\"tls://0.0.0.0:5061\", \"sctp://0.0.0.0:80\"]\n", want: []string{`FILE:2: sip.listen: "sctp://0.0.0.0:80", must be such as`}},
		{why: "TLS with half a certificate", text: "[sip]\nlisten = [\"tls://0.0.0.0:5061\"]\n[tls]\ncert_file = \"a.pem\"\n", want: []string{
			`FILE:2: sip.listen: listen[0].tls: cert_file and key_file belong together`, `FILE:4: tls.cert_file: cert_file and key_file belong together`,
		}},
		{why: "the conversation", text: "[conversation]\nreopen_tries = -1\nfiller_after = \"-1s\"\nno_audio = \"1ms\"\n", want: []string{
			`FILE:2: conversation.reopen_tries: -1 is negative`, `FILE:3: conversation.filler_after: -1s is negative`, `FILE:4: conversation.no_audio: 1ms is neither`,
		}},
		{why: "one range error of rtp", text: "[rtp]\ndscp = 99\n", want: []string{`FILE:2: rtp.dscp: 99 is not in 0-63`}},
		{why: "choices", text: "[llm]\nprovider = \"scrpt\"\n[stt]\nprovider = \"x\"\n[call]\ncodecs = [\"PCMU\", \"GSM\", \"PCMU\"]\n", want: []string{
			`FILE:2: llm.provider: "scrpt", must be one of script, agent, openai, ollama, openai-realtime, gemini-live, stream, echo; did you mean "script"?`,
			`FILE:4: stt.provider: "x", must be one of pocketsphinx`,
			`FILE:6: call.codecs: "GSM", must be one of opus, G722, PCMU, PCMA`,
			`FILE:6: call.codecs: "PCMU" is named twice`,
		}},
		{why: "an agent needs its address", text: "[llm]\nprovider = \"agent\"\n", want: []string{`FILE: agent.url: must be set, such as`}},
		{why: "an address that is none", text: "[llm]\nprovider = \"agent\"\n[agent]\nurl = \"localhost\"\n", want: []string{`FILE:4: agent.url: must begin with http:// or https://`}},
		{why: "environment", text: "[call]\nmax_calls = 1\n", env: []string{"PARLEY_CALL_MAX_CALLS=many", "PARLEY_RTP_DSCP=99", "PARLEY_CALL_MAX_DURATION=1"}, want: []string{
			`environment PARLEY_RTP_DSCP: rtp.dscp: 99 is not in 0-63`,
			`environment PARLEY_CALL_MAX_CALLS: call.max_calls: "many", must be a whole number`,
			`environment PARLEY_CALL_MAX_DURATION: call.max_duration: "1", must be a time`,
		}},
		{why: "both a secret and its file", text: "[agent]\napi_key = \"k\"\napi_key_file = \"/dev/null\"\n", want: []string{`FILE:3: agent.api_key_file: give api_key or api_key_file, not both`}},
		{why: "no such secret file", text: "[agent]\napi_key_file = \"/nonexistent/key\"\n", want: []string{`FILE:2: agent.api_key_file: open /nonexistent/key`}},
		{why: "empty secret file", text: "[agent]\napi_key_file = \"/dev/null\"\n", want: []string{`FILE:2: agent.api_key_file: the file must hold one line, the secret`}},
	} {
		file := write(t, c.text)
		_, err := Load(file, c.env)
		if err == nil {
			t.Errorf("%s: no error", c.why)
			continue
		}
		got := strings.Split(err.Error(), "\n")
		ok := len(got) == len(c.want)
		for _, want := range c.want {
			found := false
			for _, line := range got {
				found = found || strings.HasPrefix(line, strings.Replace(want, "FILE", file, 1))
			}
			ok = ok && found
		}
		if !ok {
			t.Errorf("%s:\n got %s\nwant %s", c.why, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
	}
}

func TestMistakesCanBeTakenApart(t *testing.T) {
	_, err := Load(write(t, "[call]\nx = 1\nmax_calls = 0\n"), nil)
	m, ok := errors.AsType[Mistakes](err)
	if !ok || len(m) != 2 || m[0].Line != 2 || m[1].Path != "call.max_calls" {
		t.Errorf("%#v", err)
	}
	if one, ok := errors.AsType[Mistake](err); !ok || one.Path != "call.x" {
		t.Errorf("%#v", one)
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.toml"), nil)
	if err == nil || !strings.Contains(err.Error(), "none.toml") {
		t.Errorf("%v", err)
	}
}

func TestSecretFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, "[agent]\napi_key_file = \""+file+"\"\n", nil)
	if c.Agent.APIKey.Reveal() != "s3cret" {
		t.Errorf("got %q", c.Agent.APIKey.Reveal())
	}
	c = load(t, "", []string{"PARLEY_AGENT_API_KEY_FILE=" + file})
	if c.Agent.APIKey.Reveal() != "s3cret" {
		t.Errorf("from the environment: %q", c.Agent.APIKey.Reveal())
	}
}

func load(t *testing.T, text string, env []string) *Config {
	t.Helper()
	c, err := Load(write(t, text), env)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sip-server.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
