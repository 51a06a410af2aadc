package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestSecretsAreNeverPrinted(t *testing.T) {
	c := load(t, "[agent]\napi_key = \"hush\"\n", nil)
	core, logs := observer.New(zap.DebugLevel)
	zap.New(core).Info("config", zap.Any("config", c.Agent), zap.Stringer("key", c.Agent.APIKey))
	logged, err := json.Marshal(logs.All()[0].ContextMap())
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	asTOML, err := toml.Marshal(c.Agent)
	if err != nil {
		t.Fatal(err)
	}
	for how, text := range map[string]string{
		"%v": fmt.Sprintf("%v", c.Agent), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", c.Agent), "%s": fmt.Sprintf("key %s", c.Agent.APIKey),
		"zap": string(logged), "json": string(asJSON), "toml": string(asTOML),
	} {
		if strings.Contains(text, "hush") {
			t.Errorf("%s shows the secret: %s", how, text)
		}
	}
	if c.Agent.APIKey.Reveal() != "hush" {
		t.Error("and it got lost")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("[call]\nmax_calls = 5\ncodecs = [\"PCMU\"]\n", "PARLEY_CALL_MAX_CALLS=9")
	f.Add("call.max_calls = {a = 1}\n[sip.listen]\n\"x y\" = 1\n", "PARLEY_=")
	f.Add("[[rtp]]\nports = 2020-01-01\n[vad]\nmargin = inf\n", "PARLEY_VAD_MARGIN=nan")
	f.Add("[agent]\nurl = \"\\u0000\"\n", "PARLEY_AGENT_URL=%zz")
	f.Fuzz(func(t *testing.T, text, env string) {
		if strings.Contains(text, "_file") || strings.Contains(env, "_FILE") {
			return // no reading of files that a fuzzer names
		}
		_, err := Load(write(t, text), []string{env})
		if err != nil && len(err.Error()) == 0 {
			t.Error("an error without words")
		}
	})
}
