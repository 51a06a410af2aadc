package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"parley/agent/tool"
	"parley/agent/tool/mcp"
	"parley/agent/tool/plugin"
	"parley/config"
)

// Times between attempts to reach an MCP server that was not there at the start.
const (
	firstRetry = 2 * time.Second
	lastRetry  = time.Minute
)

// toolbox is what one agent may do besides talking.
type toolbox struct {
	of *config.Assistant // whose it is
	// registry has the agent's tools of plugins and MCP servers; it changes when those do.
	registry *tool.ToolRegistry
	// policy is what the agent may do with each call.
	policy tool.CallPolicy
	gate   *tool.Gate
	cfg    config.Tools

	// complete asks the agent's model, for plugins; nil: there is none to be asked so.
	complete func(context.Context, plugin.Completion) (string, error)
	// search looks up documents of the agent, for plugins; nil: there are none.
	search func(context.Context, plugin.Search) (any, error)
}

// skills are the agent's, as the directory has them now.
func (b *toolbox) skills(all []plugin.Skill) []plugin.Skill {
	if len(b.cfg.Skills) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(s plugin.Skill) bool { return !slices.Contains(b.cfg.Skills, s.Name) })
}

// workshop is the plugins, skills and MCP servers of the gateway, and the toolboxes that
// are filled from it.
type workshop struct {
	cfg *config.Config
	log *zap.Logger
	// shared has all tools there are, to tell of names that are taken twice. No call uses it.
	shared *tool.ToolRegistry
	life   context.Context
	end    context.CancelFunc
	left   sync.WaitGroup

	mu       sync.Mutex
	boxes    []*toolbox
	calls    map[string]*toolbox // of the conversations that are held, by id
	plugins  *plugin.Set         // nil: no directory
	servers  map[string]*mcp.Client
	skills   []plugin.Skill
	onSkills []func([]plugin.Skill)
	told     map[string]bool // troubles that were logged
}

func newWorkshop(cfg *config.Config) *workshop {
	w := &workshop{cfg: cfg, log: zap.NewNop(), shared: tool.NewRegistry(), servers: map[string]*mcp.Client{}, calls: map[string]*toolbox{}, told: map[string]bool{}}
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// box makes the toolbox of an agent.
func (w *workshop) box(a *config.Assistant) *toolbox {
	b := &toolbox{
		of: a, registry: tool.NewRegistry(), policy: a.CallPolicy(), cfg: a.Tools,
		gate: tool.NewGate(tool.GateConfig{TTL: a.Tools.ConfirmationTTL, Verbatim: a.Tools.Verbatim}),
	}
	if a.Tools.TransfersPerHour > 0 {
		b.policy.Quota = tool.NewQuota(a.Tools.TransfersPerHour)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boxes = append(w.boxes, b)
	return b
}

// watchSkills calls f with the skills there are, now and whenever they were read again.
func (w *workshop) watchSkills(f func([]plugin.Skill)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onSkills = append(w.onSkills, f)
	f(w.skills)
}

// open starts plugins and connects to servers, all at the same time. What cannot be had
// is told in the error; the rest works.
func (w *workshop) open(ctx context.Context, log *zap.Logger) error {
	w.log = log
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	wrong := func(section string, err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, w.cfg.Complain(section, err))
		}
	}
	if w.cfg.Plugins.Directory != "" {
		all.Go(func() {
			o := w.cfg.Plugins.Options()
			o.Log, o.Changed = log, w.sync
			o.Host = w.host(func(from string, e plugin.Emission) {
				log.Info("plugin tells", zap.String("plugin", from), zap.String("topic", tool.CleanText(e.Topic, 100)), zap.String("session_id", tool.CleanText(e.Session, 100)))
			})
			set, err := plugin.Open(ctx, w.cfg.Plugins.Directory, o)
			w.mu.Lock()
			w.plugins = set
			w.mu.Unlock()
			wrong("plugins", err)
			wrong("plugins", w.readSkills())
		})
	}
	for _, name := range slices.Sorted(maps.Keys(w.cfg.MCP)) {
		all.Go(func() {
			wrong("mcp."+name, w.connect(ctx, name))
		})
	}
	all.Wait()
	w.sync()
	return errors.Join(errs...)
}

// connect connects to a server.
func (w *workshop) connect(ctx context.Context, name string) error {
	c := w.cfg.MCP[name].Server(name)
	c.Log, c.Changed = w.log, w.sync
	client, err := mcp.Open(ctx, c)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.servers[name] = client
	w.mu.Unlock()
	return nil
}

