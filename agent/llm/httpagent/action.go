package httpagent

import (
	"encoding/json"
	"strings"

	"parley/agent/llm"
)

// actions gives what the object asks to be done to the call:
//
//	"actions": [{"type": "transfer", "to": "+15550100"}]
//	"actions": [{"type": "dtmf", "digits": "1,2#"}]
//	"actions": ["hold"], ["resume"], ["hangup"]
//
// What is not done is told to the agent with its next request.
func (o fields) actions(s *sink) error {
	if o["actions"] == nil {
		return nil
	}
	if !s.act {
		s.refuse("actions are switched off.")
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	var list []json.RawMessage
	if json.Unmarshal(o["actions"], &list) != nil {
		s.refuse(`"actions" must be a list.`)
		return nil
	}
	for _, raw := range list {
		a, why := action(raw)
		if why != "" {
			s.refuse(why)
			continue
		}
		if err := s.give(llm.Chunk{Action: &a}); err != nil {
			return err
		}
	}
	return nil
}

// action reads one action, or says why it cannot be done.
func action(raw json.RawMessage) (a llm.Action, why string) {
	var full struct {
		Type string `json:"type"`
		To   string `json:"to"`
		// Attended: the target is called first.
		Attended bool   `json:"attended"`
		Digits   string `json:"digits"`
	}
	if json.Unmarshal(raw, &full.Type) != nil && json.Unmarshal(raw, &full) != nil {
		return a, "it was not understood."
	}
	switch kind := llm.ActionKind(full.Type); kind {
	case llm.Hangup, llm.Hold, llm.Resume:
		return llm.Action{Kind: kind}, ""
	case llm.Digits:
		digits := strings.ToUpper(full.Digits)
		if digits == "" || len(digits) > maxDigits || strings.Trim(digits, "0123456789*#ABCD,") != "" {
			return a, `dtmf needs "digits" of 0-9, *, #, A-D and commas.`
		}
		return llm.Action{Kind: kind, Digits: digits}, ""
	case llm.Transfer:
		to := strings.TrimSpace(full.To)
		if to == "" || len(to) > 256 || strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return a, `a transfer needs a target "to".`
		}
		return llm.Action{Kind: kind, To: to, Attended: full.Attended}, ""
	}
	return a, "this gateway knows hangup, transfer, dtmf, hold and resume only."
}

// maxDigits bounds the keys of one action.
const maxDigits = 64
