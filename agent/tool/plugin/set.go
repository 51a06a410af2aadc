package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"parley/agent/tool"
)

// Options are how plugins are run.
type Options struct {
	// Log takes what plugins say and what becomes of them; nil: nothing is logged.
	Log *zap.Logger
	// Runtimes replace what runs a language: "python": {"/opt/venv/bin/python"}.
	Runtimes map[string][]string
	// Plugins are settings by the plugins' names.
	Plugins map[string]Settings
	Host    Host
	// Timeout bounds one call; 0: 30 s.
	Timeout time.Duration
	// StartTimeout bounds the answer to initialize; 0: 10 s.
	StartTimeout time.Duration
	// Changed is called when the tools may have changed, from any goroutine; it may be
	// nil.
	Changed func()
}

// Settings are those of one plugin.
type Settings struct {
	// Disabled plugins are not started.
	Disabled bool
	// Config is given to a plugin of version 2 with initialize.
	Config map[string]any
	// Env are variables for its process; Pass names those of the gateway that it gets.
	Env  map[string]string
	Pass []string
	// Timeout bounds one call; 0: that of Options.
	Timeout time.Duration
}

func (o *Options) changed() {
	if o.Changed != nil {
		o.Changed()
	}
}

// Set is the plugins of one directory. It is safe for concurrent use.
type Set struct {
	directory string
	opts      Options

	reload  sync.Mutex // one at a time
	life    context.Context
	end     context.CancelFunc
	leaving sync.WaitGroup // plugins that were replaced and have calls yet

	mu       sync.Mutex
	closed   bool
	by       map[string]*plugin
	attended map[string][]*attendance // by conversation
}

// attendance is one call of Attend.
type attendance struct{ wanted func(name string) bool }

// Status is a plugin as operators see it.
type Status struct {
	Name, Version string
	State         State
	Tools         []string
	Restarts      int
	// Fault says why it is not ready.
	Fault string
}

// Open starts the plugins in directory/plugins/*/plugin.yaml, all at the same time. The
// error joins those of plugins that were refused; the Set works all the same, with the
// others, and is to be closed.
func Open(ctx context.Context, directory string, opts Options) (*Set, error) {
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.Timeout == 0 {
		opts.Timeout = 30 * time.Second
	}
	if opts.StartTimeout == 0 {
		opts.StartTimeout = 10 * time.Second
	}
	s := &Set{directory: directory, opts: opts, by: map[string]*plugin{}, attended: map[string][]*attendance{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s, s.Reload(ctx)
}

// Reload reads the directory again: plugins that came are started, those whose manifest
// or entrypoint changed are started anew, those that went are ended, and all others are
// left alone. A changed plugin that does not start leaves the old one running; one that
// does attends the conversations that the old one did, and the old one is ended when the
// calls that it has are done, which Reload does not wait for. The error joins those of
// plugins that were refused.
func (s *Set) Reload(ctx context.Context) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	wanted, errs := s.manifests()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errors.New("plugin: closed")
	}
	old := maps.Clone(s.by)
	s.mu.Unlock()
	var fresh sync.WaitGroup
	var mu sync.Mutex
	next := map[string]*plugin{}
	for _, m := range wanted {
		before := old[m.Name]
		if before != nil && before.m.content == m.content && before.m.Dir == m.Dir {
			mu.Lock()
			next[m.Name] = before
			mu.Unlock()
			continue
		}
		fresh.Go(func() {
			p, err := open(ctx, m, &s.opts, s)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				next[m.Name] = p
			case before != nil:
				next[m.Name] = before
				fallthrough
			default:
				errs = append(errs, err)
			}
		})
	}
	fresh.Wait()
	s.mu.Lock()
	s.by = next
	s.mu.Unlock()
	s.tellReady()
	s.opts.changed() // before the old ones go: who calls from here on calls the new
	for name, p := range old {
		if next[name] != p {
			s.leaving.Go(func() { p.retire(s.life) })
		}
	}
	return errors.Join(errs...)
}

