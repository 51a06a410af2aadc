package retrieval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// maxDocument is the most bytes of a document that is taken.
const maxDocument = 8 << 20

// batch is how many chunks are embedded by one request.
const batch = 64

// Config is how an Index searches.
type Config struct {
	// Model names what embeds. A document is embedded again when it changes.
	Model string
	// MaxChunk is the most runes of a passage. 0: MaxChunk.
	MaxChunk int
	// MinSimilarity keeps passages out that have too little to do with the question, 0 to
	// 1. What is much depends on the model: 0.1 for Words, 0.3 and more for others.
	MinSimilarity float64
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if c.MaxChunk != 0 && c.MaxChunk < 50 {
		errs = append(errs, fmt.Errorf("retrieval: max chunk %d is neither 0 nor at least 50", c.MaxChunk))
	}
	if !(c.MinSimilarity >= 0 && c.MinSimilarity <= 1) { // NaN is not either
		errs = append(errs, fmt.Errorf("retrieval: min similarity %v is not between 0 and 1", c.MinSimilarity))
	}
	return errors.Join(errs...)
}

// Index is documents that can be searched. It is safe for concurrent use; Sync and
// Search may run at the same time.
type Index struct {
	cfg   Config
	embed Embedder
	store Store
}

// New makes an Index over a store, which stays the caller's to close.
func New(cfg Config, e Embedder, s Store) (*Index, error) {
	if e == nil || s == nil {
		return nil, errors.New("retrieval: an embedder and a store are needed")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Index{cfg: cfg, embed: e, store: s}, nil
}

// Report is what Sync did.
type Report struct {
	// Added, Unchanged and Removed count documents, Chunks the passages of those added.
	Added, Unchanged, Removed, Chunks int
}

// Sync makes the store hold the documents of a folder: the files that end in .md,
// .markdown or .txt, below it too, hidden ones left out. Those that have not changed are
// not embedded again. A document that fails is named in the error and left as it was;
// the others are done.
func (x *Index) Sync(ctx context.Context, documents fs.FS) (Report, error) {
	r, err := x.sync(ctx, documents)
	if !errors.Is(err, ErrDimensions) {
		return r, err
	}
	// The vectors that are held are another model's: none of them is of use.
	held, err := x.store.Sources(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("retrieval: sources: %w", err)
	}
	for name := range held {
		if err := x.store.Remove(ctx, name); err != nil {
			return Report{}, fmt.Errorf("retrieval: %s: %w", name, err)
		}
	}
	return x.sync(ctx, documents)
}

func (x *Index) sync(ctx context.Context, documents fs.FS) (r Report, err error) {
	held, err := x.store.Sources(ctx)
	if err != nil {
		return r, fmt.Errorf("retrieval: sources: %w", err)
	}
	var errs []error
	unread := false
	walked := fs.WalkDir(documents, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			errs, unread = append(errs, fmt.Errorf("retrieval: %w", err)), true
			return nil
		case name != "." && strings.HasPrefix(path.Base(name), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() || !isDocument(name):
			return nil
		}
		version, known := held[name]
		delete(held, name)
		chunks, err := x.take(ctx, documents, name, version, known)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			errs = append(errs, fmt.Errorf("retrieval: %s: %w", name, err))
		case chunks < 0:
			r.Unchanged++
		default:
			r.Added++
			r.Chunks += chunks
		}
		return nil
	})
	if walked != nil || unread { // what was not looked at is not gone
		return r, errors.Join(append(errs, walked)...)
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if err := x.store.Remove(ctx, name); err != nil {
			errs = append(errs, fmt.Errorf("retrieval: %s: %w", name, err))
			continue
		}
		r.Removed++
	}
	return r, errors.Join(errs...)
}

func isDocument(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown", ".txt":
		return true
	}
	return false
}

// take stores one document and says into how many chunks it was cut; -1: it is in the
// store as it is.
func (x *Index) take(ctx context.Context, documents fs.FS, name, version string, known bool) (int, error) {
	info, err := fs.Stat(documents, name)
	if err != nil {
		return 0, err
	}
	if info.Size() > maxDocument {
		return 0, fmt.Errorf("has %d bytes, must not have more than %d: cut it into several", info.Size(), maxDocument)
	}
	text, err := fs.ReadFile(documents, name)
	if err != nil {
		return 0, err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %s\n", x.cfg.MaxChunk, x.cfg.Model)
	sum.Write(text)
	now := hex.EncodeToString(sum.Sum(nil))
	if known && now == version {
		return -1, nil
	}
	passages := Split(string(text), x.cfg.MaxChunk)
	chunks := make([]Chunk, 0, len(passages))
	for some := range slices.Chunk(passages, batch) {
		vectors, err := x.vectors(ctx, some)
		if err != nil {
			return 0, err
		}
		for i, v := range vectors {
			chunks = append(chunks, Chunk{Text: some[i], Vector: v})
		}
	}
	return len(chunks), x.store.Replace(ctx, name, now, chunks)
}

// vectors embeds texts and checks what came.
func (x *Index) vectors(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := x.embed.Embed(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("embed: %d vectors came for %d texts", len(vectors), len(texts))
	}
	for _, v := range vectors {
		if len(v) == 0 || len(v) != len(vectors[0]) {
			return nil, fmt.Errorf("embed: a vector has %d numbers and another %d", len(v), len(vectors[0]))
		}
		Normalize(v)
	}
	return vectors, nil
}

// Search returns the passages that have most to do with query, best first, at most
// limit; none when nothing has enough to do with it.
func (x *Index) Search(ctx context.Context, query string, limit int) ([]string, error) {
	hits, err := x.Hits(ctx, query, limit)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, h := range hits {
		out = append(out, h.Text)
	}
	return out, nil
}

// Hits is Search that tells where each passage is from and how similar it is.
func (x *Index) Hits(ctx context.Context, query string, limit int) ([]Hit, error) {
	if strings.TrimSpace(query) == "" || limit <= 0 {
		return nil, nil
	}
	vectors, err := x.vectors(ctx, []string{query})
	if err != nil {
		return nil, fmt.Errorf("retrieval: %w", err)
	}
	if isZero(vectors[0]) { // nothing to go by, such as a lone question mark
		return nil, nil
	}
	hits, err := x.store.Search(ctx, vectors[0], limit)
	if err != nil {
		return nil, fmt.Errorf("retrieval: search: %w", err)
	}
	return slices.DeleteFunc(hits, func(h Hit) bool { return !(float64(h.Similarity) >= x.cfg.MinSimilarity) }), nil // NaN goes too
}

func isZero(v []float32) bool {
	return !slices.ContainsFunc(v, func(x float32) bool { return x != 0 })
}
