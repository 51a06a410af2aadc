package sip

import (
	"errors"
	"strings"
)

// replaced is the value of a Replaces header (RFC 3891 section 6.1), as its recipient
// sees the dialog that is to be replaced.
type replaced struct {
	callID, to, from string
	early            bool // only while it is not answered
}

var errReplaces = errors.New("sip: bad Replaces")

// parseReplaces reads one value: a Call-ID and exactly one of each tag.
func parseReplaces(v string) (replaced, error) {
	id, params, _ := strings.Cut(v, ";")
	r := replaced{callID: strings.TrimSpace(id)}
	for part := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		value = strings.TrimSpace(value)
		tag := &r.to
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "early-only":
			r.early = true
			continue
		case "to-tag":
		case "from-tag":
			tag = &r.from
		default:
			continue
		}
		if *tag != "" || !isToken(value) || len(value) > maxTag {
			return replaced{}, errReplaces
		}
		*tag = value
	}
	bad := r.callID == "" || len(r.callID) > maxCallID || r.to == "" || r.from == "" || strings.ContainsFunc(r.callID, notInCallID)
	if bad {
		return replaced{}, errReplaces
	}
	return r, nil
}

// notInCallID are the characters that no Call-ID has (RFC 3261 section 25.1).
func notInCallID(r rune) bool { return r <= ' ' || r >= 0x7f || r == ',' || r == ';' }

// replaces is the Replaces value by which the peer of d finds it: our tag is the one
// that is remote there.
func (d *Dialog) replaces() string {
	zero := func(tag string) string { // of a peer of RFC 2543 (section 3)
		if tag == "" {
			return "0"
		}
		return tag
	}
	return d.key.callID + ";to-tag=" + zero(d.key.remote) + ";from-tag=" + zero(d.key.local)
}

// Replaces is the call that this one asks to take the place of (RFC 3891), as after
// an attended transfer; nil, nil when it asks for nothing. Whoever answers it then
// hangs up that call (section 3). A refusal is to be given to Reject: 400 for a
// header that cannot be read, 481 for a call that is not known, 486 for one that is
// answered already when only a ringing one was meant, 603 for one that is over.
// A call of ours that rings is taken over too; its Dial is to be given up then, and it
// cannot be hung up. One that came in and rings cannot be: 481. Tags are not guessed, so
// whoever knows them has taken part in the call; whether that is enough is for the
// caller of this method to say.
func (i *Invite) Replaces() (*Dialog, *RejectError) {
	values := i.m.all("replaces")
	if len(values) == 0 {
		return nil, nil
	}
	r, err := parseReplaces(values[0])
	if err != nil || len(values) > 1 {
		return nil, &RejectError{Code: 400, Rule: "replaces", Text: "Bad Replaces"}
	}
	d := i.s.dialogs.replaced(r)
	if d == nil {
		return nil, &RejectError{Code: 481, Rule: "replaces", Text: "No such call to replace"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.state == dialogEarly && d.caller:
		return d, nil
	case d.state == dialogEarly:
		return nil, &RejectError{Code: 481, Rule: "replaces", Text: "The call to replace is not answered"}
	case d.state == dialogOver:
		return nil, &RejectError{Code: 603, Rule: "replaces", Text: "The call to replace is over"}
	case r.early:
		return nil, &RejectError{Code: 486, Rule: "replaces", Text: "The call to replace is answered already"}
	}
	return d, nil
}

// replaced finds the dialog that a Replaces header means. The tag 0 also means none
// (RFC 3891 section 3).
func (t *dialogTable) replaced(r replaced) *Dialog {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.byKey[dialogKey{r.callID, r.to, r.from}]; d != nil || r.from != "0" {
		return d
	}
	return t.byKey[dialogKey{r.callID, r.to, ""}]
}
