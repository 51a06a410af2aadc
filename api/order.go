package api

import (
	"fmt"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"parley/call"
	"parley/identity"
)

// order is the body of POST /calls.
type order struct {
	To          string            `json:"to"`
	Trunk       string            `json:"trunk"`
	Targets     []aim             `json:"targets"`
	Strategy    string            `json:"strategy"`
	From        string            `json:"from"`
	Name        string            `json:"name"`
	Agent       string            `json:"agent"`
	Headers     map[string]string `json:"headers"`
	RingTimeout *int              `json:"ring_timeout_seconds"`
	ResourceID  string            `json:"resource_id"`
	Context     map[string]string `json:"context"`
}

// aim is one of several who may take a call.
type aim struct {
	To    string `json:"to"`
	Trunk string `json:"trunk"`
}

// whom checks who is to be called.
func (o order) whom(out *call.Outgoing) (err error) {
	if len(o.Targets) == 0 {
		if out.To, err = target("to", o.To); err != nil {
			return err
		}
		if o.Strategy != "" {
			return wrongField("strategy", "It says how targets are called, and there are none.", "Send targets, or leave it out.")
		}
		out.Trunk, err = label("trunk", o.Trunk)
		return err
	}
	switch {
	case o.To != "" || o.Trunk != "":
		return wrongField("targets", "They stand instead of to and trunk.", "Put to and trunk into each target.")
	case len(o.Targets) > maxTargets:
		return wrongField("targets", fmt.Sprintf("There are more than %d.", maxTargets), "Send fewer.")
	case o.Strategy != "serial" && o.Strategy != "parallel":
		return wrongField("strategy", "It must be serial or parallel.", "Send serial to call one after the other, parallel to call all at the same time.")
	}
	out.Parallel = o.Strategy == "parallel"
	for i, a := range o.Targets {
		var t call.Target
		if t.To, err = target(fmt.Sprintf("targets[%d].to", i), a.To); err != nil {
			return err
		}
		if t.Trunk, err = label(fmt.Sprintf("targets[%d].trunk", i), a.Trunk); err != nil {
			return err
		}
		out.Targets = append(out.Targets, t)
	}
	return nil
}

// outgoing checks the order and cleans its texts.
func (o order) outgoing() (out call.Outgoing, err error) {
	if err = o.whom(&out); err != nil {
		return out, err
	}
	if out.From, err = callerID("from", o.From); err != nil {
		return out, err
	}
	if out.Name, err = line("name", o.Name, maxName); err != nil {
		return out, err
	}
	if out.Agent, err = label("agent", o.Agent); err != nil {
		return out, err
	}
	if out.Headers, err = headers("headers", o.Headers, true); err != nil {
		return out, err
	}
	if out.RingTimeout, err = ringTime("ring_timeout_seconds", o.RingTimeout); err != nil {
		return out, err
	}
	if out.ResourceID, err = person("resource_id", o.ResourceID, false); err != nil {
		return out, err
	}
	out.Context, err = notes("context", o.Context)
	return out, err
}

// placed is the answer of POST /calls.
type placed struct {
	ID     string `json:"id"`
	Call   string `json:"call"`
	Events string `json:"events"`
}

// dialCall is POST /calls. The call is accepted for dialling when it answers; how
// it goes on is in GET /calls/{id} and in the call's events.
func (s *Server) dialCall(w http.ResponseWriter, r *http.Request, c client) error {
	key := r.Header.Get("Idempotency-Key")
	if len(r.Header.Values("Idempotency-Key")) > 1 || len(key) > 255 || !every(key, func(b byte) bool { return b >= ' ' && b < 0x7f }) {
		return wrongField("Idempotency-Key", "It must be at most 255 printable ASCII characters.", "Send a UUID.")
	}
	var o order
	body, err := readBody(w, r, &o)
	if err != nil {
		return err
	}
	out, err := o.outgoing()
	if err != nil {
		return err
	}
	end := func(string) {}
	if key != "" {
		var id string
		if id, end, err = s.once.begin(c.id+"\x00"+key, body, s.now()); err != nil {
			return err
		}
		if id != "" {
			return accepted(w, id)
		}
	}
	id := ""
	defer func() { end(id) }() // also when Dial panics
	ctx, cancel := s.work(r, dialTimeout)
	defer cancel()
	if id, err = s.parts.Calls.Dial(ctx, out); err != nil {
		id = ""
		p := dialProblem(err)
		s.parts.Metrics.dialRefused(p.Rule)
		return p
	}
	s.log.Info("call placed", zap.String("call_id", id), zap.String("client", c.name), zap.String("trunk", out.Trunk), zap.String("agent", out.Agent), zap.String("to", identity.Mask(out.To)), zap.Int("targets", len(out.Targets)))
	return accepted(w, id)
}

// dialProblem is problemOf for Dial, whose other errors say what is wrong with the
// order.
func dialProblem(err error) *problem {
	p := problemOf(err)
	if text, ok := strings.CutPrefix(err.Error(), "call: "); ok && p.Rule == "internal" {
		return trouble(http.StatusBadRequest, "order", text, "Change the request, or the routes, agents and trunks of the configuration.")
	}
	return p
}

// accepted answers that a call is being placed.
func accepted(w http.ResponseWriter, id string) error {
	at := "/calls/" + id
	w.Header().Set("Location", at)
	give(w, http.StatusAccepted, placed{ID: id, Call: at, Events: at + "/events"})
	return nil
}
