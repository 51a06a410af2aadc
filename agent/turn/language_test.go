package turn

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// tags are the languages that come with the program.
var tags = []string{"de", "en", "es", "fr", "hi", "it", "ja", "nl", "pt", "zh"}

func TestLanguagesAreWhole(t *testing.T) {
	all, err := languages()
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags {
		text, err := languageFiles.ReadFile("languages/" + tag + ".toml")
		if err != nil {
			t.Fatal(err)
		}
		l, err := ParseLanguage(tag, text)
		if err != nil {
			t.Fatal(err)
		}
		for name, list := range map[string][]string{
			"backchannels": l.Backchannels, "commands": l.Commands, "yes": l.Yes, "no": l.No,
			"digits": l.Digits, "spelling": l.Spelling, "sentence_ends": l.SentenceEnds,
		} {
			if low := map[string]int{"backchannels": 30, "commands": 30, "yes": 8, "no": 8, "digits": 10, "spelling": 5, "sentence_ends": 3}[name]; len(list) < low {
				t.Errorf("%s: only %d %s", tag, len(list), name)
			}
			for i, p := range list {
				if slices.Index(list, p) < i {
					t.Errorf("%s: %q is there twice in %s", tag, p, name)
				}
			}
		}
		// No word means two things that contradict each other.
		for _, p := range append(slices.Clone(l.Commands), l.No...) {
			if all[tag].listens(p) {
				t.Errorf("%s: %q stops the agent and does not", tag, p)
			}
		}
		for _, p := range append(slices.Clone(l.Backchannels), l.Yes...) {
			if all[tag].commanding(p) {
				t.Errorf("%s: %q does not stop the agent and does", tag, p)
			}
		}
	}
	if len(all) != len(tags) {
		t.Errorf("%d languages, %d are tested", len(all), len(tags))
	}
}

func TestWordsOfLanguages(t *testing.T) {
	for _, c := range []struct {
		tag                string
		listens, interrupt []string
	}{
		{"en", []string{"Mm-hmm.", "MMMM", "uh huh", "Okay, okay.", "Yeah... right!", "I see", "o.k.", "yes", "that’s right", "ＯＫ"},
			[]string{"stop", "No.", "Wait, please", "could I speak to an operator", "hold on a second"}},
		{"de", []string{"Mhm", "ja, ja, genau", "Alles klar!", "achso"}, []string{"Stopp!", "Nein", "einen Moment bitte", "warten Sie mal"}},
		{"fr", []string{"D’accord", "oui oui", "ah bon ?", "hummm"}, []string{"Attendez !", "non merci", "un instant", "excusez-moi"}},
		{"es", []string{"Ajá", "¡Claro que sí!", "vale, vale"}, []string{"¡Espere!", "no", "un segundo por favor"}},
		{"pt", []string{"Aham", "tá bom", "é, é"}, []string{"Pare!", "só um minuto", "não"}},
		{"it", []string{"Sì, sì", "va bene", "ho capito"}, []string{"Aspetti!", "no grazie", "un attimo"}},
		{"nl", []string{"Ja hoor", "oké, prima", "Mhm"}, []string{"Wacht even!", "nee", "stop maar"}},
		{"hi", []string{"हाँ जी", "ठीक है, ठीक है।", "अच्छा", "हम्म"}, []string{"रुकिए!", "नहीं", "एक मिनट रुको"}},
		{"zh-CN", []string{"嗯嗯", "好的，好的。", "我知道了", "是的"}, []string{"等一下！", "停", "请转人工", "不对"}},
		{"ja-JP", []string{"はい、はい。", "うん", "なるほどね", "へー", "そうですか"}, []string{"ちょっと待って！", "いいえ", "ストップ"}},
	} {
		x := lexiconFor(c.tag)
		for _, text := range c.listens {
			if !x.listens(text) {
				t.Errorf("%s: %q is a backchannel", c.tag, text)
			}
			if x.commanding(text) {
				t.Errorf("%s: %q is no command", c.tag, text)
			}
		}
		for _, text := range c.interrupt {
			if x.listens(text) || !x.commanding(text) {
				t.Errorf("%s: %q is a command", c.tag, text)
			}
		}
	}
	for tag, text := range map[string]string{"en": "I want a table", "de": "ja aber ich will", "zh": "好的我要订位", "ja": "はい予約したい", "xx": "okay", "": "ja"} {
		if lexiconFor(tag).listens(text) {
			t.Errorf("%s: %q is no backchannel", tag, text)
		}
	}
	if !lexiconFor("EN_us").listens("okay") || !lexiconFor("yue-HK").listens("好") {
		t.Error("a tag is not understood")
	}
	if lexiconFor("en").listens(strings.Repeat("ok ", 100)) {
		t.Error("a hundred words are more than a backchannel")
	}
}