// manifests reads what there is, first come first served.
func (s *Set) manifests() (out []Manifest, errs []error) {
	paths, err := filepath.Glob(filepath.Join(s.directory, "plugins", "*", "plugin.yaml"))
	if err != nil {
		return nil, []error{fmt.Errorf("plugin: %w", err)}
	}
	seen := map[string]bool{}
	for _, path := range paths {
		m, err := ReadManifest(filepath.Dir(path))
		switch {
		case err != nil:
			errs = append(errs, err)
		case s.opts.Plugins[m.Name].Disabled:
		case seen[m.Name]:
			errs = append(errs, fmt.Errorf("plugin: %s: the name %s is taken by another folder", path, m.Name))
		default:
			seen[m.Name] = true
			out = append(out, m)
		}
	}
	return out, errs
}

// tellReady tells plugins of version 2 which tools there are now.
func (s *Set) tellReady() {
	names := []string{}
	for _, t := range s.Tools() {
		names = append(names, t.Name())
	}
	for _, p := range s.plugins() {
		p.notify("ready", map[string]any{"tools": names})
	}
}

// plugins is a snapshot, sorted by name.
func (s *Set) plugins() []*plugin {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.by), func(a, b *plugin) int { return strings.Compare(a.m.Name, b.m.Name) })
}

// named is the plugin that has a name now, or nil.
func (s *Set) named(name string) *plugin {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[name]
}

// Tools are the tools of all plugins. Give them to a registry with
// ToolRegistry.Sync.
func (s *Set) Tools() []tool.Tool {
	var out []tool.Tool
	for _, p := range s.plugins() {
		out = append(out, p.list()...)
	}
	return out
}

// Status lists the plugins, sorted by name.
func (s *Set) Status() []Status {
	var out []Status
	for _, p := range s.plugins() {
		p.mu.Lock()
		st := Status{Name: p.m.Name, Version: p.m.Version, State: p.state, Restarts: p.restarts, Fault: p.fault}
		for _, d := range p.tools {
			st.Tools = append(st.Tools, d.Name)
		}
		p.mu.Unlock()
		out = append(out, st)
	}
	return out
}

// Event is something that happened in a conversation.
type Event struct {
	Type    string         `json:"type"`
	Session string         `json:"session_id"`
	Turn    string         `json:"turn_id,omitempty"`
	TurnSeq int            `json:"turn_seq,omitempty"`
	Data    map[string]any `json:"data,omitempty"`
}

// Event tells the plugins of version 2 that attend the conversation. It never waits: one
// that does not read misses it.
func (s *Set) Event(e Event) {
	for _, p := range s.plugins() {
		if s.attends(p, e.Session) {
			p.notify("event", e)
		}
	}
}

// Attend lets plugins act for a conversation by themselves, after an event as well, and
// not only while they work for it; the returned function ends that. They are the plugins
// that have a tool which is wanted: nil wants all. Those that are started or replaced
// meanwhile attend it, too. wanted is called from any goroutine and must be fast.
func (s *Set) Attend(session string, wanted func(name string) bool) (end func()) {
	one := &attendance{wanted}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attended[session] = append(s.attended[session], one)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		left := slices.DeleteFunc(s.attended[session], func(a *attendance) bool { return a == one })
		if s.attended[session] = left; len(left) == 0 {
			delete(s.attended, session)
		}
	}
}

// attends says whether p, as long as it has its name, acts for a conversation by itself.
func (s *Set) attends(p *plugin, session string) bool {
	s.mu.Lock()
	all, current := slices.Clone(s.attended[session]), s.by[p.m.Name] == p
	s.mu.Unlock()
	if !current || len(all) == 0 {
		return false
	}
	names := p.names()
	return slices.ContainsFunc(all, func(a *attendance) bool { return a.wanted == nil || slices.ContainsFunc(names, a.wanted) })
}

// Close ends all plugins, those that were replaced too, and waits for their processes. Calls in flight fail. It may be
// called again.
func (s *Set) Close() {
	s.reload.Lock()
	defer s.reload.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var gone sync.WaitGroup
	for _, p := range s.plugins() {
		gone.Go(p.close)
	}
	s.end()
	gone.Wait()
	s.leaving.Wait()
}
