package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"parley/agent/llm/ollama"
	"parley/agent/llm/openai"
	"parley/agent/retrieval"
	"parley/agent/retrieval/chromem"
	"parley/agent/retrieval/pgvector"
	"parley/config"
)

// readPatience is how long documents may take to be read.
const readPatience = 10 * time.Minute

// library is the documents of one [retrieval], which agents with the same share.
type library struct {
	index   *retrieval.Index
	section string
	dir     string
}

// library makes where an agent looks things up; nil when it looks up nothing. Nothing is
// read yet.
func (p *plugs) library(prefix string, a *config.Assistant) (*retrieval.Index, error) {
	r, section := a.Retrieval, prefix+"retrieval"
	if r.Directory == "" {
		return nil, nil
	}
	if l, ok := p.libraries[r]; ok {
		return l.index, nil
	}
	embedder, err := p.embedder(r)
	if err != nil {
		return nil, p.cfg.Complain(section, err)
	}
	store := &later{open: func(ctx context.Context) (retrieval.Store, error) {
		if dsn := r.DSN.Reveal(); dsn != "" {
			store, err := pgvector.Open(ctx, dsn)
			return store, wrapped("dsn", err)
		}
		store, err := chromem.Open(r.Store)
		return store, wrapped("store", err)
	}}
	p.undo = append(p.undo, func() { complainTo(p.log, "documents", store.Close()) })
	index, err := retrieval.New(r.IndexConfig(), embedder, store)
	if err != nil {
		return nil, p.cfg.Complain(section, err)
	}
	p.libraries[r] = &library{index, section, r.Directory}
	return index, nil
}

// embedder makes what turns texts into vectors.
func (p *plugs) embedder(r config.Retrieval) (retrieval.Embedder, error) {
	switch r.Embedder {
	case "words":
		return retrieval.Words{}, nil
	case "openai":
		c, err := openai.New(r.OpenAIConfig())
		if err != nil {
			return nil, err
		}
		p.undo = append(p.undo, c.Close)
		return c, nil
	case "ollama":
		c, err := ollama.New(r.OllamaConfig())
		if err != nil {
			return nil, err
		}
		p.undo = append(p.undo, c.Close)
		return c, nil
	}
	return nil, fmt.Errorf("embedder: no embedder %q", r.Embedder)
}

// readDocuments brings all libraries up to date with their folders. Calls may come
// meanwhile: they find what is read by then.
func (p *plugs) readDocuments(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	var errs []error
	for _, l := range p.libraries {
		r, err := l.index.Sync(ctx, os.DirFS(l.dir))
		if err != nil {
			errs = append(errs, p.cfg.Complain(l.section, err))
		}
		p.log.Info("documents were read", zap.String("directory", l.dir), zap.Int("new", r.Added), zap.Int("unchanged", r.Unchanged),
			zap.Int("gone", r.Removed), zap.Int("passages", r.Chunks), zap.Error(err))
	}
	return errors.Join(errs...)
}

// startDocuments reads the documents in the background.
func (p *plugs) startDocuments() {
	if len(p.libraries) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.readDocuments(ctx) // logged there
	}()
	p.undo = append(p.undo, func() { cancel(); <-done })
}

// checkDocuments says which folders of documents cannot be read.
func (p *plugs) checkDocuments() error {
	var errs []error
	for _, l := range p.libraries {
		errs = append(errs, p.cfg.Complain(l.section, readable(l.dir)))
	}
	return errors.Join(errs...)
}
