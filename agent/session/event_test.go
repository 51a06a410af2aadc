package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Events as ADK for Python writes them (every field by its alias, null for what is not
// set, the time as a number) are read, written as ours, and written back for Python with
// nothing missing.
func TestEventFromPython(t *testing.T) {
	names, err := filepath.Glob("testdata/python-*.json")
	if err != nil || len(names) < 6 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			python, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var e Event
			if err := json.Unmarshal(python, &e); err != nil {
				t.Fatal(err)
			}
			ours, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.Replace(name, "python-", "go-", 1), ours)
			back, err := e.EpochJSON()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := tree(t, back), tree(t, python); !reflect.DeepEqual(got, want) {
				t.Errorf("back to Python:\n got %v\nwant %v", got, want)
			}
			var again Event
			if err := json.Unmarshal(ours, &again); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(e, again, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("read again: %s", d)
			}
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, append(got, '\n'), "", " "); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(name, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(pretty.Bytes(), want) {
		t.Errorf("%s:\n got %s\nwant %s", name, pretty.Bytes(), want)
	}
}

// tree decodes JSON without what says nothing: null, and false or empty where Python has
// null as the default.
func tree(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	m := v.(map[string]any)
	m["timestamp"] = micros(t, m["timestamp"].(json.Number))
	delta := m["actions"].(map[string]any)["stateDelta"] // null means something here
	out := prune(v).(map[string]any)
	out["actions"].(map[string]any)["stateDelta"] = delta
	return out
}

func micros(t *testing.T, n json.Number) int64 {
	t.Helper()
	f, err := n.Float64()
	if err != nil {
		t.Fatal(err)
	}
	return int64(math.Round(f * 1e6))
}

func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(k string, v any) bool {
			return v == nil || v == false && k == "finished" || k == "requestedToolConfirmations" && len(v.(map[string]any)) == 0
		})
		for k := range v {
			v[k] = prune(v[k])
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
	}
	return v
}

func TestEventJSON(t *testing.T) {
	at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		e    Event
		want string
	}{
		{"always there", Event{}, `{"id":"","timestamp":"0001-01-01T00:00:00Z","invocationId":"","author":"","actions":{}}`},
		{"nil deltas", Event{ID: "1", Timestamp: at, Author: "user"}, `{"id":"1","timestamp":"2026-12-01T09:00:00Z","invocationId":"","author":"user","actions":{}}`},
		{
			"empty deltas", Event{Timestamp: at, Actions: EventActions{StateDelta: map[string]any{}, ArtifactDelta: map[string]int64{}}},
			`{"id":"","timestamp":"2026-12-01T09:00:00Z","invocationId":"","author":"","actions":{"stateDelta":{},"artifactDelta":{}}}`,
		},
		{
			"other fields", Event{Timestamp: at, Other: map[string]json.RawMessage{"b": []byte(` [1, 2] `), "a": []byte(`"x"`), "ID": []byte(`1`), "nil": nil}},
			`{"id":"","timestamp":"2026-12-01T09:00:00Z","invocationId":"","author":"","actions":{},"a":"x","b":[1,2]}`,
		},
		{
			"flat", Event{Timestamp: at, LLMResponse: LLMResponse{Content: &Content{}, Partial: true}},
			`{"content":{},"partial":true,"id":"","timestamp":"2026-12-01T09:00:00Z","invocationId":"","author":"","actions":{}}`,
		},
	} {
		got, err := json.Marshal(c.e)
		if err != nil || string(got) != c.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", c.name, got, err, c.want)
		}
		if p, err := json.Marshal(&c.e); err != nil || !bytes.Equal(p, got) {
			t.Errorf("%s: by pointer %s, %v", c.name, p, err)
		}
	}
	if _, err := json.Marshal(Event{Other: map[string]json.RawMessage{"a": []byte(`{`)}}); err == nil {
		t.Error("broken JSON in Other was written")
	}
	for _, year := range []int{-1, 10000} {
		e := Event{Timestamp: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}
		if _, err := json.Marshal(e); err == nil {
			t.Errorf("year %d was written", year)
		}
		if _, err := e.EpochJSON(); err == nil {
			t.Errorf("year %d was written for Python", year)
		}
	}
}

