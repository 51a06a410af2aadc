package wire

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// events parses a stream that comes in bits of n bytes; 0: at once.
func events(t *testing.T, text string, n int) []Event {
	t.Helper()
	var got []Event
	s := EventStream{Bound: 1 << 20}
	give := func(e Event) error {
		got = append(got, Event{e.Name, slices.Clone(e.Lines)})
		return nil
	}
	if n == 0 {
		n = len(text) + 1
	}
	for len(text) > 0 {
		part := text[:min(n, len(text))]
		if err := s.Write([]byte(part), give); err != nil {
			t.Fatal(err)
		}
		text = text[len(part):]
	}
	if err := s.Close(give); err != nil {
		t.Fatal(err)
	}
	return got
}

func flat(events []Event) string {
	var all []string
	for _, e := range events {
		all = append(all, e.Name+"="+e.Data())
	}
	return strings.Join(all, "|")
}

func TestEventStream(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"LF", "data: a\n\ndata: b\n\n", "=a|=b"},
		{"CR", "data: a\r\rdata: b\r\r", "=a|=b"},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", "=a|=b"},
		{"mixed", "data: a\r\ndata: b\n\rdata: c\r\r\n", "=a\nb|=c"},
		{"BOM once", "\ufeffdata: a\n\n\ufeffdata: b\n\n", "=a"},
		{"comments", ": hi\n:\ndata: a\n: there\n\n", "=a"},
		{"one space goes", "data:a\n\ndata:  b\n\ndata:\tc\n\n", "=a|= b|=\tc"},
		{"no colon", "data\ndata\n\n", "=\n"},
		{"empty data is no event", "data\n\ndata:\n\nevent: x\n\n", ""},
		{"the name is for one event", "event: x\ndata: a\n\ndata: b\n\n", "x=a|=b"},
		{"the last name counts", "event: x\nevent: y\ndata: a\n\n", "y=a"},
		{"an error needs no data", "event: error\n\n", "error="},
		{"fields of no use", "id: 5\nretry: 1\nfoo: bar\ndata : x\n\ndata: a\n\n", "=a"},
		{"colons in the value", "data: a: b:c\n\n", "=a: b:c"},
		{"the end without a blank line", "data: a", "=a"},
		{"the end after CR", "data: a\r", "=a"},
		{"nothing", "", ""},
		{"invalid bytes", "data: \xff\n\n", "=\ufffd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for n := range 4 {
				if got := flat(events(t, tt.in, n)); got != tt.want {
					t.Errorf("in bits of %d: %q, want %q", n, got, tt.want)
				}
			}
		})
	}
}

func TestEventStreamBounds(t *testing.T) {
	none := func(Event) error { return nil }
	for name, line := range map[string]string{
		"one line":    strings.Repeat("x", 101),
		"many lines":  "data: " + strings.Repeat("x", 30) + "\n",
		"empty lines": "data\n",
	} {
		s := EventStream{Bound: 100}
		var err error
		for range 100 {
			err = errors.Join(err, s.Write([]byte(line), none))
		}
		if !errors.Is(err, ErrEventSize) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := EventStream{Bound: 100}
	for range 100 {
		if err := s.Write([]byte(": a comment keeps the connection alive\ndata: xxxxxxxxx\n\n"), none); err != nil {
			t.Fatal(err)
		}
	}
	stop := errors.New("stop")
	if err := s.Write([]byte("data: x\n\n"), func(Event) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

func FuzzSSE(f *testing.F) {
	for _, seed := range []string{
		"data: {\"delta\": \"It's 22 degrees \"}\n\ndata: {\"delta\": \"and sunny.\"}\n\ndata: [DONE]\n\n",
		"\ufeffevent: error\r\ndata: x\r\rid: 1\n: c\n\r\ndata", "data:\n\n\n\xff\xfe:\r", "data: {\ndata: }\n\n",
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", "data: {\"error\":{\"message\":\"m\"}}\n\n",
		"data: {\"actions\":[\"hangup\",{\"type\":\"transfer\",\"to\":\"1\"}]}\n\n",
	} {
		f.Add(seed, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		want := events(t, text, 0)
		got := events(t, text, int(n))
		if flat(got) != flat(want) {
			t.Fatalf("in bits of %d %q, at once %q", n, flat(got), flat(want))
		}
		for _, e := range want {
			if strings.ContainsAny(strings.Join(e.Lines, "")+e.Name, "\r\n") {
				t.Fatalf("line end inside a line: %q", e)
			}
		}
	})
}
