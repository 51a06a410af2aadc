// Command callback is a tool for voice agents in Go, with nothing but the standard
// library: it notes who wants to be called back, after the caller has said yes.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Request is what comes in, one a line.
type Request struct {
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Tool    string          `json:"tool"`
	Session string          `json:"session_id"`
	Params  json.RawMessage `json:"params"`
}

// Callback is the tool's arguments.
type Callback struct {
	Day string `json:"day"`
}

const tools = `{"tools":[{"name":"call_me_back","description":"Notes that the caller wants to be called back.",
"parameters":{"type":"object","properties":{"day":{"enum":["today","tomorrow"]}},"required":["day"],"additionalProperties":false},
"confirmation_required":true}]}`

var errMethod = errors.New("no such method")

// do answers one request; wanted are the days by conversation.
func do(q Request, wanted map[string]string) (any, error) {
	var c Callback
	switch q.Method {
	case "initialize":
		return json.RawMessage(tools), nil
	case "confirm", "execute":
		if err := json.Unmarshal(q.Params, &c); err != nil {
			return nil, err
		}
	default:
		return nil, errMethod
	}
	if q.Method == "confirm" {
		return "Shall we call you back " + c.Day + "?", nil
	}
	wanted[q.Session] = c.Day
	return map[string]any{"noted": c.Day, "waiting": len(wanted)}, nil
}

func main() {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<20)
	wanted := map[string]string{}
	for in.Scan() {
		var q Request
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			fmt.Fprintln(os.Stderr, err) // what is to be read by people
			continue
		}
		if q.ID == nil {
			continue // ready, event, $/cancelRequest: nothing to do here
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": q.ID}
		if result, err := do(q, wanted); err != nil {
			answer["error"] = map[string]any{"code": -32000, "message": err.Error()}
		} else {
			answer["result"] = result
		}
		if err := out.Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
