package main

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"parley/agent"
	"parley/agent/tool"
	"parley/agent/tool/plugin"
	"parley/config"
)

// The types of the events that plugins get besides those of conversations.
const (
	eventCallStarted = "call_started"
	eventCallEnded   = "call_ended"
)

// What plugins are told when the agent of a conversation has not what they ask for.
var (
	errNoModel     = errors.New("the agent of this conversation has no model to ask")
	errNoDocuments = errors.New("the agent of this conversation has no documents")
)

// attended is an agent whose calls plugins attend: those of which the agent has a tool.
// They may act for a conversation while it lasts, with what its agent has and nothing else.
type attended struct {
	agent.Opener
	w   *workshop
	box *toolbox
}

// attend puts the agent whose sections are a among those whose calls plugins attend, when
// it has tools.
func (w *workshop) attend(a *config.Assistant, opener agent.Opener) agent.Opener {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.boxes {
		if b.of == a {
			return &attended{opener, w, b}
		}
	}
	return opener
}

// Open begins the attendance with the conversation, since agents may work before Run.
func (o *attended) Open(ctx context.Context, c agent.Call) (agent.Session, error) {
	o.w.mu.Lock()
	set := o.w.plugins
	o.w.mu.Unlock()
	if set == nil || c.SessionID == "" {
		return o.Opener.Open(ctx, c)
	}
	a := &attendance{set: set, session: c.SessionID, forward: c.Emit}
	c.Emit = a.emit
	o.w.hold(c.SessionID, o.box)
	leave := set.Attend(c.SessionID, o.box.cfg.Allows)
	a.end = sync.OnceFunc(func() {
		a.tell(eventCallEnded, nil)
		leave()
		o.w.release(c.SessionID)
	})
	a.tell(eventCallStarted, map[string]any{"direction": c.Direction})
	inner, err := o.Opener.Open(ctx, c)
	if err != nil {
		a.end()
		return nil, err
	}
	s := &attendedSession{inner, a}
	if announcer, ok := inner.(agent.Announcer); ok {
		return &attendedAnnouncer{s, announcer}, nil
	}
	return s, nil
}

// attendedSession is a conversation that plugins attend. Sound goes straight through.
type attendedSession struct {
	agent.Session
	a *attendance
}

// Run holds the conversation, and ends the attendance whatever becomes of it.
func (s *attendedSession) Run(ctx context.Context) error {
	defer s.a.end()
	return s.Session.Run(ctx)
}

// attendedAnnouncer is one whose agent can be made to say something.
type attendedAnnouncer struct {
	*attendedSession
	agent.Announcer
}

// attendance tells plugins what happens in one conversation.
type attendance struct {
	set     *plugin.Set
	session string
	forward func(agent.Event)
	end     func()

	mu   sync.Mutex
	turn int // the caller's turns so far
}

// emit is agent.Call.Emit: it passes e on and tells plugins. It never blocks.
func (a *attendance) emit(e agent.Event) {
	a.forward(e)
	if e.Type == agent.EventUserStarted {
		a.mu.Lock()
		a.turn++
		a.mu.Unlock()
	}
	if data, told := eventData(e); told {
		a.tell(string(e.Type), data)
	}
}

// eventData is what plugins are told of an event, and whether they are told of it at all:
// not what other tools were called with, nor what a model thought or was measured.
func eventData(e agent.Event) (data map[string]any, told bool) {
	data = map[string]any{}
	set := func(key, value string) {
		if value != "" {
			data[key] = value
		}
	}
	switch e.Type {
	case agent.EventTranscript:
		data["final"] = e.Final
		set("text", e.Text)
	case agent.EventUserStopped, agent.EventAgentText:
		set("text", e.Text)
		set("reason", e.Reason)
	case agent.EventAgentStopped:
		data["interrupted"] = e.Interrupted
		set("text", e.Text)
		set("heard", e.Heard)
	case agent.EventUserStarted, agent.EventAgentStarted, agent.EventBargeIn, agent.EventFalseBargeIn, agent.EventIdle, agent.EventState,
		agent.EventAction, agent.EventAnsweredBy, agent.EventError:
		set("reason", e.Reason)
	case agent.EventDigit:
		set("digit", e.Text)
	default:
		return nil, false
	}
	return data, true
}

func (a *attendance) tell(kind string, data map[string]any) {
	a.mu.Lock()
	e := plugin.Event{Type: kind, Session: a.session, TurnSeq: a.turn, Data: data}
	a.mu.Unlock()
	if e.TurnSeq > 0 {
		e.Turn = a.session + "-" + strconv.Itoa(e.TurnSeq)
	}
	a.set.Event(e)
}

// hold notes whose tools plugins may use for a conversation, until release.
func (w *workshop) hold(session string, b *toolbox) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[session] = b
}

func (w *workshop) release(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, session)
}

// boxOf is the toolbox of the agent that holds a conversation, nil when there is none.
func (w *workshop) boxOf(session string) *toolbox {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[session]
}

// host is what plugins may ask for, each time of the agent whose conversation it is for.
func (w *workshop) host(emit func(string, plugin.Emission)) plugin.Host {
	return plugin.Host{
		Emit: emit,
		Tools: func(session string) *tool.ToolRegistry {
			if b := w.boxOf(session); b != nil {
				return b.registry
			}
			return nil
		},
		Complete: func(ctx context.Context, c plugin.Completion) (string, error) {
			b := w.boxOf(c.Session)
			if b == nil || b.complete == nil {
				return "", errNoModel
			}
			return b.complete(ctx, c)
		},
		Search: func(ctx context.Context, s plugin.Search) (any, error) {
			b := w.boxOf(s.Session)
			if b == nil || b.search == nil {
				return nil, errNoDocuments
			}
			return b.search(ctx, s)
		},
	}
}
