package docs_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/api"
	"parley/call"
)

// talking are calls of which one is up; whatever is asked of it is done.
type talking struct{}

func (talking) Calls() []call.Status { return []call.Status{{State: call.StateAnswered}} }

func (talking) Call(id string) (call.Status, bool) { return call.Status{ID: id}, true }

func (talking) Dial(context.Context, call.Outgoing) (string, error) { return "5a0c2f6be1d94837", nil }

func (talking) HangUp(string, string) error { return nil }

func (talking) Transfer(context.Context, string, agent.Transfer) error { return nil }

func (talking) SendDigits(context.Context, string, string) error { return nil }

func (talking) Hold(context.Context, string) error { return nil }

func (talking) Resume(context.Context, string) error { return nil }

func (talking) Say(context.Context, string, string) error { return nil }

func (talking) Record(string, bool) error { return nil }

func (talking) Events(string) ([]agent.Event, <-chan agent.Event, func(), error) {
	over := make(chan agent.Event)
	close(over)
	return nil, over, func() {}, nil
}

// Every curl in api.md is answered with a success, and every path in it is there.
func TestAPI(t *testing.T) {
	text, err := os.ReadFile("api.md")
	if err != nil {
		t.Fatal(err)
	}
	mint := func(string, string, map[string]any, time.Duration) (string, error) { return "a.b.c", nil }
	s, err := api.New(api.DefaultConfig(), api.Parts{Ready: func() error { return nil }, Metrics: api.NewMetrics(api.Sources{}), Calls: talking{}, Mint: mint})
	if err != nil {
		t.Fatal(err)
	}
	guarded := api.DefaultConfig()
	guarded.Keys = []api.Key{{Name: "k", Secret: strings.Repeat("k", 32)}}
	withKey, err := api.New(guarded, api.Parts{Ready: func() error { return nil }, Metrics: api.NewMetrics(api.Sources{}), Calls: talking{}, Mint: mint})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, b := range newPage("docs/api.md", string(text)).blocks {
		switch b.info {
		case "json":
			if !json.Valid([]byte(b.text)) {
				t.Errorf("docs/api.md:%d: no JSON", b.line)
			}
		case "sh":
			variables := map[string]string{"KEY": strings.Repeat("k", 32)}
			for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
				words := shellWords(line, variables)
				if len(words) == 0 || words[0] != "curl" {
					continue
				}
				seen++
				server := s
				if strings.Contains(line, "$KEY") {
					server = withKey
				}
				r := curl(t, words[1:])
				r.RemoteAddr = "127.0.0.1:1"
				w := &deadlines{httptest.NewRecorder()}
				if server.Handler().ServeHTTP(w, r); w.Code >= 300 {
					t.Errorf("docs/api.md:%d: %s: %d %s", b.line, line, w.Code, w.Body)
				}
			}
		}
	}
	if seen < 12 {
		t.Errorf("only %d seen", seen)
	}
}

// deadlines is an answer that can have deadlines.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetReadDeadline(time.Time) error { return nil }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }

var assignment = regexp.MustCompile(`^([A-Z]+)=(.*)$`)

// shellWords are the words of a line of shell: quotes, variables and comments, no
// more than the document uses.
func shellWords(line string, variables map[string]string) (words []string) {
	var word strings.Builder
	open, quote := false, rune(0)
	for _, r := range strings.TrimSpace(line) + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == '\'' && r == '$':
			word.WriteRune('\x00') // no variable
		case quote == 0 && r == '#' && !open:
			return words
		case quote == 0 && r == ' ':
			if open {
				words = append(words, strings.ReplaceAll(expand(word.String(), variables), "\x00", "$"))
			}
			open = false
			word.Reset()
		default:
			open = true
			word.WriteRune(r)
		}
	}
	if len(words) > 0 {
		if m := assignment.FindStringSubmatch(words[0]); m != nil {
			variables[m[1]] = m[2]
		}
	}
	return words
}

func expand(s string, variables map[string]string) string {
	return os.Expand(s, func(name string) string { return variables[name] })
}

// curl is the request that curl makes of its arguments.
func curl(t *testing.T, words []string) *http.Request {
	t.Helper()
	method, target, header := http.MethodGet, "", http.Header{}
	var body io.Reader
	for i := 0; i < len(words); i++ {
		next := func() string { i++; return words[i] }
		switch words[i] {
		case "-s", "-sN":
		case "-H":
			name, value, _ := strings.Cut(next(), ": ")
			header.Add(name, value)
		case "-X":
			method = next()
		case "-d":
			method, body = http.MethodPost, strings.NewReader(next())
		default:
			if !strings.HasPrefix(words[i], "http://") || target != "" {
				t.Fatalf("%q: what is %q?", words, words[i])
			}
			target = words[i]
		}
	}
	r := httptest.NewRequest(method, target, body)
	r.Header = header
	return r
}

func TestShellWords(t *testing.T) {
	v := map[string]string{"KEY": "k"}
	shellWords(`CALL=http://x/$KEY`, v)
	got := shellWords(`curl -H "A: $KEY" -d '{"a": "$KEY"}' $CALL/b "" # end`, v)
	if want := []string{"curl", "-H", "A: k", "-d", `{"a": "$KEY"}`, "http://x/k/b", ""}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q", got)
	}
}
