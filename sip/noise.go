package sip

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// noise logs what peers can cause at will: at most one line a second for each
// condition, which says how many it stands for.
type noise struct {
	log  *zap.Logger
	mu   sync.Mutex
	last map[string]*condition // by condition; the conditions are ours, so few
}

type condition struct {
	at         time.Time
	suppressed int
}

func newNoise(log *zap.Logger) *noise {
	return &noise{log: log, last: make(map[string]*condition)}
}

func (n *noise) warn(cond, text string, fields ...zap.Field) {
	n.mu.Lock()
	c := n.last[cond]
	if c == nil {
		c = &condition{}
		n.last[cond] = c
	}
	now := time.Now()
	if now.Sub(c.at) < time.Second {
		c.suppressed++
		n.mu.Unlock()
		return
	}
	suppressed := c.suppressed
	c.at, c.suppressed = now, 0
	n.mu.Unlock()
	if suppressed > 0 {
		fields = append(fields, zap.Int("suppressed", suppressed))
	}
	n.log.Warn(text, fields...)
}

// flush logs what was held back.
func (n *noise) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for cond, c := range n.last {
		if c.suppressed > 0 {
			n.log.Warn("sip: more of the same", zap.String("rule", cond), zap.Int("suppressed", c.suppressed))
			c.suppressed = 0
		}
	}
}
