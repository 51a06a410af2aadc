package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"parley/agent/internal/wire"
	"parley/agent/llm/internal/answer"
)

const (
	embedAtOnce  = 128 // texts in one request
	maxEmbedding = 64 << 20
)

// Embed turns texts into vectors by Config.EmbeddingModel. See llm.Embedder.
func (c *Completer) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if c.cfg.EmbeddingModel == "" {
		return nil, errors.New("ollama: embedding_model: is not set")
	}
	out := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		part := texts[:min(embedAtOnce, len(texts))]
		vectors, err := c.embedSome(ctx, part)
		if err != nil {
			return nil, err
		}
		out = append(out, vectors...)
		texts = texts[len(part):]
	}
	for _, v := range out {
		if len(v) == 0 || len(v) != len(out[0]) {
			return nil, fmt.Errorf("ollama: %s: the vectors differ in length, or are empty", c.service.Address)
		}
	}
	return out, nil
}

func (c *Completer) embedSome(ctx context.Context, texts []string) ([][]float32, error) {
	body := map[string]any{"model": c.cfg.EmbeddingModel, "input": texts}
	c.keepAlive(body)
	resp, err := c.service.Post(ctx, c.embed, body, "application/json")
	if err != nil {
		return nil, answer.Refused(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxEmbedding))
	if err != nil {
		return nil, c.service.Explain(ctx, err)
	}
	var got struct {
		Embeddings [][]float32     `json:"embeddings"`
		Error      json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &got); err != nil {
		return nil, fmt.Errorf("ollama: %s: the vectors cannot be read: %w", c.service.Address, err)
	}
	if said := wire.FailureText(got.Error); said != "" {
		return nil, answer.Failed(ctx, c.service, &answer.ServiceError{Text: said})
	}
	if len(got.Embeddings) != len(texts) {
		return nil, fmt.Errorf("ollama: %s: gave %d vectors for %d texts", c.service.Address, len(got.Embeddings), len(texts))
	}
	return got.Embeddings, nil
}
