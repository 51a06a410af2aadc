package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"parley/config"
)

// Agents with the same documents share them; they are found once they were read, and
// again after the folder changed. A store in a folder keeps what was read.
func TestDocuments(t *testing.T) {
	docs := t.TempDir()
	if err := os.WriteFile(filepath.Join(docs, "parking.md"), []byte("# Parking\n\nParking behind the house costs two euros an hour.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Retrieval.Directory, cfg.Retrieval.Store = docs, filepath.Join(t.TempDir(), "index")
	p := &plugs{cfg: &cfg, log: zap.NewNop(), libraries: map[config.Retrieval]*library{}}
	defer p.close()
	index, err := p.library("", &cfg.Assistant)
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.library("agents.a.", &cfg.Assistant)
	if err != nil || again != index || len(p.libraries) != 1 {
		t.Errorf("%v, %d libraries", err, len(p.libraries))
	}
	find := func(question string) string {
		got, err := index.Search(t.Context(), question, 2)
		if err != nil {
			t.Error(err)
		}
		return strings.Join(got, "|")
	}
	if err := p.readDocuments(t.Context()); err != nil {
		t.Error(err)
	}
	if got := find("what does parking cost"); !strings.Contains(got, "two euros") {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(filepath.Join(docs, "parking.md"), []byte("# Parking\n\nParking behind the house costs three euros an hour.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.readDocuments(t.Context()); err != nil {
		t.Error(err)
	}
	if got := find("what does parking cost"); !strings.Contains(got, "three euros") || strings.Contains(got, "two") {
		t.Errorf("%q", got)
	}
	none := cfg.Assistant
	none.Retrieval.Directory = ""
	if index, err := p.library("", &none); index != nil || err != nil {
		t.Errorf("%v %v", index, err)
	}
}

// check looks at folders and opens no store; a store that cannot be had is told with its
// place.
func TestCheckLooksAtDocuments(t *testing.T) {
	if !embeddedSpeech {
		t.Skip("needs the embedded voice")
	}
	store := filepath.Join(t.TempDir(), "index")
	text := "[llm]\nprovider = \"agent\"\n[agent]\nurl = \"http://127.0.0.1:9/\"\n[retrieval]\ndirectory = \"/nonexistent\"\nstore = \"" + store + "\"\n"
	conf := write(t, text)
	code, out, _ := execute(t, []string{"PARLEY_VAD_KIND=energy"}, "check", "-c", conf)
	if code != 1 || !strings.Contains(out, conf+":6: retrieval.directory: ") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if _, err := os.Stat(store); err == nil {
		t.Error("check made the store")
	}
	cfg := config.Default()
	cfg.Retrieval.Directory, cfg.Retrieval.DSN = t.TempDir(), config.NewSecret("postgres://127.0.0.1:1/x?connect_timeout=1")
	p := &plugs{cfg: &cfg, log: zap.NewNop(), libraries: map[config.Retrieval]*library{}}
	defer p.close()
	if _, err := p.library("", &cfg.Assistant); err != nil {
		t.Fatal(err)
	}
	if err := p.readDocuments(t.Context()); err == nil || !strings.Contains(err.Error(), "retrieval") {
		t.Errorf("%v", err)
	}
}
