package script

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent/llm"
)

// callers is what is kept of callers, as whoever records calls keeps it.
type callers struct {
	mu sync.Mutex
	by map[string]map[string]any
}

// of is the memory of a call of somebody.
func (c *callers) of(who string) *known {
	if c.by == nil {
		c.by = map[string]map[string]any{}
	}
	if c.by[who] == nil || who == "" {
		c.by[who] = map[string]any{}
	}
	return &known{c, c.by[who]}
}

// ended is what is kept when a call is over.
func (c *callers) ended(who string, at time.Time) {
	m := c.of(who)
	n, _ := m.values[userCalls].(float64)
	m.values[userCalls], m.values[lastCall] = n+1, at.UTC().Format(time.RFC3339)
}

type known struct {
	c      *callers
	values map[string]any
}

func (k *known) Get(key string) (any, bool) {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	v, ok := k.values[key]
	return v, ok
}

func (k *known) Set(key string, value any) {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	k.values[key] = value
}

func (k *known) Keys(prefix string) []string {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(k.values)), func(key string) bool { return !strings.HasPrefix(key, prefix) })
}

func TestCallersAreRemembered(t *testing.T) {
	var c callers
	p := provider(t, "")
	call := func(who, name string) *talk {
		return begin(t, p, llm.Conversation{ResourceID: who, CallerName: name, Memory: c.of(who)})
	}
	for _, who := range []string{"+15550100", ""} {
		k := call(who, "Ann Lee").says("welcome to the Parley")
		k.key("3").key("99123#").key("1").says("is ready")
		c.ended(who, noon)
	}
	call("+15550100", "Ann Lee").says("Welcome back. You called earlier today. Your order number ends in nine one two three.", "You can say hours")
	call("+15550101", "").says("Hello, and welcome")
	call("", "").says("Hello, and welcome")
	begin(t, p, llm.Conversation{ResourceID: "+15550100"}).says("Hello, and welcome") // nothing is kept

	p.now = func() time.Time { return noon.AddDate(0, 0, 1) }
	call("+15550100", "").says("You called yesterday.")
	call("+1", "")
	c.ended("+1", p.now())
	call("+1", "").says("Welcome back. You called earlier today. You can say").key("1").says("Monday")
	c.ended("+1", p.now())
	call("+1", "").says("Welcome back. You called earlier today, and asked for our hours.").key("2")
	c.ended("+1", p.now())
	call("+1", "").says("asked for our location.")
}

// What a state remembers may hold facts; a text whose facts are not known leaves what
// was remembered as it is. What others kept is cleaned before it is said.
func TestWhatStatesRemember(t *testing.T) {
	const text = `start = "a"
else = "What?"
lost = "z"
[[state]]
name = "a"
say = ["Plan {plan}, seen {seen}.", "No plan."]
expect = [{ say = "gold", key = "1", next = "b" }, { say = "stop", key = "9", next = "z" }]
[[state]]
name = "b"
say = ["You had {plan}.", "You had none."]
remember = { plan = "gold of {name}", seen = "{day} {number}" }
next = "c"
[[state]]
name = "c"
say = "Now {plan}. Your number?"
collect = { as = "number", min = 1, max = 4, next = "d" }
[[state]]
name = "d"
say = "Thanks."
remember = { seen = "{day} {number}" }
next = "a"
[[state]]
name = "z"
say = "Bye."
action = "hangup"
`
	var c callers
	m := c.of("+1")
	p := provider(t, text)
	ann := llm.Conversation{ResourceID: "+1", CallerName: "Ann", Memory: m}
	k := begin(t, p, ann).says("No plan.")
	k.key("1").says("You had none. Now gold of Ann. Your number?")
	if got := m.Keys("user:"); len(got) != 1 || m.values["user:plan"] != "gold of Ann" {
		t.Errorf("kept %v", m.values)
	}
	k.key("42").says("Thanks. Plan gold of Ann, seen Tuesday 42.")
	if m.values["user:seen"] != "Tuesday 42" || m.values["user:number"] != nil {
		t.Errorf("kept %v", m.values)
	}
	begin(t, p, ann).says("Plan gold of Ann, seen Tuesday 42.")
	m.Set("user:plan", "a\r\nb\x1b "+strings.Repeat("x", 500))
	m.Set("user:seen", 7.0) // somebody else's
	k = begin(t, p, ann)
	k.says("No plan.").key("1").says("You had a b x")
	if len(k.text) > 300 || strings.ContainsAny(k.text, "\r\n\x1b") {
		t.Errorf("said %q", k.text)
	}
}

func TestLastCallOfAnyKind(t *testing.T) {
	for _, c := range []struct {
		values map[string]any
		want   string
	}{
		{map[string]any{userCalls: 1.0}, "Welcome back"},
		{map[string]any{userCalls: 0.0}, "Hello"},
		{map[string]any{userCalls: "x", lastCall: 5}, "Hello"},
		{map[string]any{lastCall: noon.AddDate(0, 0, -3).Format(time.RFC3339)}, "You called 3 days ago"},
		{map[string]any{lastCall: "yesterday"}, "Hello"},
	} {
		begin(t, provider(t, ""), llm.Conversation{Memory: &known{&callers{}, c.values}}).says(c.want)
	}
}
