// Package openai runs models behind any service that speaks the chat completions
// protocol of OpenAI: OpenAI itself, llama.cpp, vLLM, LM Studio, Groq, OpenRouter and
// others, each of which speaks it a little differently.
package openai

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Config says where the service is and which model to run. Start from DefaultConfig.
type Config struct {
	// BaseURL is the service's address, http or https, such as
	// "https://api.openai.com/v1". Without a path "/v1" is taken. One that ends in
	// "/chat/completions" is taken as it is. A query is kept.
	BaseURL string
	// APIKey is sent as "Authorization: Bearer …". Empty: no such header. It is in no
	// log and no error.
	APIKey string
	// Model is the model's name.
	Model string
	// Header goes with each request, such as "api-key". The values are secrets.
	Header map[string]string

	// MaxTokens bounds the answers to requests that do not say; 0: the service's own
	// bound.
	MaxTokens int
	// Temperature is for requests that do not say; nil: the service's own.
	Temperature *float64
	// DeveloperRole is the role that notices of the gateway go by: "developer",
	// "system", or "user" for models that take instructions at the beginning only;
	// "merge" for models that take nothing but caller and model by turns after that:
	// notices become part of the message beside them. Empty: "developer" at
	// api.openai.com, "system" elsewhere. A service that refuses a request for its
	// roles gets it merged, and then without a system message, whatever this says; what
	// it takes is kept to.
	DeveloperRole string
	// MaxTokensField is the name of the bound: "max_tokens" or "max_completion_tokens".
	// Empty: the second at api.openai.com, the first elsewhere.
	MaxTokensField string
	// NoUsage leaves out the question for the number of tokens, which a few services
	// refuse.
	NoUsage bool
	// Extra are further fields of each request, such as "reasoning_effort".
	Extra map[string]any

	// EmbeddingModel is the model of Embed; EmbeddingDimensions shortens its vectors, 0:
	// not at all.
	EmbeddingModel      string
	EmbeddingDimensions int

	// Transport, when set, replaces the pool of connections.
	Transport http.RoundTripper
}

// DefaultConfig is a Config that lacks nothing but the model and the key.
func DefaultConfig() Config { return Config{BaseURL: "https://api.openai.com/v1"} }

// reserved are the fields that Config.Extra may not set.
var reserved = []string{"messages", "model", "n", "stream", "tools"}

// Validate reports everything that is wrong with c, each with the setting's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if _, err := c.endpoints(); err != nil {
		errs = append(errs, err)
	}
	if c.Model == "" && c.EmbeddingModel == "" {
		bad("model: must be set, such as \"gpt-4o-mini\", or what the service calls its model")
	}
	if !visible(c.APIKey) {
		bad("api_key: holds white space, a line break or a character that no header can carry")
	}
	for name, value := range c.Header {
		if name == "" || !visible(name) || strings.ContainsAny(value, "\r\n\x00") {
			bad("header: %q or its value is none that a request can carry", name)
		}
	}
	if c.MaxTokens < 0 {
		bad("max_tokens: %d, must not be negative", c.MaxTokens)
	}
	if t := c.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		bad("temperature: %v, must be between 0 and 2", *t)
	}
	if !slices.Contains([]string{"", "developer", "system", "user", roleMerge}, c.DeveloperRole) {
		bad("developer_role: %q, must be \"developer\", \"system\", \"user\" or \"merge\"", c.DeveloperRole)
	}
	if !slices.Contains([]string{"", "max_tokens", "max_completion_tokens"}, c.MaxTokensField) {
		bad("max_tokens_field: %q, must be \"max_tokens\" or \"max_completion_tokens\"", c.MaxTokensField)
	}
	for _, name := range reserved {
		if _, there := c.Extra[name]; there {
			bad("extra: %s is set by the gateway", name)
		}
	}
	if c.EmbeddingDimensions < 0 {
		bad("embedding_dimensions: %d, must not be negative", c.EmbeddingDimensions)
	}
	return errors.Join(errs...)
}

func visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// endpoints are the addresses of the service's parts.
type endpoints struct {
	base             *url.URL
	chat, embeddings string
}

const chatPath = "/chat/completions"

func (c Config) endpoints() (endpoints, error) {
	u, err := url.Parse(c.BaseURL)
	switch {
	case c.BaseURL == "":
		return endpoints{}, errors.New("base_url: must be set, such as \"https://api.openai.com/v1\"")
	case err != nil: // url's own error repeats the address, and a secret in it
		return endpoints{}, errors.New("base_url: is no address, must be such as \"https://api.openai.com/v1\"")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return endpoints{}, errors.New("base_url: must begin with http:// or https:// and name a host")
	case u.User != nil:
		return endpoints{}, errors.New("base_url: must not hold a user or password; set api_key instead")
	}
	u.Fragment = ""
	path, whole := strings.CutSuffix(strings.TrimRight(u.Path, "/"), chatPath)
	if path == "" && !whole {
		path = "/v1"
	}
	at := func(end string) string {
		v := *u
		v.Path, v.RawPath = path+end, ""
		return v.String()
	}
	base := *u
	base.Path, base.RawPath = path, ""
	return endpoints{base: &base, chat: at(chatPath), embeddings: at("/embeddings")}, nil
}

// isOpenAI says whether the service is OpenAI's own.
func (e endpoints) isOpenAI() bool { return e.base.Hostname() == "api.openai.com" }
