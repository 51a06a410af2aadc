package answer

import "strings"

// thinking takes a model's reasoning out of the head of its words: many services pass
// on what stands between <think> and </think> as it is. The zero value is ready.
type thinking struct {
	state   thinkState
	pending string // that may yet be a tag
	closing string // the tag that ends the thoughts
}

type thinkState uint8

const (
	head  thinkState = iota // nothing but white space came
	inner                   // within the thoughts
	after                   // white space after them goes
	words
)

// tags are how thoughts begin, and how they end.
var tags = [...][2]string{{"<think>", "</think>"}, {"<thinking>", "</thinking>"}}

// holds says whether something waits that may be words.
func (t *thinking) holds() bool { return t.state != inner && strings.TrimSpace(t.pending) != "" }

// write takes the next words and divides them.
func (t *thinking) write(text string) (said, thought string) {
	if t.state == words {
		return text, ""
	}
	text, t.pending = t.pending+text, ""
	if t.state == head {
		bare := strings.TrimLeft(text, " \t\r\n")
		if t.state = opening(bare); t.state == head {
			t.pending = text
			return "", ""
		}
		if t.state == words {
			return text, ""
		}
		for _, tag := range tags {
			if rest, ok := strings.CutPrefix(bare, tag[0]); ok {
				text, t.closing = rest, tag[1]
			}
		}
	}
	if t.state == inner {
		in, rest, ended := strings.Cut(text, t.closing)
		if !ended {
			keep := overlap(in, t.closing)
			t.pending = in[len(in)-keep:]
			return "", in[:len(in)-keep]
		}
		thought, text, t.state = in, rest, after
	}
	if said = strings.TrimLeft(text, " \t\r\n"); said != "" {
		t.state = words
	}
	return said, thought
}

// end gives what waits.
func (t *thinking) end() (said, thought string) {
	rest := t.pending
	t.pending = ""
	if t.state == inner {
		return "", rest
	}
	return rest, ""
}

// opening says what text, the first that came, makes of the state.
func opening(text string) thinkState {
	next := words
	for _, tag := range tags {
		if strings.HasPrefix(text, tag[0]) {
			return inner
		}
		if strings.HasPrefix(tag[0], text) {
			next = head // may yet be one; so may nothing at all
		}
	}
	return next
}

// overlap is how many bytes at the end of text may begin tag.
func overlap(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
