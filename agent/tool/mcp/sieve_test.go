package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// sieved is what a sieve makes of in, and how many messages it dropped.
func sieved(t *testing.T, in string, events bool) (string, int) {
	t.Helper()
	dropped := 0
	out, err := io.ReadAll(newSieve(io.NopCloser(strings.NewReader(in)), events, func() { dropped++ }))
	if err != nil {
		t.Fatal(err)
	}
	return string(out), dropped
}

func TestSieve(t *testing.T) {
	long := `"` + strings.Repeat(`\"x`, 2<<20) + `"`
	refused := func(id string) string { return string(refusal(json.RawMessage(id))) }
	for name, c := range map[string]struct {
		in, want string
		events   bool
		dropped  int
	}{
		"nothing":           {"", "", false, 0},
		"lines":             {"{\"id\":1}\n\n{\"id\":2}", "{\"id\":1}\n\n{\"id\":2}", false, 0},
		"id first":          {`{"jsonrpc":"2.0","id":7,"result":{"id":8,"t":` + long + "}}\n{}\n", refused("7") + "\n{}\n", false, 0},
		"id last":           {`{"result":[{"id":8},` + long + `],"id":"a,}:\"b"}` + "\n", refused(`"a,}:\"b"`) + "\n", false, 0},
		"id of a list":      {`{"id":[7],"result":` + long + "}\n{}\n", "{}\n", false, 1},
		"no id":             {`{"result":` + long + "}\n{}\n", "{}\n", false, 1},
		"null":              {`{"id":null,"result":` + long + "}\n{}\n", "{}\n", false, 1},
		"a request":         {`{"id":7,"method":"roots/list","params":` + long + "}\n{}\n", "{}\n", false, 1},
		"several":           {`[{"id":7,"result":` + long + "}]\n{}\n", "{}\n", false, 1},
		"the longest":       {strings.Repeat("x", maxMessage) + "\n", strings.Repeat("x", maxMessage) + "\n", false, 0},
		"structured":        {`{"id":1,"result":{"structuredContent":{"n": 1}}}` + "\n", `{"id":1,"result":{"structuredContent":"{\"n\": 1}"}}`, false, 0},
		"event":             {"id: 1\nevent: message\ndata: {\"id\":1}\n\n: still here\n\n", "id: 1\nevent: message\ndata: {\"id\":1}\n\n: still here\n\n", true, 0},
		"event of lines":    {"data:{\r\ndata: \"id\":1}\r\n\r\n", "data: {\ndata: \"id\":1}\n\r\n", true, 0},
		"event without end": {"data: {\"id\":1}", "data: {\"id\":1}\n", true, 0},
		"large event":       {"id: 3\ndata: {\"result\":\ndata: " + long + "\ndata: ,\"id\":9}\n\ndata: {}\n\n", "id: 3\ndata: " + refused("9") + "\n\ndata: {}\n\n", true, 0},
		"large news":        {"data: {\"method\":\"x\",\"params\":" + long + "}\n\ndata: {}\n\n", "\ndata: {}\n\n", true, 1},
		"structured event":  {"data: {\"result\":{\"structuredContent\":\ndata: 7}}\n\n", "data: {\"result\":{\"structuredContent\":\"7\"}}\n\n", true, 0},
	} {
		got, dropped := sieved(t, c.in, c.events)
		if strings.TrimRight(got, "\n") != strings.TrimRight(c.want, "\n") || dropped != c.dropped {
			t.Errorf("%s: %.200q, %d dropped, want %.200q, %d", name, got, dropped, c.want, c.dropped)
		}
	}
}

func TestSieveTellsErrors(t *testing.T) {
	s := newSieve(io.NopCloser(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ab")))), false, func() {})
	if out, err := io.ReadAll(s); string(out) != "a" || err != iotest.ErrTimeout {
		t.Errorf("%q %v", out, err)
	}
}

func FuzzScanner(f *testing.F) {
	for _, s := range []string{`{"id":1}`, `{"result":{"id":2},"id":"x"}`, `{"method":"a","id":1}`, `[{"id":1}]`, `{"id":{"id":1}}`, "}}{", `{"a\"":"\\","id":-1.5e3}`, `{"id" : 3 }`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s scanner
		s.look(text)
		got := s.answers()
		var want map[string]json.RawMessage
		if json.Unmarshal(text, &want) != nil || want == nil || bytes.ContainsRune(text, '\\') {
			return // of what is no object it need not tell more than that it is none
		}
		id := want["id"]
		if _, asks := want["method"]; asks || !validID(id) {
			id = nil
		}
		if string(got) != string(id) {
			t.Errorf("%s: id %q, want %q", text, got, id)
		}
	})
}

func FuzzSieve(f *testing.F) {
	f.Add([]byte("data: {}\n\nid: 1\r\n\r\n"), true)
	f.Add([]byte("{\"result\":{\"structuredContent\":[1e400]}}\n"), false)
	f.Fuzz(func(t *testing.T, in []byte, events bool) {
		out, err := io.ReadAll(newSieve(io.NopCloser(bytes.NewReader(in)), events, func() {}))
		if err != nil {
			t.Fatal(err)
		}
		if !events && !bytes.Contains(in, []byte("structuredContent")) && !bytes.Equal(in, out) {
			t.Errorf("%q became %q", in, out)
		}
		structured(string(in)) // whatever it is, it is read or refused
	})
}
