// Package retrieval finds passages of an operator's documents that may help to answer
// what a caller said. Documents are cut into chunks, chunks become vectors, and those
// nearest to the question are found. Stores are in the sub-packages; retrievaltest is
// the suite that all of them pass.
package retrieval

import (
	"context"
	"errors"
)

// Embedder turns texts into vectors. It is safe for concurrent use. The embedders of
// language models (llm.Embedder) are one; Words needs no model.
type Embedder interface {
	// Embed gives one vector for each text, in order and all of the same length.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Chunk is a passage of a document.
type Chunk struct {
	// Text is what may be told to a model: the headings that the passage stands under,
	// and the passage.
	Text string
	// Vector is Text's, of length 1.
	Vector []float32
}

// Hit is a chunk that was found.
type Hit struct {
	Text, Source string
	// Similarity is the cosine between the chunk and the question, -1 to 1.
	Similarity float32
}

// Store keeps chunks. It is safe for concurrent use.
type Store interface {
	// Replace makes chunks all there is of a document. version is what Sources tells of
	// it from then on. It happens as a whole or not at all.
	Replace(ctx context.Context, source, version string, chunks []Chunk) error
	// Remove forgets a document; one that is unknown is no error.
	Remove(ctx context.Context, source string) error
	// Sources are the versions of the documents it holds, by their names.
	Sources(ctx context.Context) (map[string]string, error)
	// Search finds the chunks most similar to a vector, best first, at most limit. An
	// empty store has none.
	Search(ctx context.Context, vector []float32, limit int) ([]Hit, error)
	// Close frees the store.
	Close() error
}

// ErrDimensions is wrapped when a vector is not as long as those a store holds: the
// documents were embedded by another model.
var ErrDimensions = errors.New("retrieval: vectors of another length")
