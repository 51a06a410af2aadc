package turn

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
)

// Language is what turn taking has to know of a language: words and phrases, in any
// spelling. Case, punctuation and the width of letters do not matter.
type Language struct {
	// Backchannels are what somebody says who listens: "mm-hm", "okay".
	Backchannels []string `toml:"backchannels"`
	// Commands stop the agent at once: "stop", "wait", "operator".
	Commands []string `toml:"commands"`
	// Yes are answers that are backchannels when nothing was asked, No those that
	// never are.
	Yes []string `toml:"yes"`
	No  []string `toml:"no"`
	// Digits are numbers as they are said one after the other.
	Digits []string `toml:"digits"`
	// Spelling is what stands between the pieces of something that is spelled: "as in".
	Spelling []string `toml:"spelling"`
	// SentenceEnds are what a complete sentence ends with, marks or syllables, besides
	// the marks that Unicode knows.
	SentenceEnds []string `toml:"sentence_ends"`
}

// What bounds a language, so that a matcher costs little whatever an operator writes.
const (
	maxPhrases    = 2000 // in one list
	maxPhrase     = 64   // bytes of one phrase
	maxLanguage   = 1 << 20
	maxPhraseSize = 8 // words of one phrase
)

//go:embed languages/*.toml
var languageFiles embed.FS

// languages are those of the embedded files by their tags, read once and never changed.
var languages = sync.OnceValues(func() (map[string]*lexicon, error) {
	files, err := languageFiles.ReadDir("languages")
	if err != nil {
		return nil, fmt.Errorf("turn: %w", err)
	}
	all := make(map[string]*lexicon, len(files))
	for _, f := range files {
		text, err := languageFiles.ReadFile(path.Join("languages", f.Name()))
		if err != nil {
			return nil, fmt.Errorf("turn: %w", err)
		}
		l, err := ParseLanguage(f.Name(), text)
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(f.Name(), ".toml")] = newLexicon(l)
	}
	return all, nil
})

// ParseLanguage reads a language from TOML whose keys are the fields of Language. name
// stands in errors, which name the line or the list and the item.
func ParseLanguage(name string, text []byte) (Language, error) {
	var l Language
	if len(text) > maxLanguage {
		return l, fmt.Errorf("turn: %s: %d bytes, must be at most %d", name, len(text), maxLanguage)
	}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return Language{}, fmt.Errorf("turn: %s%w", name, located(err))
	}
	if err := l.Validate(); err != nil {
		return Language{}, fmt.Errorf("turn: %s: %w", name, err)
	}
	return l, nil
}

// located says where in a file a mistake is.
func located(err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		first := strict.Errors[0]
		line, _ := first.Position()
		return fmt.Errorf(":%d: there is no list %q", line, strings.Join(first.Key(), "."))
	}
	var mistake *toml.DecodeError
	if errors.As(err, &mistake) {
		line, _ := mistake.Position()
		return fmt.Errorf(":%d: %w", line, err)
	}
	return fmt.Errorf(": %w", err)
}

// Validate says all that is wrong with the lists of l.
func (l Language) Validate() error {
	return errors.Join(
		checkPhrases("backchannels", l.Backchannels), checkPhrases("commands", l.Commands),
		checkPhrases("yes", l.Yes), checkPhrases("no", l.No), checkPhrases("digits", l.Digits),
		checkPhrases("spelling", l.Spelling), checkEnds(l.SentenceEnds),
	)
}

// checkPhrases says what is wrong with a list of that name.
func checkPhrases(name string, list []string) error {
	if len(list) > maxPhrases {
		return fmt.Errorf("%s: %d phrases, must be at most %d", name, len(list), maxPhrases)
	}
	var errs []error
	for i, p := range list {
		switch n := len(fold(p, maxPhrase)); {
		case len(p) > maxPhrase:
			errs = append(errs, fmt.Errorf("%s: item %d is longer than %d bytes", name, i+1, maxPhrase))
		case n == 0:
			errs = append(errs, fmt.Errorf("%s: item %d, %q, has no word", name, i+1, p))
		case n > maxPhraseSize && !unspaced(p):
			errs = append(errs, fmt.Errorf("%s: item %d, %q, has more than %d words", name, i+1, p, maxPhraseSize))
		}
	}
	return errors.Join(errs...)
}

func checkEnds(list []string) error {
	if len(list) > maxPhrases {
		return fmt.Errorf("sentence_ends: %d, must be at most %d", len(list), maxPhrases)
	}
	for i, p := range list {
		if blank(p) || len(p) > maxPhrase {
			return fmt.Errorf("sentence_ends: item %d is empty or longer than %d bytes", i+1, maxPhrase)
		}
	}
	return nil
}

// lexiconFor is what is known of the language of a BCP 47 tag; empty means English. Of
// a language without a file only what all have in common is known.
func lexiconFor(tag string) *lexicon {
	all, err := languages()
	if err != nil { // the files are part of the program, and a test reads them
		return newLexicon(Language{})
	}
	base, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(tag)), "_", "-"), "-")
	switch base {
	case "":
		base = "en"
	case "cmn", "yue":
		base = "zh"
	}
	if l, ok := all[base]; ok {
		return l
	}
	return newLexicon(Language{})
}
