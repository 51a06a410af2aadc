package script

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/agent/llm"
)

// head is what most scripts of the tests begin with; it has 4 lines.
const head = `start = "a"
else = "What?"
lost = "a"

`

func TestMistakes(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string // "line: path: text"; all that is wrong, in order
	}{
		{"fine", head + "[[state]]\nname = \"a\"\nsay = \"Hi {name}\"\nexpect = [{ say = \"go\", next = \"a\" }]\n", nil},
		{"not TOML", "start = \"a\"\nfoo bar\n", []string{"2: "}},
		{"wrong type", "start = 5\n", []string{"1: start: "}},
		{"empty", "", []string{" there is no [[state]]"}},
		{"unknown settings", "start = \"a\"\nstarts = 1\n[[state]]\nname = \"a\"\nsay = \"Hi\"\naction = \"hangup\"\nsai = 1\n[state.collekt]\n",
			[]string{"2: starts: there is no such setting", "7: state.sai: there is no such setting", "8: state.collekt: there is no such setting"}},
		{"unknown next", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\nexpect = [\n  { say = \"go\", next = \"a\" },\n  { say = \"stay\", next = \"b\" },\n]\n",
			[]string{`10: state.a.expect.1.next: there is no state "b"`}},
		{"expect as tables", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\n[[state.expect]]\nsay = \"go\"\nnext = \"a\"\n[[state.expect]]\nsay = \"stay\"\nnext = \"b\"\n",
			[]string{`13: state.a.expect.1.next: there is no state "b"`}},
		{"unreachable", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\naction = \"hangup\"\n[[state]]\nname = \"b\"\nsay = \"Hi\"\naction = \"hangup\"\n",
			[]string{"9: state.b: no way leads to it"}},
		{"empty prompts", head + "[[state]]\nname = \"a\"\nsay = [\"Hi\", \" \"]\nnext = \"b\"\n[[state]]\nname = \"b\"\naction = \"hangup\"\n",
			[]string{"7: state.a.say: a text is empty", "9: state.b.say: must say something"}},
		{"duplicates", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\nexpect = [\n  { say = [\"Go!\", \"go\"], key = \"1\", next = \"a\" },\n  { say = \"GO\", key = \"1\", next = \"a\" },\n]\n",
			[]string{`9: state.a.expect.0.say: "go" leads somewhere already`, `10: state.a.expect.1.say: "go" leads somewhere already`, `10: state.a.expect.1.key: "1" leads somewhere already`}},
		{"names", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\nnext = \"a b\"\n[[state]]\nname = \"a b\"\nsay = \"Hi\"\naction = \"hangup\"\n[[state]]\nname = \"a\"\nsay = \"Hi\"\naction = \"hangup\"\n",
			[]string{`8: state.a.next: there is no state "a b"`, `10: state.a b.name: "a b", must be letters`, `14: state.a.name: there is a state "a" already`}},
		{"start and lost", "start = \"x\"\n[[state]]\nname = \"a\"\nsay = \"Hi\"\nexpect = [{ key = \"1\", next = \"a\" }]\n",
			[]string{`1: start: "x", must name the state`, "2: state.a.else: must say what is said when the caller is not understood", "2: state.a.lost: must name a state"}},
		{"facts", head + "[[state]]\nname = \"a\"\nsay = [\"{nam}\", \"{number.end} {n.end}\", \"{\", \"}\"]\ncollect = { as = \"n\", min = 1, max = 2, next = \"a\" }\n",
			[]string{"7: state.a.say: {nam} is nothing that is known; there is {day}, {last_visit}, {n.end}, {name}, {n}, {time}", "7: state.a.say: {number.end} is nothing", `7: state.a.say: "{" has a { that is not closed`, `7: state.a.say: "}" has a } without`}},
		{"collect", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\ncollect = { as = \"time\", min = 3, max = 2 }\nexpect = [{ say = [\"go\", \"twenty one\"], key = \"7\", next = \"a\" }]\n[[state]]\nname = \"b\"\nsay = \"Hi\"\n[state.collect]\nas = \"x y\"\nmin = 1\nmax = 33\nnext = \"a\"\n",
			[]string{`8: state.a.collect.as: "time" has a meaning already`, "8: state.a.collect.next: must name a state", "8: state.a.collect: min 3, max 2", `9: state.a.expect.0.key: "7" is a digit of the number`, `9: state.a.expect.0.say: "twenty one" is a part`, `14: state.b.collect.as: "x y", must be letters`, "13: state.b.collect: min 1, max 33"}},
		{"leads nowhere", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\n", []string{"5: state.a: leads nowhere; give it expect"}},
		{"two ways out", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\nnext = \"a\"\nexpect = [{ say = \"go\", next = \"a\" }]\n", []string{"8: state.a.next: goes on without waiting"}},
		{"actions", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\naction = \"transfer\"\nnext = \"b\"\n[[state]]\nname = \"b\"\nsay = \"Hi\"\naction = \"dance\"\nto = \"x\"\nnext = \"c\"\n[[state]]\nname = \"c\"\nsay = \"Hi\"\naction = \"hangup\"\nnext = \"a\"\nsilent = \"x\"\n",
			[]string{"5: state.a.to: must say where", `13: state.b.action: "dance", must be hangup or transfer`, `14: state.b.to: has a meaning with`, "16: state.c: hangs up, so nothing comes after it", "16: state.c: does not wait for the caller"}},
		{"transfers", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\naction = \"transfer\"\nto = \"operator\"\nnext = \"b\"\n[[state]]\nname = \"b\"\nsay = \"Hi\"\naction = \"transfer\"\nto = \"sip:\"\nnext = \"c\"\n" +
			"[[state]]\nname = \"c\"\nsay = \"Hi\"\naction = \"transfer\"\nto = \"+1 (202) 555-0123\"\nnext = \"d\"\n[[state]]\nname = \"d\"\nsay = \"Hi\"\naction = \"transfer\"\nto = \"sip:desk@example.com\"\nnext = \"e\"\n[[state]]\nname = \"e\"\nsay = \"Hi\"\naction = \"hangup\"\n",
			[]string{`9: state.a.to: "operator", must be a telephone number or a sip: URI`, `15: state.b.to: "sip:", must be`}},
		{"remember", head + "[[state]]\nname = \"a\"\nsay = \"Hi {topic}\"\nremember = { topic = \"x {nothing}\", name = \"y\", calls = \"z\", \"a b\" = \"w\", n = 5 }\naction = \"hangup\"\n",
			[]string{`8: state.a.remember.topic: {nothing} is nothing that is known`, `8: state.a.remember.name: "name" has a meaning already`, `8: state.a.remember.calls: "calls" has a meaning already`,
				`8: state.a.remember.a b: "a b", must be letters`, `8: state.a.remember.n: must be a text, not 5`}},
		{"circle", head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\nnext = \"b\"\n[[state]]\nname = \"b\"\nsay = \"Hi\"\nnext = \"a\"\n",
			[]string{"8: state.a.next: goes round in a circle", "12: state.b.next: goes round"}},
		{"words and keys", "yes = { say = \"yes\", next = \"a\" }\nno = { key = \"x\" }\n" + head + "[[state]]\nname = \"a\"\nsay = \"Hi\"\nexpect = [{ say = [\"?!\", \"a | b\"], next = \"a\" }, { next = \"a\" }, { say = 5, next = \"a\" }]\n",
			[]string{"1: yes.next: leads where", `2: no.key: "x", must be one of`, `10: state.a.expect.0.say: "?!" holds no words`, `10: state.a.expect.0.say: "a | b" holds no words`, "10: state.a.expect.1: needs words to say or a key", "10: state.a.expect.2.say: must be a text or a list of texts, not 5"}},
		{"numbers", "callers = 5\ndigits = [\"null\"]\n" + head + "[[state]]\nname = \"a\"\nsay = [1]\naction = \"hangup\"\n",
			[]string{"1: callers: is no setting any more", "2: digits: must be ten texts", "9: state.a.say: must be a text or a list of texts, not a list with 1"}},
		{"else of a wrong kind", "start = \"a\"\nlost = \"a\"\nelse = 1\n[[state]]\nname = \"a\"\nsay = \"Hi\"\nexpect = [{ say = \"go\", next = \"a\" }]\n",
			[]string{"3: else: must be a text"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse("x.toml", []byte(tt.text))
			if len(tt.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var all Mistakes
			if !errors.As(err, &all) || len(all) != len(tt.want) {
				t.Fatalf("got\n%v\nwant %d mistakes:\n%s", err, len(tt.want), strings.Join(tt.want, "\n"))
			}
			lines := strings.Split(all.Error(), "\n")
			for _, want := range tt.want {
				found := false
				for _, line := range lines {
					found = found || strings.HasPrefix(line, "x.toml:"+want)
				}
				if !found {
					t.Errorf("no mistake %q in\n%v", want, err)
				}
			}
		})
	}
}

func TestNewWithoutAFile(t *testing.T) {
	_, err := New(Config{File: t.TempDir() + "/none.toml"})
	if err == nil || !strings.Contains(err.Error(), "script: cannot read the script") {
		t.Error(err)
	}
	if p, err := New(Config{}); err != nil || p.now().IsZero() {
		t.Error(err)
	}
}

// Other languages bring their own digits.
func TestDigitsOfAnotherLanguage(t *testing.T) {
	p := provider(t, `digits = ["null", "eins", "zwei zwo", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
start = "a"
else = "Wie bitte?"
lost = "b"
[[state]]
name = "a"
say = "Ihre Nummer?"
collect = { as = "n", min = 1, max = 4, next = "b" }
[[state]]
name = "b"
say = ["Danke, {n}.", "Danke."]
action = "hangup"
`)
	k := begin(t, p, ann).says("Ihre Nummer?")
	if !strings.Contains(k.last.Grammar, "<digit> = null | eins | zwei | zwo | drei") {
		t.Error(k.last.Grammar)
	}
	k.hear("Zwo, FÜNF 7").says("Danke, zwei fünf sieben.")
	begin(t, p, ann).hear("for to").says("Wie bitte?").hear("twenty").says("Danke.")
}

func FuzzScript(f *testing.F) {
	f.Add(string(receptionist), "hours|#3|#123#|yes|no|1 2 3|goodbye")
	f.Add(head+"[[state]]\nname = \"a\"\nsay = \"Hi {name}\"\nexpect = [{ say = \"go\", next = \"@back\" }]\n", "go|x|x|")
	f.Add(head+"[[state]]\nname = \"a\"\nsay = \"{n}\"\ncollect = { as = \"n\", min = 1, max = 2, next = \"a\", confirm=\"{n}?\" }\n", "1|twenty one|no|#1|#2")
	f.Add(head+"[[state]]\nname = \"a\"\nsay = \"{n} {n.end}\"\nremember = { n = \"{n} {day}\" }\nexpect = [{ say = \"go\", next = \"@again\" }]\n", "go|x|go|")
	f.Add("a.b.c = [{d = [1, {e = 2}]}]\n[[x.y]]\n[x.y.z]\n[[x.y]]\n", "")
	f.Fuzz(func(t *testing.T, text, turns string) {
		s, err := parse("x.toml", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "x.toml:") {
				t.Fatalf("%v does not say where", err)
			}
			return
		}
		p := &Provider{script: s, now: noonNow}
		known := (&callers{}).of("+1")
		known.Set("user:n", "12")
		m, err := p.Open(t.Context(), llm.Conversation{CallerName: "Ann", Memory: known})
		if err != nil {
			t.Fatal(err)
		}
		out := func(c llm.Chunk) error {
			if !utf8.ValidString(c.Text) || c.Expect != nil && c.Expect.Grammar != "" && c.Expect.MaxDigits < 1 {
				t.Errorf("%+v", c)
			}
			return nil
		}
		if err := m.Greet(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		for turn := range strings.SplitSeq(turns, "|") {
			keys, digits := strings.CutPrefix(turn, "#")
			if err := m.Reply(t.Context(), llm.Turn{Text: keys, Digits: digits, Nothing: turn == ""}, out); err != nil {
				t.Fatal(err)
			}
		}
		m.Close(t.Context(), llm.End{})
	})
}
