//go:build race

package e2e

// raced says that the race detector is on, which makes everything several times
// slower: no bar is held against it.
const raced = true
