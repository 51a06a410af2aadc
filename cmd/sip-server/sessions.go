package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"parley/agent/record"
	"parley/agent/session"
	"parley/config"
)

// sessionsCmd looks at conversations on record. The server may run meanwhile.
type sessionsCmd struct {
	List sessionsListCmd `cmd:"" help:"List conversations, the latest first."`
	Show sessionsShowCmd `cmd:"" help:"Show one conversation: what was said, and what is remembered."`
}

// sessionsListCmd lists conversations.
type sessionsListCmd struct {
	configFlag
	Caller string `help:"Only those of this caller: a number or an id."`
	Agent  string `help:"Only those with this agent."`
	Limit  int    `default:"20" help:"How many at most; 0 is all."`
}

// Run prints one conversation a line.
func (c sessionsListCmd) Run(s *stage) error {
	cfg, err := loadFor(s, c.Config)
	if err != nil {
		return err
	}
	store, err := existingStore(s.ctx, cfg)
	if err != nil {
		return err
	}
	found, err := listSessions(s.ctx, store, apps(cfg, c.Agent), callerID(c.Caller, cfg.Identity.Region))
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	if c.Limit > 0 && len(found) > c.Limit {
		found = found[:c.Limit]
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tLAST\tAGENT\tCALLER\tCALLED")
	for _, one := range found {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", one.ID(), one.LastUpdateTime().Local().Format(time.DateTime), one.AppName(), one.UserID(), value(one, record.KeyCalled))
	}
	return w.Flush()
}

// apps are the names under which agents keep conversations.
func apps(cfg *config.Config, agent string) []string {
	if agent != "" {
		return []string{agent}
	}
	return cfg.AgentNames()
}

// listSessions reads conversations of agents and, unless it is empty, of one caller; the
// latest first.
func listSessions(ctx context.Context, store *session.Store, apps []string, user string) ([]session.Session, error) {
	var out []session.Session
	for _, app := range apps {
		got, err := store.List(ctx, &session.ListRequest{AppName: app, UserID: user})
		if err != nil {
			return nil, err
		}
		out = append(out, got.Sessions...)
	}
	slices.SortStableFunc(out, func(a, b session.Session) int {
		return cmp.Or(b.LastUpdateTime().Compare(a.LastUpdateTime()), strings.Compare(a.ID(), b.ID()))
	})
	return out, nil
}

// value is a text of a session's state.
func value(s session.Session, key string) string {
	v, err := s.State().Get(key)
	if err != nil {
		return ""
	}
	return fmt.Sprint(v)
}

// sessionsShowCmd shows one conversation.
type sessionsShowCmd struct {
	configFlag
	ID   string `arg:"" help:"The session id of the log, or its beginning."`
	JSON bool   `help:"Print its events as JSON, one a line, as ADK reads them."`
}

// Run prints a conversation.
func (c sessionsShowCmd) Run(s *stage) error {
	cfg, err := loadFor(s, c.Config)
	if err != nil {
		return err
	}
	store, err := existingStore(s.ctx, cfg)
	if err != nil {
		return err
	}
	one, err := findSession(s.ctx, store, cfg.AgentNames(), c.ID)
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	if c.JSON {
		for e := range one.Events().All() {
			text, err := e.EpochJSON()
			if err != nil {
				return err
			}
			fmt.Fprintln(s.out, string(text))
		}
		return nil
	}
	return show(s.out, one)
}

// findSession reads the one conversation whose id begins so.
func findSession(ctx context.Context, store *session.Store, apps []string, id string) (session.Session, error) {
	all, err := listSessions(ctx, store, apps, "")
	if err != nil {
		return nil, err
	}
	var found []session.Session
	for _, one := range all {
		if one.ID() == id {
			found = []session.Session{one}
			break
		}
		if strings.HasPrefix(one.ID(), id) {
			found = append(found, one)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no conversation %q is kept", id)
	case 1:
		got, err := store.Get(ctx, &session.GetRequest{AppName: found[0].AppName(), UserID: found[0].UserID(), SessionID: found[0].ID()})
		if err != nil {
			return nil, err
		}
		return got.Session, nil
	}
	return nil, fmt.Errorf("%d conversations begin with %q", len(found), id)
}

// show prints a conversation for reading.
func show(w io.Writer, one session.Session) error {
	fmt.Fprintf(w, "session  %s\nagent    %s\ncaller   %s\n", one.ID(), one.AppName(), one.UserID())
	state := maps.Collect(one.State().All())
	for _, key := range slices.Sorted(maps.Keys(state)) {
		text, err := json.Marshal(state[key])
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "state    %s = %s\n", key, text)
	}
	for e := range one.Events().All() {
		if _, err := fmt.Fprintf(w, "%s  %s\n", e.Timestamp.Local().Format(time.DateTime), line(e)); err != nil {
			return err
		}
	}
	return nil
}

// line is an event in words.
func line(e *session.Event) string {
	parts := []string{e.Author + ":"}
	if e.Content != nil {
		for _, p := range e.Content.Parts {
			switch {
			case p == nil:
			case p.FunctionCall != nil:
				parts = append(parts, "calls "+p.FunctionCall.Name)
				if len(p.FunctionCall.Args) > 0 {
					args, _ := json.Marshal(p.FunctionCall.Args) // it came from JSON
					parts = append(parts, string(args))
				}
			case p.FunctionResponse != nil:
				answer, _ := json.Marshal(p.FunctionResponse.Response)
				parts = append(parts, p.FunctionResponse.Name+" answers "+string(answer))
			case p.Text != "":
				parts = append(parts, fmt.Sprintf("%q", p.Text))
			}
		}
	}
	if e.Interrupted {
		parts = append(parts, "(interrupted)")
	}
	if e.ErrorMessage != "" {
		parts = append(parts, "failed: "+e.ErrorMessage)
	}
	if len(e.CustomMetadata) > 0 {
		meta, _ := json.Marshal(e.CustomMetadata)
		parts = append(parts, string(meta))
	}
	if len(e.Actions.StateDelta) > 0 {
		delta, _ := json.Marshal(e.Actions.StateDelta)
		parts = append(parts, "keeps "+string(delta))
	}
	return strings.Join(parts, " ")
}
