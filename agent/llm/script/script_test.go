package script

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/agent/llm"
)

// A Tuesday.
var noon = time.Date(2026, 3, 3, 12, 5, 0, 0, time.UTC)

func provider(t *testing.T, text string) *Provider {
	t.Helper()
	cfg := Config{Now: func() time.Time { return noon }}
	if text != "" {
		cfg.File = filepath.Join(t.TempDir(), "test.toml")
		if err := os.WriteFile(cfg.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// talk is a conversation that is checked step by step.
type talk struct {
	*testing.T
	model llm.Model
	last  llm.Expect
	text  string
	acts  string
}

func begin(t *testing.T, p *Provider, c llm.Conversation) *talk {
	t.Helper()
	m, err := p.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	k := &talk{T: t, model: m}
	k.take(func(out func(llm.Chunk) error) error { return m.Greet(t.Context(), out) })
	return k
}

func (k *talk) take(f func(func(llm.Chunk) error) error) {
	k.Helper()
	k.text, k.acts = "", ""
	expects := 0
	err := f(func(c llm.Chunk) error {
		k.text += c.Text
		if c.Expect != nil {
			k.last = *c.Expect
			expects++
		}
		if c.Action != nil {
			k.acts += string(c.Action.Kind) + " " + c.Action.To
		}
		return nil
	})
	if err != nil || expects != 1 {
		k.Fatalf("%v, %d expectations", err, expects)
	}
}

// says checks that the last reply has words in it.
func (k *talk) says(words ...string) *talk {
	k.Helper()
	for _, w := range words {
		if !strings.Contains(k.text, w) {
			k.Errorf("said %q, want %q in it", k.text, w)
		}
	}
	return k
}

func (k *talk) turn(t llm.Turn) *talk {
	k.Helper()
	k.take(func(out func(llm.Chunk) error) error { return k.model.Reply(k.Context(), t, out) })
	return k
}

func (k *talk) hear(words string) *talk { k.Helper(); return k.turn(llm.Turn{Text: words}) }
func (k *talk) key(keys string) *talk   { k.Helper(); return k.turn(llm.Turn{Text: keys, Digits: true}) }

var ann = llm.Conversation{ResourceID: "+15550100", CallerName: "Ann Lee"}

func TestReceptionistByVoice(t *testing.T) {
	p := provider(t, "")
	k := begin(t, p, ann).says("Hello Ann Lee, and welcome", "You can say hours")
	k.hear("Um, the opening hours, please!").says("Monday to Friday", "12:05 PM on Tuesday", "anything else")
	k.hear("where are you").says("Harbor Street")
	k.hear("order number").says("one digit at a time")
	k.hear("four two zero one seven").says("I heard four two zero one seven. Is that right?")
	k.hear("no").says("Please say your order number")
	k.hear("it is 4, 2, oh, twenty one").says("I heard four two zero two one")
	k.hear("correct").says("ends in two zero two one is ready", "anything else")
	k.hear("help").says("a machine that follows a script")
	k.hear("go back").says("anything else")
	k.hear("Good. Goodbye!").says("Thank you for calling, Ann Lee. Goodbye.")
	if k.acts != "hangup " {
		t.Errorf("actions %q", k.acts)
	}
}

func TestReceptionistByKeys(t *testing.T) {
	k := begin(t, provider(t, ""), llm.Conversation{}).says("Hello, and welcome")
	if k.last.MaxDigits != 1 {
		t.Errorf("%d digits at the most, want 1", k.last.MaxDigits)
	}
	k.key("1").says("Monday to Friday").key("2").says("Harbor Street").key("*").says("anything else")
	k.key("3").says("then press pound")
	if k.last.MaxDigits != 8 {
		t.Errorf("%d digits at the most, want 8", k.last.MaxDigits)
	}
	k.key("4711#").says("I heard four seven one one")
	if k.last.MaxDigits != 1 {
		t.Errorf("%d digits at the most, want 1", k.last.MaxDigits)
	}
	k.key("2").says("Please say your order number")
	k.key("12#").says("three to eight digits")
	k.key("*").says("Please say your order number")
	k.key("4712").key("1").says("is ready")
	k.key("0").says("a machine").key("1").says("anything else")
	k.key("4").says("connect you", "I am still here")
	if k.acts != "" { // there is no number to transfer to
		t.Errorf("actions %q", k.acts)
	}
	k.key("1").says("Monday").key("9#").says("Goodbye")
	if k.acts != "hangup " {
		t.Errorf("actions %q", k.acts)
	}
	k.hear("wait").says("Goodbye") // into the goodbye
	if k.acts != "hangup " {
		t.Errorf("actions %q", k.acts)
	}
}

// What human recordings exist of leads through the whole dialogue.
func TestReceptionistByWordsThatAreRecorded(t *testing.T) {
	k := begin(t, provider(t, ""), llm.Conversation{})
	k.hear("hello").says("You can say hours").hear("hours").says("Monday").hear("location").says("Harbor")
	k.hear("telephone number").hear("one two three").says("I heard one two three").hear("two").says("Please say")
	k.hear("one two three").hear("one").says("is ready").hear("transfer").says("connect you").hear("number")
	k.hear("one two three").hear("one").hear("one moment please").says("anything else").hear("no").says("Goodbye")
}

// Who pauses in a number is not sent where its first digit leads elsewhere.
func TestDigitsOfANumberLeadNowhere(t *testing.T) {
	k := begin(t, provider(t, ""), ann)
	k.key("3").key("9").says("Sorry, I need a number")
	k.hear("four nine").says("I did not get a number")
	if strings.Contains(k.last.Grammar, "| nine |") || strings.Contains(k.last.Grammar, "| four;") {
		t.Errorf("a digit is a phrase: %s", k.last.Grammar)
	}
	k.hear("goodbye").says("Goodbye")
}

func TestNotUnderstood(t *testing.T) {
	k := begin(t, provider(t, ""), ann)
	k.hear("mumble").says("Sorry, I did not catch that")
	k.turn(llm.Turn{Nothing: true}).says("Are you still there?")
	k.turn(llm.Turn{Nothing: true, Garbled: true}).says("I still did not understand")
	k.key("7").says("connect you", "I am still here")
	k.hear("x").says("Sorry").hear("x").says("still").hear("x").says("Goodbye")

	k = begin(t, provider(t, ""), ann)
	k.key("3").hear("one two three four").says("I heard one two three four")
	k.hear("maybe").says("Sorry, I need a number", "I heard one two three four. Is that right?")
	k.turn(llm.Turn{Nothing: true}).says("I heard one two three four")
	k.hear("repeat").says("I heard one two three four")
	k.hear("no it is four three two one").says("I heard four three two one")
	k.hear("no").says("Please say your order number")
	k.hear("5 5 5").hear("no").says("connect you")
}

// A reply that was cut off before a word of it was taken never was.
func TestReplyThatNeverWas(t *testing.T) {
	k := begin(t, provider(t, ""), ann)
	stop := errors.New("stop")
	if err := k.model.Reply(t.Context(), llm.Turn{Text: "hours"}, func(llm.Chunk) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.model.Reply(ctx, llm.Turn{Text: "order number"}, func(llm.Chunk) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	k.hear("repeat").says("You can say hours")
	if _, err := provider(t, "").Open(ctx, ann); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestGrammar(t *testing.T) {
	k := begin(t, provider(t, ""), ann)
	for _, want := range []string{"#JSGF V1.0;\ngrammar menu;\n", "public <reply> = hours | opening hours | when are you open | location", "| goodbye |"} {
		if !strings.Contains(k.last.Grammar, want) {
			t.Errorf("%s\nlacks %q", k.last.Grammar, want)
		}
	}
	k.hear("order number")
	for _, want := range []string{"<digit> = zero | oh | one | two | three | four | five | six | seven | eight | nine;\n", "public <reply> = <digit>+ | cancel | go back | goodbye"} {
		if !strings.Contains(k.last.Grammar, want) {
			t.Errorf("%s\nlacks %q", k.last.Grammar, want)
		}
	}
	k.hear("one two three")
	if want := "grammar order_confirm;\npublic <reply> = yes | correct |"; !strings.Contains(k.last.Grammar, want) {
		t.Errorf("%s\nlacks %q", k.last.Grammar, want)
	}
}

// Each choice of the receptionist can be keyed in, but for other words for one.
func TestReceptionistOffersKeys(t *testing.T) {
	p := provider(t, "")
	for _, n := range p.script.nodes {
		for _, o := range n.options {
			if o.key == "" && !o.again && n.collect == nil && o.target.action == nil {
				t.Errorf("%s: %v has no key", n.name, o.phrases)
			}
		}
	}
}

func TestDeployedReceptionistIsTheBuiltIn(t *testing.T) {
	deployed, err := os.ReadFile("../../../deploy/receptionist.toml")
	if err != nil {
		t.Fatal(err)
	}
	if string(deployed) != string(Receptionist()) {
		t.Error("deploy/receptionist.toml and agent/llm/script/receptionist.toml differ; copy one over the other")
	}
}

// The embedded recogniser knows the words of its dictionary, and no others.
func TestReceptionistSpeaksWordsOfTheDictionary(t *testing.T) {
	dict, err := os.ReadFile("/usr/share/pocketsphinx/model/en-us/cmudict-en-us.dict")
	if err != nil {
		t.Skip("no dictionary of pocketsphinx here: ", err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(dict)) {
		word, _, _ := strings.Cut(line, " ")
		known[word] = true
	}
	p := provider(t, "")
	for _, n := range p.script.nodes {
		for _, e := range []llm.Expect{n.expect, n.confirm} {
			for _, w := range strings.Fields(strings.Join(e.Phrases, " ")) {
				if !known[w] {
					t.Errorf("%s: %q is not in the dictionary", n.name, w)
				}
			}
		}
	}
}