func TestWhoGivesDigits(t *testing.T) {
	for _, c := range []struct {
		tag, text    string
		asked, gives bool
	}{
		{"en", "four one five", false, true},
		{"en", "my number is 415", false, true},
		{"en", "my number is four", true, true},
		{"en", "a table for two", false, false},
		{"en", "at eight", false, false},
		{"en", "two", false, false},
		{"en", "two zero", false, true},
		{"en", "double oh", false, true},
		{"en", "Smith, S M I", false, true},
		{"en", "b as in bravo", false, true},
		{"en", "john dot", false, true},
		{"en", "I", false, false},
		{"en", "", true, false},
		{"en", "hello there", true, false},
		{"de", "null eins sieben", false, true},
		{"de", "B wie Berta", false, true},
		{"de", "um acht", false, false},
		{"fr", "zéro six douze", false, true},
		{"es", "dos de la tarde", false, false},
		{"hi", "नौ आठ सात", false, true},
		{"zh", "一三八", false, true},
		{"ja", "ゼロ九ゼロ", false, true},
		{"zh", "我要一个位子", false, false},
		{"xx", "1 2 3", false, true},
	} {
		if got := lexiconFor(c.tag).gives(c.text, c.asked); got != c.gives {
			t.Errorf("%s: %q, asked %v: %v", c.tag, c.text, c.asked, got)
		}
	}
	if n := lexiconFor("en").count("it is 41 five and double two, thanks"); n != 5 {
		t.Errorf("counted %d digits", n)
	}
}

func TestSentenceEndsOfLanguages(t *testing.T) {
	for _, c := range []struct {
		tag, text string
		ends      bool
	}{
		{"ja", "予約したいです", true}, {"ja", "予約", false}, {"zh", "可以吗", true}, {"hi", "ठीक है।", true}, {"en", "well…", false}, {"en", "well...", false},
		{"en", "Is it?", true}, {"en", strings.Repeat("a", 1000) + ".", true}, {"en", "ok。", true},
	} {
		if got := lexiconFor(c.tag).endsSentence(c.text); got != c.ends {
			t.Errorf("%s: %q: %v", c.tag, tail(c.text, 20), got)
		}
	}
}

func TestALanguageSaysWhatIsWrongWithIt(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a list that there is not": {"backchannels = [\"a\"]\ncomands = []\n", "x.toml:2: there is no list \"comands\""},
		"no TOML":                  {"backchannels = [\n\"a\",\n", "x.toml:"},
		"no list":                  {"digits = 3\n", "x.toml:1: "},
		"no word":                  {"commands = [\"stop\", \"...\"]", `commands: item 2, "...", has no word`},
		"too long":                 {"yes = [\"" + strings.Repeat("a", 65) + "\"]", "yes: item 1 is longer than 64 bytes"},
		"too many words":           {"no = [\"a b c d e f g h i\"]", "has more than 8 words"},
		"an empty end":             {"sentence_ends = [\".\", \" \"]", "sentence_ends: item 2"},
		"too many":                 {"digits = [" + strings.Repeat("\"a\",", 2001) + "]", "2001 phrases"},
		"too large":                {strings.Repeat("# more\n", 200_000), "must be at most 1048576"},
	} {
		if _, err := ParseLanguage("x.toml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "turn: x.toml") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzParseLanguage(f *testing.F) {
	for _, tag := range tags {
		text, err := languageFiles.ReadFile("languages/" + tag + ".toml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("commands = [\"stop\"]\n[x]\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLanguage("x", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "turn: x") {
				t.Errorf("an error without its place: %v", err)
			}
			return
		}
		x := newLexicon(l)
		for _, p := range l.Backchannels {
			if len(p) < maxListening && !x.listens(p) && len(stretched(fold(p, maxPhrase))) > 0 {
				t.Errorf("%q is not found again", p)
			}
		}
		for _, p := range l.Commands {
			if !x.commanding(p) {
				t.Errorf("%q is not found again", p)
			}
		}
	})
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{"Mm-hmm, okay", "stop!", "four one five", "等一下", "はい、へー", "ठीक है", "\xff\xfe", "ＯＫ", "b as in bravo", strings.Repeat("ok ", 500)} {
		f.Add(s, uint8(len(s)))
	}
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		x := lexiconFor(tags[int(n)%len(tags)])
		listens := x.listens(text)
		x.commanding(text)
		x.gives(text, n%2 == 0)
		x.count(text)
		x.endsSentence(text)
		if listens && utf8.ValidString(text) && !x.listens(strings.ToUpper(text)) && strings.EqualFold(strings.ToUpper(text), text) {
			t.Errorf("%q is a backchannel only as it is", text)
		}
		for _, w := range fold(text, maxLook) {
			if w == "" || !utf8.ValidString(w) {
				t.Errorf("%q has the word %q", text, w)
			}
		}
		if len(tail(text, int(n))) > int(n) {
			t.Errorf("the end of %q is longer than %d", text, n)
		}
	})
}

// An interim comes ten times a second; what it costs must not grow with the turn.
func BenchmarkWords(b *testing.B) {
	x := lexiconFor("en")
	long := strings.Repeat("four one five and something else ", 500)
	for name, text := range map[string]string{"a backchannel": "mm-hmm, okay", "a sentence": "I would like to book a table for two at eight", "a long turn": long} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				x.listens(text)
				x.commanding(text)
				x.gives(text, true)
				x.count(text)
				x.endsSentence(text)
			}
		})
	}
}
