// Command agent-go is a voice agent for Parley in plain Go: go run ., then point
// [agent] url at it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Turn is what Parley sends.
type Turn struct {
	SessionID   string `json:"session_id"`
	ResourceID  string `json:"resource_id"`
	Type        string `json:"type"`
	Text        string `json:"text"`
	Interrupted string `json:"interrupted_text"`
}

// Line is something that was said.
type Line struct{ Who, Words string }

// Agent keeps what was said in each call, by session id, and the names of people,
// by resource id.
type Agent struct {
	key string

	mu    sync.Mutex
	talks map[string][]*Line
	names map[string]string
}

var named = regexp.MustCompile(`(?i)my name is (\w+)`)

// reply takes a turn of the caller and what was said before, and says words as they
// are ready.
func (a *Agent) reply(ctx context.Context, t Turn, before []*Line, say func(string)) {
	who := t.ResourceID
	if who == "" {
		who = t.SessionID
	}
	name := named.FindStringSubmatch(t.Text)
	a.mu.Lock()
	known := a.names[who]
	if name != nil {
		a.names[who] = name[1]
	}
	a.mu.Unlock()
	switch {
	case t.Interrupted != "":
		say("I stopped at: " + t.Interrupted + ". ")
	case len(before) == 0 && known != "":
		say("Welcome back, " + known + ". ")
	}
	switch {
	case name != nil:
		say("Nice to meet you, " + name[1] + ".")
	case strings.Contains(t.Text, "count"):
		for word := range strings.SplitSeq("One Two Three Four Five Six Seven Eight Nine Ten", " ") {
			say(word + ". ")
			select {
			case <-time.After(300 * time.Millisecond):
			case <-ctx.Done():
				fmt.Println("the caller barged in")
				return
			}
		}
	default:
		say("You said: " + t.Text + ".")
	}
}

// begin notes a turn, and returns what was said before and the line for the reply.
func (a *Agent) begin(t Turn) (before []*Line, mine *Line) {
	a.mu.Lock()
	defer a.mu.Unlock()
	talk := a.talks[t.SessionID]
	if len(talk) > 0 && t.Interrupted != "" {
		talk[len(talk)-1] = &Line{"agent", t.Interrupted} // the caller heard this much, not the whole reply
	}
	mine = &Line{Who: "agent"}
	a.talks[t.SessionID] = append(talk, &Line{"caller", t.Text}, mine)
	return talk, mine
}

// ServeHTTP answers one turn.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var t Turn
	if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if a.key != "" && r.Header.Get("Authorization") != "Bearer "+a.key {
		http.Error(w, "wrong key", http.StatusUnauthorized)
		return
	}
	if t.Type != "chat" { // "oneshot" asks beside the conversation; "start" and "end" only tell
		text := ""
		if t.Type == "oneshot" {
			text = fmt.Sprintf("%d words.", len(strings.Fields(t.Text)))
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"text": text})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	before, mine := a.begin(t)
	a.reply(r.Context(), t, before, func(words string) {
		mine.Words += words
		data, _ := json.Marshal(map[string]string{"delta": words})
		fmt.Fprintf(w, "data: %s\n\n", data)
		_ = http.NewResponseController(w).Flush()
	})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "9000"
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/agent\n", l.Addr())
	agent := &Agent{key: os.Getenv("AGENT_KEY"), talks: map[string][]*Line{}, names: map[string]string{}}
	log.Fatal(http.Serve(l, agent))
}
