package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"go.uber.org/zap"

	"parley/agent/tool"
	"parley/agent/tool/plugin"
)

// pluginsCmd starts all that agents' tools come from, as the server would, lists it, and
// ends it.
type pluginsCmd struct {
	configFlag
}

// Run prints plugins, MCP servers and skills with their state; it fails when one is
// missing.
func (c pluginsCmd) Run(s *stage) error {
	cfg, err := loadFor(s, c.Config)
	if err != nil {
		return err
	}
	w := newWorkshop(cfg)
	defer w.close()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	missing := w.open(ctx, zap.NewNop())
	out := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "KIND\tNAME\tVERSION\tSTATE\tTOOLS")
	for _, row := range w.rows() {
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if missing != nil {
		fmt.Fprintln(s.out, missing)
		return errReported
	}
	return nil
}

// rows are what there is, a row each: kind, name, version, state, tools.
func (w *workshop) rows() [][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out [][]string
	if w.plugins != nil {
		for _, p := range w.plugins.Status() {
			state := string(p.State)
			if p.Fault != "" {
				state += ": " + tool.CleanText(p.Fault, 200)
			}
			out = append(out, []string{"plugin", p.Name, orDash(p.Version), state, orDash(strings.Join(p.Tools, ", "))})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.cfg.MCP)) {
		state, tools := "not connected", []string{}
		if c := w.servers[name]; c != nil {
			if now, _ := c.Connected(); now {
				state = "connected"
			}
			for _, t := range c.Tools() {
				tools = append(tools, t.Name())
			}
		}
		out = append(out, []string{"mcp", name, "-", state, orDash(strings.Join(tools, ", "))})
	}
	for _, s := range w.skills {
		state := "always"
		if len(s.Triggers) > 0 {
			state = "on " + tool.CleanText(strings.Join(s.Triggers, ", "), 200)
		}
		out = append(out, []string{"skill", tool.CleanText(s.Name, 100), orDash(tool.CleanText(s.Version, 40)), state, orDash(strings.Join(s.Plugins, ", "))})
	}
	return out
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// readable says why a folder cannot be read.
func readable(dir string) error {
	_, err := os.ReadDir(dir)
	return wrapped("directory", err)
}

// checkManifests reads the manifests of all plugins of a directory.
func checkManifests(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "plugins", "*", "plugin.yaml"))
	errs := []error{err}
	for _, path := range paths {
		_, err := plugin.ReadManifest(filepath.Dir(path))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
