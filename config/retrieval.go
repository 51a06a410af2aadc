package config

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"parley/agent/llm/ollama"
	"parley/agent/llm/openai"
	"parley/agent/retrieval"
)

// Embedders may stand in retrieval.embedder.
var Embedders = []string{"words", "openai", "ollama"}

// Retrieval is where an agent looks up what may help to answer.
type Retrieval struct {
	// Directory holds documents, .md and .txt. Empty: nothing is looked up.
	Directory string
	// Store is a folder for what was read of them; DSN a database of PostgreSQL with
	// pgvector instead. Both empty: they are read anew at each start.
	Store   string
	DSN     Secret
	DSNFile string
	// Embedder is one of Embedders; Model, BaseURL and APIKey are those of its service.
	Embedder   string
	Model      string
	BaseURL    string
	APIKey     Secret
	APIKeyFile string
	// MinSimilarity and MaxChunk are those of retrieval.Config.
	MinSimilarity float64
	MaxChunk      int
	// Limit is how many passages go with a turn, MinWords how many words a turn needs for
	// a search, Wait how long a reply waits for one.
	Limit    int
	MinWords int
	Wait     time.Duration
}

// defaultRetrieval finds by words.
func defaultRetrieval() Retrieval {
	return Retrieval{Embedder: "words", MinSimilarity: 0.1, Limit: 4, MinWords: 3, Wait: 400 * time.Millisecond}
}

// IndexConfig is the configuration of the index.
func (r Retrieval) IndexConfig() retrieval.Config {
	return retrieval.Config{Model: r.Embedder + " " + r.Model, MaxChunk: r.MaxChunk, MinSimilarity: r.MinSimilarity}
}

// OpenAIConfig is the configuration of an embedder of "openai".
func (r Retrieval) OpenAIConfig() openai.Config {
	out := openai.DefaultConfig()
	out.BaseURL, out.APIKey, out.EmbeddingModel = cmp.Or(r.BaseURL, out.BaseURL), r.APIKey.Reveal(), r.Model
	return out
}

// OllamaConfig is the configuration of an embedder of "ollama".
func (r Retrieval) OllamaConfig() ollama.Config {
	out := ollama.DefaultConfig()
	out.BaseURL, out.APIKey, out.EmbeddingModel = cmp.Or(r.BaseURL, out.BaseURL), r.APIKey.Reveal(), r.Model
	return out
}

// validateRetrieval checks where an agent looks things up.
func (l *loader) validateRetrieval(prefix string, a *Assistant) {
	r, section := a.Retrieval, prefix+"retrieval"
	l.choice(section+".embedder", r.Embedder, Embedders)
	l.room(section, r.IndexConfig().Validate())
	if r.Limit < 1 || r.Limit > 50 {
		l.wrong(section+".limit", fmt.Sprintf("%d, must be between 1 and 50", r.Limit))
	}
	if r.MinWords < 0 {
		l.wrong(section+".min_words", fmt.Sprintf("%d, must not be negative", r.MinWords))
	}
	if r.Wait < 0 || r.Wait > 10*time.Second {
		l.wrong(section+".wait", fmt.Sprintf("%v is not between 0s and 10s", r.Wait))
	}
	if r.Directory == "" {
		return
	}
	if r.Store != "" && (r.DSN.Reveal() != "" || r.DSNFile != "") {
		l.wrong(section+".store", "give store or dsn, not both")
	}
	switch r.Embedder {
	case "openai":
		l.room(section, errors.Join(r.OpenAIConfig().Validate(),
			l.keyed(section, r.OpenAIConfig().BaseURL, "api.openai.com", r.APIKey, nil)))
	case "ollama":
		l.room(section, r.OllamaConfig().Validate())
	}
}
