package ollama

import (
	"context"
	"testing"

	"parley/agent/llm"
	"parley/agent/llm/llmtest"
	"parley/agent/llm/runtime"
)

// A client over this completer passes the suite of all clients.
func TestClient(t *testing.T) {
	client := func(t *testing.T, b llmtest.ClientBackend) llm.Client {
		cfg := runtime.DefaultConfig()
		c, err := runtime.NewClient(open(t, serve(t, speak(t, false, b.Service())), nil), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if closer, ok := c.(llm.Closer); ok {
			t.Cleanup(func() { closer.Close(context.Background(), llm.End{Cause: "test"}) })
		}
		return c
	}
	llmtest.RunClient(t, client)
	llmtest.RunClientTools(t, client)
}