// retry connects, in the background, to the servers that were not there.
func (w *workshop) retry() {
	for _, name := range w.missing() {
		w.left.Go(func() {
			for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
				t := time.NewTimer(pause)
				select {
				case <-t.C:
				case <-w.life.Done():
					t.Stop()
					return
				}
				if w.connect(w.life, name) == nil {
					w.log.Info("the MCP server is there now", zap.String("mcp", name))
					w.sync()
					return
				}
			}
		})
	}
}

// missing are the servers that there is no connection to.
func (w *workshop) missing() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(w.cfg.MCP)), func(name string) bool { return w.servers[name] != nil })
}

// readSkills reads the directory's skills.
func (w *workshop) readSkills() error {
	skills, err := plugin.ReadSkills(w.cfg.Plugins.Directory)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skills = skills
	for _, f := range w.onSkills {
		f(skills)
	}
	return err
}

// reload reads the directory of plugins and skills again. Calls that are up go on; what
// they call from now on is the new.
func (w *workshop) reload(ctx context.Context) error {
	w.mu.Lock()
	set := w.plugins
	w.mu.Unlock()
	if set == nil {
		return nil
	}
	err := errors.Join(set.Reload(ctx), w.readSkills())
	w.sync()
	return w.cfg.Complain("plugins", err)
}

// sync fills the toolboxes from what there is. Anybody may call it at any time.
func (w *workshop) sync() {
	w.mu.Lock()
	defer w.mu.Unlock()
	sources := map[string][]tool.Tool{}
	if w.plugins != nil {
		sources["plugins"] = w.plugins.Tools()
	}
	for name, c := range w.servers {
		sources["mcp."+name] = c.Tools()
	}
	// In one order always: of two tools with one name the first source's stays.
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		_, _, err := w.shared.Sync(source, sources[source])
		if err != nil && !w.told[err.Error()] {
			w.told[err.Error()] = true
			w.log.Warn("tools are left out", zap.String("from", source), zap.Error(err))
		}
	}
	for _, b := range w.boxes {
		for _, source := range slices.Sorted(maps.Keys(sources)) {
			own := slices.DeleteFunc(slices.Clone(sources[source]), func(t tool.Tool) bool { return !b.cfg.Allows(t.Name()) })
			_, _, _ = b.registry.Sync(source, own) // what is wrong was told above
		}
	}
}

// close ends plugins and connections.
func (w *workshop) close() {
	w.end()
	w.left.Wait()
	w.mu.Lock()
	set, servers := w.plugins, slices.Collect(maps.Values(w.servers))
	w.mu.Unlock()
	var all sync.WaitGroup
	if set != nil {
		all.Go(set.Close)
	}
	for _, c := range servers {
		all.Go(c.Close)
	}
	all.Wait()
}

// toolbox is that of the agent whose sections are a.
func (p *plugs) toolbox(a *config.Assistant) *toolbox { return p.tools.box(a) }

// startTools starts what agents' tools come from, when an agent has tools. What cannot
// be had is logged: the calls are more important.
func (p *plugs) startTools(ctx context.Context, log *zap.Logger) {
	configured := p.cfg.Plugins.Directory != "" || len(p.cfg.MCP) > 0
	if len(p.tools.boxes) == 0 {
		if configured {
			p.notes = append(p.notes, "there are plugins or MCP servers, and no agent that uses tools: llm.provider says who thinks")
		}
		return
	}
	if !configured {
		return
	}
	p.undo = append(p.undo, p.tools.close)
	if err := p.tools.open(ctx, log); err != nil {
		log.Error("tools are missing", zap.Error(err))
	}
	p.tools.retry()
	p.about = append(p.about, zap.Int("tools", p.tools.shared.Len()))
}

// checkTools says what is wrong with plugins and skills without starting any.
func (p *plugs) checkTools() error {
	dir := p.cfg.Plugins.Directory
	if dir == "" {
		return nil
	}
	err := readable(dir)
	if err == nil {
		var skills []plugin.Skill
		skills, err = plugin.ReadSkills(dir)
		err = errors.Join(err, checkManifests(dir), p.checkNames(skills))
	}
	return p.cfg.Complain("plugins", err)
}

// checkNames says which skills that agents are to have are not there.
func (p *plugs) checkNames(skills []plugin.Skill) error {
	var errs []error
	for _, b := range p.tools.boxes {
		for _, name := range b.cfg.Skills {
			if !slices.ContainsFunc(skills, func(s plugin.Skill) bool { return s.Name == name }) {
				errs = append(errs, fmt.Errorf("directory: there is no skill %q", name))
			}
		}
	}
	return errors.Join(errs...)
}
