package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"parley/call"
)

// Bodies that are wrong: the answer names the field and the rule. And the
// description must say so too, unless only says that no schema can.
func TestWrongBodies(t *testing.T) {
	long := strings.Repeat("x", 2000)
	many := func(n int, name, value string) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(`"%s%d":%s`, name, i, value))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	for _, c := range []struct {
		schema, path, body, field, rule string
		only                            bool
	}{
		{"Order", "/calls", `{}`, "to", "invalid_field", false},
		{"Order", "/calls", ``, "to", "invalid_field", true},
		{"Order", "/calls", `[]`, "", "bad_json", false},
		{"Order", "/calls", `"x"`, "", "bad_json", false},
		{"Order", "/calls", `null`, "", "bad_json", false},
		{"Order", "/calls", `{`, "", "bad_json", true},
		{"Order", "/calls", `{"to"`, "", "bad_json", true},
		{"Order", "/calls", `{"to":`, "", "bad_json", true},
		{"Order", "/calls", `{"to":"1"`, "", "bad_json", true},
		{"Order", "/calls", `{"to":"1",}`, "", "bad_json", true},
		{"Order", "/calls", `{"context":{"a":[1`, "", "bad_json", true},
		{"Order", "/calls", `{"to":"1"} {}`, "", "bad_json", true},
		{"Order", "/calls", "{\"to\":\"\xff\"}", "", "bad_json", true},
		{"Order", "/calls", `{"to":"1","to":"2"}`, "to", "invalid_field", true},
		{"Order", "/calls", `{"To":"1"}`, "To", "unknown_field", false},
		{"Order", "/calls", `{"to":"1","nonsense":2}`, "nonsense", "unknown_field", false},
		{"Order", "/calls", `{"to":null}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","context":{"a":null}}`, "context.a", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","context":{"a":"1","a":"2"}}`, "context.a", "invalid_field", true},
		{"Order", "/calls", `{"to":"1","context":{"a":{}}}`, "context", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","context":` + strings.Repeat(`{"a":`, 9) + `1` + strings.Repeat(`}`, 9) + `}`, "context.a.a.a.a.a.a.a", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","context":` + strings.Repeat(`[`, 9) + `1` + strings.Repeat(`]`, 9) + `}`, "context", "invalid_field", false},
		{"Order", "/calls", `{"to":7}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":""}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"()- "}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"+"}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"1+2"}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"alice"}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"http://example.com"}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"sip:"}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"sip:a@b\r\nX: y"}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"sip:a%0d%0aX@b"}`, "to", "invalid_field", true},
		{"Order", "/calls", `{"to":"sip:a%zz@b"}`, "to", "invalid_field", true},
		{"Order", "/calls", `{"to":"sip:a@b?Replaces=x"}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"sip:a@b>;x=<sip:c"}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"sip:é@b"}`, "to", "invalid_field", true},
		{"Order", "/calls", `{"to":"sip:` + long + `"}`, "to", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","targets":[{"to":"2"}],"strategy":"serial"}`, "targets", "invalid_field", false},
		{"Order", "/calls", `{"trunk":"a","targets":[{"to":"2"}],"strategy":"serial"}`, "targets", "invalid_field", false},
		{"Order", "/calls", `{"targets":[{"to":"2"}]}`, "strategy", "invalid_field", false},
		{"Order", "/calls", `{"targets":[{"to":"2"}],"strategy":"fastest"}`, "strategy", "invalid_field", false},
		{"Order", "/calls", `{"to":"2","strategy":"serial"}`, "strategy", "invalid_field", false},
		{"Order", "/calls", `{"targets":[{"to":"2"},{"trunk":"a"}],"strategy":"serial"}`, "targets[1].to", "invalid_field", false},
		{"Order", "/calls", `{"targets":[{"to":"2","trunk":"a b"}],"strategy":"serial"}`, "targets[0].trunk", "invalid_field", false},
		{"Order", "/calls", `{"targets":["2"],"strategy":"serial"}`, "targets", "invalid_field", false},
		{"Order", "/calls", `{"targets":[` + strings.Repeat(`{"to":"1"},`, 8) + `{"to":"1"}],"strategy":"serial"}`, "targets", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","trunk":"a b"}`, "trunk", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","from":"alice"}`, "from", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","name":"a\nb"}`, "name", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","name":"` + long + `"}`, "name", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","agent":"../x"}`, "agent", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","headers":{"From":"x"}}`, "headers.From", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","headers":{"X-":"x"}}`, "headers.X-", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","headers":{"X-A:B":"x"}}`, "headers.X-A:B", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","headers":{"X-A":"x\r\ny"}}`, "headers.X-A", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","headers":{"X-A":"` + long + `"}}`, "headers.X-A", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","headers":{"X-A":"1","x-a":"2"}}`, "", "invalid_field", true},
		{"Order", "/calls", `{"to":"1","headers":` + many(17, "X-A", `"1"`) + `}`, "headers", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","ring_timeout_seconds":4}`, "ring_timeout_seconds", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","ring_timeout_seconds":181}`, "ring_timeout_seconds", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","ring_timeout_seconds":5.5}`, "ring_timeout_seconds", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","ring_timeout_seconds":"30"}`, "ring_timeout_seconds", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","ring_timeout_seconds":1e400}`, "ring_timeout_seconds", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","resource_id":"a b"}`, "resource_id", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","resource_id":"anonymous"}`, "resource_id", "invalid_field", true},
		{"Order", "/calls", `{"to":"1","context":{"":"x"}}`, "context.", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","context":{"a b":"x"}}`, "context.a b", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","context":{"a":"` + long + `"}}`, "context.a", "invalid_field", false},
		{"Order", "/calls", `{"to":"1","context":` + many(33, "a", `"1"`) + `}`, "context", "invalid_field", false},
		{"Transfer", "/calls/ID/transfer", `{}`, "to", "invalid_field", false},
		{"Transfer", "/calls/ID/transfer", `{"to":"1","attended":"yes"}`, "attended", "invalid_field", false},
		{"Transfer", "/calls/ID/transfer", `{"to":"1","trunk":"a b"}`, "trunk", "invalid_field", false},
		{"Transfer", "/calls/ID/transfer", `{"to":"1","headers":{"Subject":"x"}}`, "headers.Subject", "invalid_field", false},
		{"Digits", "/calls/ID/dtmf", `{}`, "digits", "invalid_field", false},
		{"Digits", "/calls/ID/dtmf", `{"digits":""}`, "digits", "invalid_field", false},
		{"Digits", "/calls/ID/dtmf", `{"digits":",,"}`, "digits", "invalid_field", false},
		{"Digits", "/calls/ID/dtmf", `{"digits":"12E"}`, "digits", "invalid_field", false},
		{"Digits", "/calls/ID/dtmf", `{"digits":"1` + strings.Repeat("2", 64) + `"}`, "digits", "invalid_field", false},
		{"Nothing", "/calls/ID/hold", `{"on":true}`, "on", "unknown_field", false},
		{"Nothing", "/calls/ID/resume", `[]`, "", "bad_json", false},
		{"Announcement", "/calls/ID/say", `{}`, "text", "invalid_field", false},
		{"Announcement", "/calls/ID/say", `{"text":" "}`, "text", "invalid_field", true},
		{"Announcement", "/calls/ID/say", `{"text":"` + long + `"}`, "text", "invalid_field", false},
		{"Announcement", "/calls/ID/say", `{"text":"` + strings.Repeat("語", 900) + `"}`, "text", "invalid_field", true},
		{"Recording", "/calls/ID/record", `{}`, "on", "invalid_field", false},
		{"Recording", "/calls/ID/record", `{"on":"yes"}`, "on", "invalid_field", false},
		{"TokenOrder", "/token", `{}`, "subject", "invalid_field", false},
		{"TokenOrder", "/token", `{"subject":"a b"}`, "subject", "invalid_field", false},
		{"TokenOrder", "/token", `{"subject":"` + long + `"}`, "subject", "invalid_field", false},
		{"TokenOrder", "/token", `{"subject":"a","audience":"` + long + `"}`, "audience", "invalid_field", false},
		{"TokenOrder", "/token", `{"subject":"a","ttl_seconds":0}`, "ttl_seconds", "invalid_field", false},
		{"TokenOrder", "/token", `{"subject":"a","ttl_seconds":301}`, "ttl_seconds", "invalid_field", true},
		{"TokenOrder", "/token", `{"subject":"a","claims":{"scope":"calls:write"}}`, "claims.scope", "invalid_field", false},
		{"TokenOrder", "/token", `{"subject":"a","claims":{"scp":["calls:write"]}}`, "claims.scp", "invalid_field", false},
		{"TokenOrder", "/token", `{"subject":"a","claims":{"sub":"b"}}`, "claims.sub", "invalid_field", false},
		{"TokenOrder", "/token", `{"subject":"a","claims":{"x":{"y":1}}}`, "claims.x", "invalid_field", false},
		{"TokenOrder", "/token", `{"subject":"a","claims":{"x":"` + long + `"}}`, "claims.x", "invalid_field", false},
		{"TokenOrder", "/token", `{"subject":"a","claims":` + many(17, "a", `1`) + `}`, "claims", "invalid_field", false},
	} {
		h := newHarness(t, withMint)
		w := h.ask("POST", strings.ReplaceAll(c.path, "ID", h.up()), fullKey, c.body)
		if c.body == "" {
			r := request("POST", c.path, fullKey, "")
			r.Header.Set("Content-Type", "application/json; charset=UTF-8")
			w = h.do(r)
		}
		p := problemIn(t, w)
		if w.Code != 400 || p.Rule != c.rule || c.field != "" && p.Field != c.field || p.Detail == "" || p.Remedy == "" {
			t.Errorf("%.80s: %d %s", c.body, w.Code, w.Body)
		}
		if len(h.calls.dialled)+len(h.calls.done) > 0 {
			t.Errorf("%.80s: was done all the same", c.body)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(c.body))
		if described := err == nil && describe(t).matches("/components/schemas/"+c.schema, v) == nil; described && !c.only {
			t.Errorf("%.80s: refused, but right by the description", c.body)
		} else if !described && err == nil && c.only && c.rule != "bad_json" && !strings.Contains(c.body, `"to":"1","to"`) {
			t.Errorf("%.80s: the description refuses it too: not only", c.body)
		}
	}
}

// Bodies that are right, what becomes of them, and that the description thinks so
// too.
func TestRightOrders(t *testing.T) {
	for _, c := range []struct {
		body string
		want call.Outgoing
	}{
		{`{"to":"+1 (415) 555-01.23"}`, call.Outgoing{To: "+14155550123"}},
		{`{"to":"*21#"}`, call.Outgoing{To: "*21#"}},
		{`{"to":"(030) 12"}`, call.Outgoing{To: "03012"}},
		{`{"to":"SIP:desk%20two@pbx.example.com:5070;transport=tcp"}`, call.Outgoing{To: "SIP:desk%20two@pbx.example.com:5070;transport=tcp"}},
		{`{"to":"tel:+1-415-555-0123;ext=7"}`, call.Outgoing{To: "tel:+1-415-555-0123;ext=7"}},
		{`{"targets":[{"to":"(415) 555-0123","trunk":"a"},{"to":"sip:desk@pbx.example.com"}],"strategy":"parallel"}`, call.Outgoing{
			Targets: []call.Target{{To: "4155550123", Trunk: "a"}, {To: "sip:desk@pbx.example.com"}}, Parallel: true,
		}},
		{`{"targets":[{"to":"1"}],"strategy":"serial","to":"","trunk":""}`, call.Outgoing{Targets: []call.Target{{To: "1"}}}},
		{`{"to":"1","targets":[],"strategy":""}`, call.Outgoing{To: "1"}},
		{`{"to":"1","trunk":"","from":"","name":"","agent":"","headers":{},"resource_id":"","context":{}}`, call.Outgoing{To: "1"}},
		{`{"to":"1","from":"+1 415","name":"Shop \u202e  of Ann","trunk":"carrier-1","agent":"sales","ring_timeout_seconds":30,"resource_id":"customer-17",
			"headers":{"x-account":"47 11","user-to-user":"00ab","Subject":"order"},"context":{"order":"a\nb\u0000"}}`, call.Outgoing{
			To: "1", From: "+1415", Name: "Shop of Ann", Trunk: "carrier-1", Agent: "sales", RingTimeout: 30e9, ResourceID: "customer-17",
			Headers: map[string]string{"X-Account": "47 11", "User-To-User": "00ab", "Subject": "order"}, Context: map[string]string{"order": "a b"},
		}},
	} {
		h := newHarness(t, nil)
		h.expect(h.ask("POST", "/calls", fullKey, c.body), 202)
		if len(h.calls.dialled) != 1 {
			continue
		}
		got := h.calls.dialled[0]
		if len(got.Headers) == 0 {
			got.Headers = nil
		}
		if len(got.Context) == 0 {
			got.Context = nil
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.body, got, c.want)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(c.body))
		if err == nil {
			err = describe(t).matches("/components/schemas/Order", v)
		}
		if err != nil {
			t.Errorf("%s: not described: %v", c.body, err)
		}
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestBodiesThatAreNoJSON(t *testing.T) {
	h := newHarness(t, nil)
	for _, c := range []struct {
		kind, encoding string
		status         int
		rule           string
	}{
		{"application/json", "", 202, ""},
		{"Application/JSON; charset=utf-8", "", 202, ""},
		{"", "", 415, "content_type"},
		{"text/plain", "", 415, "content_type"},
		{"application/x-www-form-urlencoded", "", 415, "content_type"},
		{"multipart/form-data; boundary=x", "", 415, "content_type"},
		{"application/json; charset=latin1", "", 415, "content_type"},
		{"application/json;;", "", 415, "content_type"},
		{"application/json", "gzip", 415, "content_encoding"},
	} {
		r := request("POST", "/calls", fullKey, `{"to":"1"}`)
		r.Header.Set("Content-Type", c.kind)
		if c.encoding != "" {
			r.Header.Set("Content-Encoding", c.encoding)
		}
		w := h.do(r)
		if w.Code != c.status || c.rule != "" && problemIn(t, w).Rule != c.rule {
			t.Errorf("%q %q: %d %s", c.kind, c.encoding, w.Code, w.Body)
		}
	}
	r := request("POST", "/calls", fullKey, `{}`)
	r.Body = io.NopCloser(brokenReader{})
	if w := h.do(r); w.Code != 400 || problemIn(t, w).Rule != "bad_json" {
		t.Errorf("a body that breaks off: %d %s", w.Code, w.Body)
	}
}

// Whatever is sent, the answer is one that is described, and what is accepted is
// clean.
func FuzzOrder(f *testing.F) {
	for _, seed := range []string{
		`{"to":"+14155550123"}`, `{"to":"sip:a@b","headers":{"X-A":"b"},"context":{"a":"b"},"ring_timeout_seconds":30}`,
		`{"targets":[{"to":"1","trunk":"a"},{"to":"sip:a@b"}],"strategy":"parallel"}`, `{"targets":[{"to":"1"}],"strategy":"x"}`,
		`{"to":"1","to":"2"}`, `{"to":null}`, `{"to":{"a":[[[[]]]]}}`, `{"name":"\u202e"}`, "{\"to\":\"\xff\"}", `{"to":"tel:+1%0d%0a"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var o order
		if err := parseBody(body, &o); err != nil {
			if p := problemOf(err); p.Status != 400 {
				t.Fatalf("%v", err)
			}
			return
		}
		out, err := o.outgoing()
		if err != nil {
			if p := problemOf(err); p.Status != 400 || len(p.Field) > 600 || strings.ContainsAny(p.Field, "\r\n") {
				t.Fatalf("%+v", p)
			}
			return
		}
		texts := []string{out.To, out.From, out.Name, out.Trunk, out.Agent, out.ResourceID}
		for _, t := range out.Targets {
			texts = append(texts, t.To, t.Trunk)
		}
		for k, v := range out.Headers {
			texts = append(texts, k, v)
		}
		for k, v := range out.Context {
			texts = append(texts, k, v)
		}
		for _, s := range texts {
			if strings.ContainsAny(s, "\r\n\x00\x7f\u2028\u202e") {
				t.Fatalf("not clean: %q", s)
			}
		}
		if v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body)); err == nil && len(bytes.TrimSpace(body)) > 0 {
			if err := describe(t).matches("/components/schemas/Order", v); err != nil {
				t.Fatalf("accepted, but not described: %s: %v", body, err)
			}
		}
	})
}

// Strict reading takes nothing that the standard reading would not, and loses
// nothing.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"subject":"a","claims":{"x":1}}`, `{"to":"1","digits":"2","text":"x","on":true}`, `{"claims":{"a":"b","a":"c"}}`, `{}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, v := range []any{&wish{}, &handover{}, &pressed{}, &announcement{}, &recording{}, &nothing{}} {
			if parseBody(body, v) != nil || len(bytes.TrimSpace(body)) == 0 {
				continue
			}
			again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			if err := d.Decode(again); err != nil || !reflect.DeepEqual(v, again) {
				t.Fatalf("%s: %v %v %v", body, err, v, again)
			}
			if w, ok := v.(*wish); ok {
				_, _ = w.check(tokenTime)
			}
		}
	})
}
