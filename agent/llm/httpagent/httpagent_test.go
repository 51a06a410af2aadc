package httpagent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"parley/agent/llm"
)

func TestConfig(t *testing.T) {
	good := DefaultConfig()
	good.URL = "http://127.0.0.1:9000/agent"
	tests := []struct {
		name string
		set  func(*Config)
		want []string
	}{
		{"good", func(*Config) {}, nil},
		{"https and IPv6", func(c *Config) { c.URL = "https://[::1]:1/" }, nil},
		{"no address", func(c *Config) { c.URL = "" }, []string{"url: must be set, such as"}},
		{"no address at all", func(c *Config) { c.URL = "http://a b/%zz?token=hush" }, []string{"url: is no address"}},
		{"no scheme", func(c *Config) { c.URL = "localhost:9000" }, []string{"url: must begin with http:// or https://"}},
		{"no host", func(c *Config) { c.URL = "http:///agent" }, []string{"name a host"}},
		{"password", func(c *Config) { c.URL = "http://me:hush@host/" }, []string{"url: must not hold a user or password; set api_key"}},
		{"key of a file", func(c *Config) { c.APIKey = "hush\n" }, []string{"api_key: holds white space, a line break"}},
		{"times", func(c *Config) { c.Timeout, c.FirstTokenTimeout, c.OneShotTimeout = 0, -1e6, 0 },
			[]string{"timeout_ms: 0, must be at least 1", "first_token_timeout_ms: -1, must not be negative", "oneshot_timeout_ms: 0"}},
		{"all at once", func(c *Config) { c.URL, c.Timeout = "", -1e6 }, []string{"url: must be set", "timeout_ms: -1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := good
			tt.set(&c)
			p, err := New(c)
			if len(tt.want) == 0 {
				if err != nil || p == nil {
					t.Errorf("%v", err)
				}
				return
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v lacks %q", err, want)
				}
			}
			if strings.Contains(fmt.Sprint(err), "hush") {
				t.Errorf("a secret in %v", err)
			}
		})
	}
}

func TestOpenOfACallThatIsOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := provider(t, "http://127.0.0.1:1", nil).Open(ctx, caller); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := newBudget(cancel, "the turn", 10*time.Second, 4*time.Second)
		began := time.Now()
		time.Sleep(3 * time.Second)
		b.halt()
		time.Sleep(time.Hour) // the voice
		b.run()
		time.Sleep(999 * time.Millisecond)
		b.word()
		if ctx.Err() != nil {
			t.Fatal("over before its time")
		}
		<-ctx.Done()
		if got := time.Since(began) - time.Hour; got != 10*time.Second {
			t.Errorf("the turn had %v", got)
		}
		if got := fmt.Sprint(context.Cause(ctx)); got != "the turn, 10s, ran out" {
			t.Error(got)
		}
		b.halt()

		ctx, cancel = context.WithCancelCause(t.Context())
		b = newBudget(cancel, "the turn", 10*time.Second, 4*time.Second)
		began = time.Now()
		<-ctx.Done()
		if got := time.Since(began); got != 4*time.Second {
			t.Errorf("the first word had %v", got)
		}
		b.halt()
	})
}

// readAll reads a stream of events and gives its words.
func readAll(t *testing.T, stream string) string {
	_, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	b := newBudget(cancel, "", time.Hour, time.Hour)
	defer b.halt()
	var text strings.Builder
	_ = readEvents(strings.NewReader(stream), &sink{
		budget: b,
		out: func(c llm.Chunk) error {
			if !utf8.ValidString(c.Text) {
				t.Errorf("invalid words %q", c.Text)
			}
			text.WriteString(c.Text)
			return nil
		},
		act: true, refuse: func(string) {}, skip: func() {},
	})
	return text.String()
}

// What the events of a stream mean never panics, and words come out as valid text.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"data: {\"delta\": \"It's 22 degrees \"}\n\ndata: {\"delta\": \"[warm] and sunny.\"}\n\ndata: [DONE]\n\n",
		"\ufeffevent: error\r\ndata: x\r\rid: 1\n: c\n\r\ndata", "data:\n\n\n\xff\xfe:\r", "data: {\ndata: }\n\n",
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", "data: {\"error\":{\"message\":\"m\"}}\n\n",
		"data: {\"actions\":[\"hangup\",{\"type\":\"transfer\",\"to\":\"1\"}]}\n\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { readAll(t, text) })
}
