package record

import (
	"encoding/json"
	"slices"
	"strings"

	"go.uber.org/zap"

	"parley/agent/session"
)

const (
	// maxValue is the most bytes of one value that an agent keeps, as JSON.
	maxValue = 64 << 10
	// maxDelta is how many bytes of changes wait for the next event before they get one
	// of their own.
	maxDelta = 256 << 10
)

// memory is the state of a call's session, as its agent sees it.
type memory struct{ t *tape }

// Get implements agent.Memory.
func (m memory) Get(key string) (any, bool) {
	v, err := m.t.rec.Session().State().Get(key)
	return v, err == nil
}

// Set implements agent.Memory: the value is seen at once, and goes into the record with
// the next event. What cannot be kept is left as it was, and logged.
func (m memory) Set(key string, value any) {
	t := m.t
	raw, err := json.Marshal(value)
	if err == nil && len(raw) > maxValue {
		err = session.ErrInvalid
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && (key == "" || len(key) > session.MaxID || strings.ToValidUTF8(key, "") != key || strings.ContainsRune(key, 0)) {
		err = session.ErrInvalid
	}
	var kept any = json.RawMessage(raw)
	if string(raw) == "null" {
		kept = nil
	}
	if err == nil {
		err = t.rec.Session().State().Set(key, whole(kept, value, key))
	}
	if err != nil {
		if !t.refused {
			t.refused = true
			t.o.cfg.Log.Warn("a value of an agent's memory cannot be kept",
				zap.String("session_id", t.call.SessionID), zap.Int("bytes", len(raw)), zap.Error(err))
		}
		return
	}
	if strings.HasPrefix(key, session.KeyPrefixTemp) || t.ended {
		return // never stored
	}
	t.delta[key] = kept
	if t.size += len(key) + len(raw); t.size > maxDelta {
		t.append(t.event(t.app, t.o.cfg.Now()))
	}
}

// whole is the value to show: temporary ones may be anything.
func whole(kept, value any, key string) any {
	if strings.HasPrefix(key, session.KeyPrefixTemp) {
		return value
	}
	return kept
}

// Keys implements agent.Memory.
func (m memory) Keys(prefix string) []string {
	var out []string
	for key := range m.t.rec.Session().State().All() {
		if strings.HasPrefix(key, prefix) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}
