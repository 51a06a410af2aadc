package api

import (
	"strings"
	"sync"
	"unicode"
)

// maxValues bounds the values of one label. Each is a time series for ever, so
// what a stranger or a free text can put into a label must end somewhere.
const maxValues = 32

// bounded gives a label's values: the first maxValues as they are, later ones as
// "other".
type bounded struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func newBounded() *bounded { return &bounded{seen: make(map[string]struct{}, maxValues)} }

func (b *bounded) value(v string) string {
	v = labelText(v)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.seen[v]; ok {
		return v
	}
	if len(b.seen) >= maxValues {
		return "other"
	}
	b.seen[v] = struct{}{}
	return v
}

// labelText makes v a label's value: lower case, underscores for what is neither
// letter nor digit, at most 48 bytes, "none" for nothing.
func labelText(v string) string {
	const longest = 48
	var b strings.Builder
	for _, r := range v {
		switch {
		case b.Len() >= longest:
			return b.String()
		case r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}

// kind is the part of the gateway that an error's text names at its beginning
// ("stt: stream lost"), as all of ours do.
func kind(reason string) string {
	head, _, ok := strings.Cut(reason, ":")
	if !ok || strings.ContainsAny(head, " \t") {
		return "other"
	}
	return head
}
