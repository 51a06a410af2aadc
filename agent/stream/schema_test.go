package stream

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas are docs/stream.schema.json.
type schemas struct {
	toAgent, toGateway *jsonschema.Schema
	defs               map[string]json.RawMessage
}

const schemaFile = "../../docs/stream.schema.json"

func loadSchemas(t testing.TB) schemas {
	t.Helper()
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var raw struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("stream.json", doc); err != nil {
		t.Fatal(err)
	}
	compile := func(pointer string) *jsonschema.Schema {
		s, err := c.Compile("stream.json#/$defs/" + pointer)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return schemas{compile("toAgent"), compile("toGateway"), raw.Defs}
}

// valid says whether a message is one of a schema.
func valid(s *jsonschema.Schema, message string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(message))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// checkSent holds all that the gateway sent against the schema.
func checkSent(t *testing.T, p *peer, seen map[string]bool) {
	t.Helper()
	s := loadSchemas(t)
	for _, m := range p.got("") {
		if m.m == nil {
			continue
		}
		if _, known := s.defs["toAgent."+m.kind()]; !known {
			t.Errorf("the schema knows no %s", m.text)
		}
		if err := valid(s.toAgent, m.text); err != nil {
			t.Errorf("%s: %v", m.text, err)
		}
		seen[m.kind()] = true
	}
}

// messages to the gateway, and the field that is wrong with them; "" for right ones.
var toGateway = []struct{ text, field string }{
	{`{"type":"mark","name":"a"}`, ""},
	{`{"type":"mark","name":"a","text":"Hello. ünï 😀","more":[1]}`, ""},
	{`{"type":"mark"}`, "name"},
	{`{"type":"mark","name":""}`, "name"},
	{`{"type":"mark","name":7}`, "name"},
	{`{"type":"mark","name":null}`, "name"},
	{`{"type":"mark","name":"` + strings.Repeat("ü", 256) + `"}`, ""},
	{`{"type":"mark","name":"` + strings.Repeat("ü", 257) + `"}`, "name"},
	{`{"type":"mark","name":"a","text":7}`, "text"},
	{`{"type":"mark","name":"a","text":"` + strings.Repeat("x", 4097) + `"}`, "text"},
	{`{"type":"clear"}`, ""},
	{`{"type":"pause"}`, ""},
	{`{"type":"resume"}`, ""},
	{`{"type":"hangup"}`, ""},
	{`{"type":"transfer","to":"+14155550100"}`, ""},
	{`{"type":"transfer","to":"sip:a@b.example;x=1","attended":true,"trunk":"t","headers":{"X-A":"b"},"id":"1"}`, ""},
	{`{"type":"transfer"}`, "to"},
	{`{"type":"transfer","to":""}`, "to"},
	{`{"type":"transfer","to":"a b"}`, "to"},
	{`{"type":"transfer","to":"a\r\nb"}`, "to"},
	{`{"type":"transfer","to":"` + strings.Repeat("1", 257) + `"}`, "to"},
	{`{"type":"transfer","to":"1","attended":"yes"}`, "attended"},
	{`{"type":"transfer","to":"1","attended":null}`, "attended"},
	{`{"type":"transfer","to":"1","trunk":{}}`, "trunk"},
	{`{"type":"transfer","to":"1","headers":[]}`, "headers"},
	{`{"type":"transfer","to":"1","headers":null}`, "headers"},
	{`{"type":"transfer","to":"1","headers":{"From":"a"}}`, "headers"},
	{`{"type":"transfer","to":"1","headers":{"X-A":7}}`, "headers.X-A"},
	{`{"type":"transfer","to":"1","headers":{"X-A":"a\r\nVia: b"}}`, "headers.X-A"},
	{`{"type":"transfer","to":"1","id":"` + strings.Repeat("1", 129) + `"}`, "id"},
	{`{"type":"dtmf","digits":"12,#*ab"}`, ""},
	{`{"type":"dtmf","digits":""}`, "digits"},
	{`{"type":"dtmf","digits":"12x"}`, "digits"},
	{`{"type":"dtmf","digits":12}`, "digits"},
	{`{"type":"dtmf"}`, "digits"},
	{`{"type":"dtmf","digits":"` + strings.Repeat("1", 65) + `"}`, "digits"},
	{`{"type":"hold","on":true}`, ""},
	{`{"type":"hold","on":false,"id":""}`, ""},
	{`{"type":"hold"}`, "on"},
	{`{"type":"hold","on":1}`, "on"},
	{`{"type":"config"}`, ""},
	{`{"type":"config","statistics_ms":250,"hear":false}`, ""},
	{`{"type":"config","statistics_ms":0}`, ""},
	{`{"type":"config","statistics_ms":600000.0}`, ""},
	{`{"type":"config","statistics_ms":249}`, "statistics_ms"},
	{`{"type":"config","statistics_ms":300.5}`, "statistics_ms"},
	{`{"type":"config","statistics_ms":-1}`, "statistics_ms"},
	{`{"type":"config","statistics_ms":600001}`, "statistics_ms"},
	{`{"type":"config","statistics_ms":"300"}`, "statistics_ms"},
	{`{"type":"config","statistics_ms":null}`, "statistics_ms"},
	{`{"type":"config","hear":"no"}`, "hear"},
	{`{"type":"transcript","text":"I am Ann.","final":true}`, ""},
	{`{"type":"transcript","text":"","final":true}`, "text"},
	{`{"type":"transcript","text":"a"}`, "final"},
	{`{"type":"memory","key":"user:name","value":"Ann"}`, ""},
	{`{"type":"memory","key":"user:name","value":null}`, ""},
	{`{"type":"memory","key":"","value":1}`, "key"},
	{`{"type":"memory","key":"a"}`, "value"},
	{`{"type":"what","ever":1}`, ""},
	{`{"type":"` + strings.Repeat("x", 129) + `"}`, "type"},
	{`{"type":7}`, "type"},
	{`{"type":null}`, "type"},
	{`{}`, "type"},
	{`[]`, "message"},
	{`null`, "message"},
	{`"mark"`, "message"},
	{``, "message"},
	{`{"type":"clear"`, "message"},
	{`{"type":"clear"} x`, "message"},
	{`{"type":"mark","name":"a","pad":"` + strings.Repeat("x", maxTextMessage) + `"}`, "message"},
}

// What the schema takes is taken, what it does not take is refused with the field's name.
func TestMessagesToTheGateway(t *testing.T) {
	s := loadSchemas(t)
	d := newPCM(fakeCall(), 16000)
	seen := map[string]bool{}
	for _, c := range toGateway {
		command, err := d.read(websocket.MessageText, []byte(c.text))
		field := ""
		if w, ok := err.(*wrong); ok {
			field = w.field
		}
		if field != c.field || (err == nil) == (command == nil) {
			t.Errorf("%.80s: %v, want a complaint about %q", c.text, err, c.field)
		}
		if err := valid(s.toGateway, c.text); len(c.text) < maxTextMessage && (err == nil) != (c.field == "") {
			t.Errorf("%.80s: the schema says %v", c.text, err)
		}
		var m struct{ Type any }
		_ = json.Unmarshal([]byte(c.text), &m)
		if name, ok := m.Type.(string); ok && c.field == "" {
			seen[name] = true
		}
	}
	for name := range s.defs {
		if kind, ours := strings.CutPrefix(name, "toGateway."); ours && !seen[kind] {
			t.Errorf("no message of type %s was tried", kind)
		}
	}
}

// docs/stream.md names every type and every member that the schema has, and no others.
func TestTheDocumentNamesAll(t *testing.T) {
	text, err := os.ReadFile("../../docs/stream.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range loadSchemas(t).defs {
		_, kind, ok := strings.Cut(name, ".")
		if !ok {
			continue
		}
		if !bytes.Contains(text, []byte("`"+kind+"`")) {
			t.Errorf("docs/stream.md does not name the type %s", kind)
		}
		var def struct {
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
		}
		if err := json.Unmarshal(raw, &def); err != nil {
			t.Fatal(err)
		}
		for member := range def.Properties {
			if !bytes.Contains(text, []byte("`"+member+"`")) {
				t.Errorf("docs/stream.md does not name the member %s of %s", member, kind)
			}
		}
		for _, member := range def.Required {
			if _, ok := def.Properties[member]; !ok {
				t.Errorf("%s requires %s, which it does not describe", name, member)
			}
		}
	}
}

// FuzzPCMText: what is taken is what the schema takes, and nothing panics.
func FuzzPCMText(f *testing.F) {
	for _, c := range toGateway {
		if len(c.text) < 1000 {
			f.Add(c.text)
		}
	}
	s := loadSchemas(f)
	f.Fuzz(func(t *testing.T, text string) {
		d := newPCM(fakeCall(), 8000)
		command, err := d.read(websocket.MessageText, []byte(text))
		if (command == nil) == (err == nil) {
			t.Fatalf("%v and %v", command, err)
		}
		says := valid(s.toGateway, text)
		w, isWrong := err.(*wrong)
		switch {
		case err != nil && (!isWrong || w.field == "" || w.text == ""):
			t.Errorf("%q: %v does not say what is wrong", text, err)
		case err == nil && says != nil:
			t.Errorf("%q is taken; the schema says %v", text, says)
		case err != nil && says == nil && len(text) <= maxTextMessage && w.field != "value" && w.field != "message":
			t.Errorf("%q is refused (%v); the schema takes it", text, err)
		}
		if _, err := json.Marshal(mistake{"error", "a", "b"}); err != nil {
			t.Error(err)
		}
	})
}

// FuzzTwilio: nothing that a bot may send panics, and what it wants said is what is in
// the message.
func FuzzTwilio(f *testing.F) {
	for _, s := range []string{
		`{"event":"media","streamSid":"MZ","media":{"payload":"AAAA"}}`, `{"event":"media","media":{"payload":"AA=="}}`, `{"event":"media","media":{"payload":"AAA"}}`,
		`{"event":"mark","mark":{"name":"a"}}`, `{"event":"clear"}`, `{"event":7}`, `{`, `{"event":"x"}`,
	} {
		f.Add(s, true)
	}
	f.Add("RIFF", false)
	cfg := DefaultConfig()
	d, err := newTwilio(cfg, fakeCall())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, isText bool) {
		kind := websocket.MessageBinary
		if isText {
			kind = websocket.MessageText
		}
		command, err := d.read(kind, []byte(text))
		if (command == nil) == (err == nil) {
			t.Fatalf("%v and %v", command, err)
		}
		switch c := command.(type) {
		case sayCommand:
			var m struct{ Media struct{ Payload []byte } }
			if json.Unmarshal([]byte(text), &m) == nil && !bytes.Equal(m.Media.Payload, c.sound) {
				t.Errorf("%q: says %x", text, c.sound)
			}
		case markCommand:
			if len(c.name) > maxName {
				t.Errorf("a name of %d bytes", len(c.name))
			}
			m := d.tell(nil, markReached{"mark", c.name, 0, false})
			if m != nil && !json.Valid(m) {
				t.Errorf("%q", m)
			}
		}
	})
}

// FuzzPCMSound: sound comes through whole however it is cut.
func FuzzPCMSound(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5}, uint8(1))
	f.Add([]byte("RIFFxxxxWAVE"), uint8(200))
	f.Fuzz(func(t *testing.T, sound []byte, size uint8) {
		d := newPCM(fakeCall(), 8000)
		var got []byte
		for piece := range slices.Chunk(sound, int(size)+1) {
			c, err := d.read(websocket.MessageBinary, slices.Clone(piece))
			if err != nil {
				return // it looks like a file
			}
			if len(c.(sayCommand).sound)%2 != 0 {
				t.Fatal("half a sample")
			}
			got = append(got, c.(sayCommand).sound...)
		}
		if !bytes.Equal(got, sound[:len(sound)/2*2]) {
			t.Errorf("%x became %x", sound, got)
		}
	})
}
