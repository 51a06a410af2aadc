package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWordsThatTheRecogniserDoesNotKnow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.toml")
	const text = `start = "a"
else = "What?"
lost = "a"
always = [
  { say = ["good bye", "flurble now"], next = "@again" },
]
[[state]]
name = "a"
say = "Say it."
expect = [
  { say = "Flurble the xyzzy, flurble", next = "a" },
  { say = "hours", next = "a" },
]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	got := p.Unknown(func(w string) bool { return w != "flurble" && w != "xyzzy" })
	want := strings.ReplaceAll(`FILE:5: always.0.say: the recogniser does not know "flurble"
FILE:11: state.a.expect.0.say: the recogniser does not know "flurble", "xyzzy"`, "FILE", file)
	if got.Error() != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	if got := p.Unknown(func(string) bool { return true }); len(got) != 0 {
		t.Errorf("all known: %v", got)
	}
}