func TestDeltaMaps(t *testing.T) {
	for in, want := range map[string]EventActions{
		`{}`: {},
		`{"stateDelta":null,"artifactDelta":null}`: {},
		`{"stateDelta":{},"artifactDelta":{}}`:     {StateDelta: map[string]any{}, ArtifactDelta: map[string]int64{}},
		`{"stateDelta":{"a":null}}`:                {StateDelta: map[string]any{"a": nil}},
	} {
		var got EventActions
		if err := json.Unmarshal([]byte(in), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v; want %#v", in, got, err, want)
		}
	}
}

func TestTimestamp(t *testing.T) {
	for in, want := range map[string]string{
		`"2026-12-01T10:00:00.123456789+01:00"`: "2026-12-01T09:00:00.123456789Z",
		`"0000-01-01T00:00:00Z"`:                "0000-01-01T00:00:00Z",
		`0`:                                     "1970-01-01T00:00:00Z",
		`1764579386`:                            "2025-12-01T08:56:26Z",
		`1764579386.1234567`:                    "2025-12-01T08:56:26.123457Z",
		`1764579386.9999999`:                    "2025-12-01T08:56:27Z",
		`1.764579386e9`:                         "2025-12-01T08:56:26Z",
		`-0.5`:                                  "1969-12-31T23:59:59.5Z",
		`-62167219200`:                          "0000-01-01T00:00:00Z",
		`253402300799.5`:                        "9999-12-31T23:59:59.5Z",
		`null`:                                  "0001-01-01T00:00:00Z",
		``:                                      "0001-01-01T00:00:00Z",
		// refused
		`NaN`: "", `Infinity`: "", `-Infinity`: "", `1e400`: "", `1e300`: "", `-1e300`: "", `253402300800`: "", `-62167219201`: "",
		`253402300799.9999999`: "", `9223372036854775808`: "", `"NaN"`: "", `"1764579386"`: "", `"2026-12-01"`: "", `"2026-12-01T10:00:00"`: "",
		`"10000-01-01T00:00:00Z"`: "", `"0000-01-01T00:00:00+01:00"`: "", `"9999-12-31T23:59:59-01:00"`: "", `true`: "", `{}`: "", `[]`: "", `""`: "",
	} {
		doc := `{"id":"1","timestamp":` + in + `,"author":"after"}`
		if in == `` {
			doc = `{"id":"1","author":"after"}`
		}
		var e Event
		err := json.Unmarshal([]byte(doc), &e)
		if want == "" {
			if err == nil {
				t.Errorf("%s: read as %v", in, e.Timestamp)
			}
			continue
		}
		if got := e.Timestamp.UTC().Format(time.RFC3339Nano); err != nil || got != want || e.Author != "after" {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestEpochJSON(t *testing.T) {
	for want, at := range map[string]time.Time{
		"1764579386.123457":   time.Unix(1764579386, 123456700),
		"1764579387.000000":   time.Unix(1764579386, 999999900),
		"-0.500000":           time.Unix(-1, 5e8),
		"-1.500000":           time.Unix(-2, 5e8),
		"-2.000000":           time.Unix(-2, 0),
		"0.000000":            time.Unix(0, 0),
		"-62135596800.000000": {},
	} {
		raw, err := Event{Timestamp: at}.EpochJSON()
		if err != nil || !strings.Contains(string(raw), `"timestamp":`+want+`}`) || strings.Count(string(raw), "timestamp") != 1 {
			t.Errorf("%v: %s, %v; want %s", at, raw, err, want)
		}
		var back Event
		if err := json.Unmarshal(raw, &back); err != nil || !back.Timestamp.Equal(at.Round(time.Microsecond)) {
			t.Errorf("%v: read back as %v, %v", at, back.Timestamp, err)
		}
	}
}

func TestIsFinalResponse(t *testing.T) {
	for in, want := range map[string]bool{
		`{}`:                                   true,
		`{"content":{}}`:                       true,
		`{"content":{"parts":[{"text":"x"}]}}`: true,
		`{"content":{"parts":[null]}}`:         true,
		`{"content":{"parts":[{"text":"x"}]},"partial":true}`: false,
		`{"partial":true}`: false,
		`{"content":{"parts":[{"functionCall":{"name":"f"}},{"text":"x"}]}}`:                       false,
		`{"content":{"parts":[{"functionResponse":{"name":"f"}}]}}`:                                false,
		`{"content":{"parts":[{"codeExecutionResult":{"output":"2"}}]}}`:                           false,
		`{"content":{"parts":[{"codeExecutionResult":{"output":"2"}},{"text":"x"}]}}`:              true,
		`{"content":{"parts":[{"functionResponse":{}}]},"actions":{"skipSummarization":true}}`:     true,
		`{"content":{"parts":[{"functionCall":{}}]},"longRunningToolIds":["1"]}`:                   true,
		`{"content":{"parts":[{"text":"x"}]},"partial":true,"actions":{"skipSummarization":true}}`: true,
		`{"errorCode":"E"}`: true,
	} {
		var e Event
		if err := json.Unmarshal([]byte(in), &e); err != nil {
			t.Fatal(err)
		}
		if got := e.IsFinalResponse(); got != want {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
}

func TestNewEvent(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ctx := WithUUIDProvider(WithTimeProvider(t.Context(), func() time.Time { return at }), func() string { return "id" })
	e := NewEvent(ctx, "i")
	if e.ID != "id" || !e.Timestamp.Equal(at) || e.InvocationID != "i" || e.Actions.StateDelta == nil || e.Actions.ArtifactDelta == nil {
		t.Errorf("%+v", e)
	}
	a, b := NewEvent(context.Background(), ""), NewEvent(context.Background(), "")
	if len(a.ID) != 36 || a.ID[14] != '4' || a.ID == b.ID || time.Since(a.Timestamp) > time.Minute {
		t.Errorf("%q %q %v", a.ID, b.ID, a.Timestamp)
	}
}

func TestNumbers(t *testing.T) {
	for in, want := range map[string]any{
		`1`: 1.0, `1.5`: 1.5, `-0`: math.Copysign(0, -1), `1e3`: 1000.0, `9007199254740991`: 9007199254740991.0,
		`9007199254740993`: json.Number("9007199254740993"), `-12345678901234567890`: json.Number("-12345678901234567890"), `1e400`: json.Number("1e400"),
	} {
		got, err := decodeValue([]byte(in))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v (%T), %v; want %v", in, got, got, err, want)
		}
	}
}

// Whatever is read as an event can be written, read again and written the same; and the
// record keeps it.
func FuzzEventJSON(f *testing.F) {
	names, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, s := range []string{`{"ID":1}`, `{"timestamp":1e18}`, `{"\u017fomething":1,"actions":{"STATEDELTA":{"a":1e999}}}`, `{"output":[[[-0]]],"x":{"a":[null]}}`, `[]`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e Event
		if json.Unmarshal(data, &e) != nil {
			return
		}
		first, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("read, but cannot be written: %v", err)
		}
		var again Event
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		second, err := json.Marshal(again)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Fatalf("not stable:\n%s\n%s", first, second)
		}
		epoch, err := e.EpochJSON()
		if err != nil || !json.Valid(epoch) {
			t.Fatalf("for Python: %s, %v", epoch, err)
		}
		e.IsFinalResponse()
		s := NewStore(NewMemory())
		r, err := s.Create(t.Context(), &CreateRequest{AppName: "a", UserID: "u"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.AppendEvent(t.Context(), r.Session, &e); err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if _, err := s.Get(t.Context(), &GetRequest{AppName: "a", UserID: "u", SessionID: r.Session.ID()}); err != nil {
			t.Fatal(err)
		}
	})
}
