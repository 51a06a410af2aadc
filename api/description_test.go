package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"parley/agent"
	"parley/call"
)

var update = flag.Bool("update", false, "write openapi.json")

// description is openapi.yaml, with its schemas compiled.
type description struct {
	doc     map[string]any
	compile func(pointer string) (*jsonschema.Schema, error)
}

// address is what the compiler knows the description by.
const address = "https://parley.invalid/openapi.json"

// described reads the description once for all tests.
var described = sync.OnceValues(func() (*description, error) {
	text, err := asJSON(descriptionYAML)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler() // OpenAPI 3.1's schemas are those of JSON Schema 2020-12
	c.AssertFormat()
	if err := c.AddResource(address, doc); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	return &description{doc: doc.(map[string]any), compile: func(pointer string) (*jsonschema.Schema, error) {
		mu.Lock()
		defer mu.Unlock()
		return c.Compile(address + "#" + pointer)
	}}, nil
})

// asJSON is YAML as JSON.
func asJSON(text []byte) ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	return json.MarshalIndent(doc, "", " ")
}

func describe(t testing.TB) *description {
	t.Helper()
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// at is the node at a JSON pointer, with references followed, and where it is then.
func (d *description) at(pointer string) (node any, where string) {
	node = d.doc
	for _, step := range strings.Split(pointer, "/")[1:] {
		m, _ := node.(map[string]any)
		node = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		where += "/" + step
		for {
			m, _ := node.(map[string]any)
			ref, ok := m["$ref"].(string)
			if !ok || len(m) > 1 { // a schema with words of its own beside the reference
				break
			}
			node, where = d.at(strings.TrimPrefix(ref, "#"))
		}
	}
	return node, where
}

// text is the text at a JSON pointer, "" when there is none.
func (d *description) text(pointer string) string {
	node, _ := d.at(pointer)
	s, _ := node.(string)
	return s
}

// names are the names in the object at a JSON pointer, sorted.
func (d *description) names(pointer string) []string {
	node, _ := d.at(pointer)
	m, _ := node.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

// escaped is s as a step of a JSON pointer.
func escaped(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// operations are those of the description: "GET /calls" to where it stands.
func (d *description) operations() map[string]string {
	out := map[string]string{}
	for _, path := range d.names("/paths") {
		for _, method := range d.names("/paths/" + escaped(path)) {
			if method != "parameters" {
				out[strings.ToUpper(method)+" "+path] = "/paths/" + escaped(path) + "/" + method
			}
		}
	}
	return out
}

// matches holds a value against the schema at a JSON pointer.
func (d *description) matches(pointer string, v any) error {
	schema, err := d.compile(pointer)
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// answered holds an answer against the description.
func (d *description) answered(operation string, w *http.Response, body []byte) error {
	at, ok := d.operations()[operation]
	if !ok {
		return fmt.Errorf("%s is not described", operation)
	}
	node, where := d.at(at + "/responses/" + strconv.Itoa(w.StatusCode))
	if node == nil {
		return fmt.Errorf("%s: the status %d is not described", operation, w.StatusCode)
	}
	for _, name := range d.names(where + "/headers") {
		_, header := d.at(where + "/headers/" + name)
		value := w.Header.Get(name)
		if required, _ := d.at(header + "/required"); value == "" {
			if required == true {
				return fmt.Errorf("%s: %d: there is no header field %s", operation, w.StatusCode, name)
			}
			continue
		}
		var v any = value
		if d.text(header+"/schema/type") == "integer" {
			v = json.Number(value)
		}
		if err := d.matches(header+"/schema", v); err != nil {
			return fmt.Errorf("%s: %d: %s: %w", operation, w.StatusCode, name, err)
		}
	}
	kinds := d.names(where + "/content")
	if len(kinds) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("%s: %d: a body is not described: %s", operation, w.StatusCode, body)
		}
		return nil
	}
	kind, _, _ := strings.Cut(w.Header.Get("Content-Type"), ";")
	if !slices.Contains(kinds, kind) {
		return fmt.Errorf("%s: %d: %q is not described, only %v", operation, w.StatusCode, kind, kinds)
	}
	var v any = string(body)
	if strings.HasSuffix(kind, "json") {
		var err error
		if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(body)); err != nil {
			return err
		}
	}
	return d.matches(where+"/content/"+escaped(kind)+"/schema", v)
}

// The description is what OpenAPI 3.1 wants: its references lead somewhere, its
// schemas can be compiled, its names are unique, its paths' parameters are there.
func TestDescriptionIsOpenAPI(t *testing.T) {
	d := describe(t)
	if d.text("/openapi") != "3.1.0" || d.text("/info/title") == "" || d.text("/info/version") == "" {
		t.Error("it does not say what it is")
	}
	for _, name := range d.names("/components/schemas") {
		if _, err := d.compile("/components/schemas/" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	ids := map[string]bool{}
	for key, at := range d.operations() {
		id := d.text(at + "/operationId")
		if id == "" || ids[id] || d.text(at+"/summary") == "" || len(d.names(at+"/responses")) == 0 {
			t.Errorf("%s: needs an operationId of its own, a summary and responses", key)
		}
		ids[id] = true
		for _, code := range d.names(at + "/responses") {
			_, where := d.at(at + "/responses/" + code)
			if d.text(where+"/description") == "" {
				t.Errorf("%s: %s: needs a description", key, code)
			}
			for _, kind := range d.names(where + "/content") {
				if _, err := d.compile(where + "/content/" + escaped(kind) + "/schema"); err != nil {
					t.Errorf("%s: %s: %v", key, code, err)
				}
			}
		}
		if path := at[:strings.LastIndex(at, "/")]; strings.Contains(key, "{id}") {
			node, _ := d.at(path + "/parameters")
			list, _ := node.([]any)
			if len(list) != 1 || !reflect.DeepEqual(list[0], map[string]any{"$ref": "#/components/parameters/id"}) {
				t.Errorf("%s: {id} is not described", key)
			}
		}
	}
	eachReference(d.doc, func(ref string) {
		if node, _ := d.at(strings.TrimPrefix(ref, "#")); node == nil {
			t.Errorf("%s leads nowhere", ref)
		}
	})
}

func eachReference(node any, tell func(string)) {
	switch n := node.(type) {
	case map[string]any:
		for name, v := range n {
			if ref, ok := v.(string); ok && name == "$ref" {
				tell(ref)
			}
			eachReference(v, tell)
		}
	case []any:
		for _, v := range n {
			eachReference(v, tell)
		}
	}
}

func TestDescriptionsAgree(t *testing.T) {
	text, err := asJSON(descriptionYAML)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile("openapi.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, descriptionJSON) {
		t.Error("openapi.json is not openapi.yaml: go test ./api -run TestDescriptionsAgree -update")
	}
}

func TestEveryRouteIsDescribedAndTheReverse(t *testing.T) {
	h := newHarness(t, nil)
	d := describe(t)
	ops := d.operations()
	for _, r := range h.server.routes() {
		key := r.method + " " + r.path
		at, ok := ops[key]
		if !ok {
			t.Errorf("%s is not described", key)
			continue
		}
		delete(ops, key)
		if id := d.text(at + "/operationId"); id != r.name {
			t.Errorf("%s: operationId %s, the route is %s", key, id, r.name)
		}
		if r.scope != "" && !strings.Contains(d.text(at+"/description"), "Needs the scope "+r.scope+".") {
			t.Errorf("%s: the description does not name the scope %s", key, r.scope)
		}
		if node, _ := d.at(at + "/security"); (node != nil) != r.public {
			t.Errorf("%s: described as public: %v, it is %v", key, node != nil, r.public)
		}
	}
	for key := range ops {
		t.Errorf("%s is described and not there", key)
	}
}

// The fields of what is sent and read are those described.
func TestEveryFieldIsDescribedAndTheReverse(t *testing.T) {
	d := describe(t)
	for name, v := range map[string]any{
		"Call": call.Status{}, "Attempt": call.Attempt{}, "Stats": call.Stats{}, "Trunk": Trunk{}, "Event": agent.Event{}, "Ending": ending{}, "Problem": problem{},
		"Order": order{}, "Transfer": handover{}, "Digits": pressed{}, "Nothing": nothing{}, "Announcement": announcement{}, "Recording": recording{}, "TokenOrder": wish{},
	} {
		if node, _ := d.at("/components/schemas/" + name); node == nil {
			t.Errorf("%s is not described", name)
			continue
		}
		told := d.names("/components/schemas/" + name + "/properties")
		var there []string
		typ := reflect.TypeOf(v)
		for i := range typ.NumField() {
			tag, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if typ.Field(i).IsExported() && tag != "-" {
				there = append(there, tag)
			}
		}
		slices.Sort(there)
		if !slices.Equal(told, there) {
			t.Errorf("%s: described are\n%v, there are\n%v", name, told, there)
		}
	}
}

// Every type of event, state and trunk state there is, is described.
func TestEveryNameIsDescribed(t *testing.T) {
	d := describe(t)
	enum := func(schema, property string) (out []string) {
		node, _ := d.at("/components/schemas/" + schema + property + "/enum")
		list, _ := node.([]any)
		for _, v := range list {
			out = append(out, v.(string))
		}
		return out
	}
	if got := enum("State", ""); !slices.Equal(got, states()) {
		t.Errorf("states: %v", got)
	}
	if got := enum("Trunk", "/properties/state"); !slices.Equal(got, []string{TrunkRegistering, TrunkRegistered, TrunkFailed, TrunkClosed, TrunkUnregistered}) {
		t.Errorf("states of trunks: %v", got)
	}
	got := enum("Event", "/properties/type")
	source, err := os.ReadFile("../agent/event.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(source)) {
		if _, value, ok := strings.Cut(line, ` EventType = "`); ok {
			if value = strings.TrimSuffix(strings.TrimSpace(value), `"`); !slices.Contains(got, value) {
				t.Errorf("the event %s is not described", value)
			}
		}
	}
	for _, topic := range streamTopics() {
		if !strings.Contains(string(descriptionYAML), topic) {
			t.Errorf("the topic %s is not described", topic)
		}
	}
}

// harness is a Server whose answers are compared with the description.
type harness struct {
	t       testing.TB
	calls   *fakeCalls
	server  *Server
	handler http.Handler
	seen    map[string]bool // "GET /calls 200"
}

// The keys of a harness.
var (
	fullKey  = strings.Repeat("full", 8)
	readKey  = strings.Repeat("read", 8)
	writeKey = strings.Repeat("writ", 8)
)

// newHarness makes a Server with keys and a fake; change may change its
// configuration and parts.
func newHarness(t testing.TB, change func(*Config, *Parts)) *harness {
	t.Helper()
	cfg := DefaultConfig()
	cfg.RatePerSecond, cfg.RateBurst = 1, 1000
	cfg.Keys = []Key{
		{Name: "full", Secret: fullKey},
		{Name: "read", Secret: readKey, Scopes: []string{ScopeRead}},
		{Name: "write", Secret: writeKey, Scopes: []string{ScopeWrite}},
	}
	f := newFake()
	p := Parts{Ready: func() error { return nil }, Metrics: NewMetrics(Sources{}), Calls: f}
	if change != nil {
		change(&cfg, &p)
	}
	s, err := New(cfg, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return &harness{t: t, calls: f, server: s, handler: s.Handler(), seen: map[string]bool{}}
}

// request makes a request as a client does. A body makes it JSON.
func request(method, path, key, body string) *http.Request {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, reader)
	r.RemoteAddr = "127.0.0.1:50000"
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// do answers r and holds the answer against the description.
func (h *harness) do(r *http.Request) *httptest.ResponseRecorder {
	h.t.Helper()
	w := newRecorder()
	h.handler.ServeHTTP(w, r)
	h.check(r, w.ResponseRecorder)
	return w.ResponseRecorder
}

// ask is do for what needs no header fields.
func (h *harness) ask(method, path, key, body string) *httptest.ResponseRecorder {
	h.t.Helper()
	return h.do(request(method, path, key, body))
}

// check holds an answer against the description.
func (h *harness) check(r *http.Request, w *httptest.ResponseRecorder) {
	h.t.Helper()
	if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		h.t.Errorf("%s %s: may be cached or guessed at: %v", r.Method, r.URL, w.Header())
	}
	if w.Code == http.StatusMethodNotAllowed || r.Pattern == "/" || r.Method == http.MethodHead {
		return // no operations
	}
	_, path, _ := strings.Cut(r.Pattern, " ")
	h.seen[r.Method+" "+path+" "+http.StatusText(w.Code)] = true
	if err := describe(h.t).answered(r.Method+" "+path, w.Result(), w.Body.Bytes()); err != nil {
		h.t.Errorf("%s: not as described: %v\n%s", r.URL, err, w.Body)
	}
	if w.Code >= 400 && w.Header().Get("Content-Type") == "application/problem+json" {
		var p problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Title != http.StatusText(w.Code) || p.Type != "urn:parley:problem:"+p.Rule {
			h.t.Errorf("%s %s: %v %+v", r.Method, r.URL, err, p)
		}
	}
}

// problemIn is the problem that an answer holds.
func problemIn(t testing.TB, w *httptest.ResponseRecorder) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return p
}

// body is a request's body.
func body(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }
