package openai

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

// hears is a service that hears what is loud.
func hears(stream bool) answering {
	return func(w http.ResponseWriter, r *http.Request, a asked) {
		words := ""
		if voiced(a.pcm, a.rate, -30) {
			words = "hello"
		}
		if stream && len(a.fields["stream"]) == 1 {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			for _, part := range []string{"", "hel", "lo"} {
				if words == "" {
					part = ""
				}
				_, _ = fmt.Fprintf(w, "data: {\"type\":\"transcript.text.delta\",\"delta\":%q}\n\n", part)
				w.(http.Flusher).Flush()
			}
			_, _ = fmt.Fprintf(w, "data: {\"type\":\"transcript.text.done\",\"text\":%q}\n\n", words)
			return
		}
		_, _ = fmt.Fprintf(w, `{"text":" %s\n","segments":[{"text":" %s","start":0,"end":1,"avg_logprob":-0.1,"no_speech_prob":0.01}]}`, words, words)
	}
}

func TestSuite(t *testing.T) {
	for _, rate := range []int{8000, 16000} {
		for name, change := range map[string]func(*Config){
			"plain":    func(*Config) {},
			"interims": func(c *Config) { c.Interims = 100 * time.Millisecond },
			"stream":   func(c *Config) { c.Stream = true },
		} {
			t.Run(strconv.Itoa(rate)+" "+name, func(t *testing.T) {
				s := serve(t, hears(name == "stream"))
				stttest.Run(t, stttest.Subject{
					New: func(t *testing.T) stt.Recognizer {
						return recognizer(t, s.server.URL, func(c *Config) {
							c.Rate = rate
							change(c)
						})
					},
					Options: stt.Options{Language: "en-GB", Expect: stt.Expect{Phrases: []string{"hello"}}},
					Speech:  speechOf(rate),
					Text:    "hello",
				})
			})
		}
	}
}
