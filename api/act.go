package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"parley/agent"
)

// act is a POST that does something to one call: it reads the body into a B, checks
// it, and does it. The answer is 204 when it is done.
func act[B any](s *Server, do func(ctx context.Context, id string, body B) error) handler {
	return func(w http.ResponseWriter, r *http.Request, c client) error {
		id, err := callID(r)
		if err != nil {
			return err
		}
		var body B
		if _, err := readBody(w, r, &body); err != nil {
			return err
		}
		if err := extend(w, actionTimeout+writeTimeout); err != nil {
			return err
		}
		ctx, cancel := s.work(r, actionTimeout)
		defer cancel()
		if err := do(ctx, id, body); err != nil {
			return err
		}
		s.acted(r, id, c)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// extend lets the answer of w be written so much later. The body was read.
func extend(w http.ResponseWriter, d time.Duration) error {
	c := http.NewResponseController(w)
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return c.SetWriteDeadline(time.Now().Add(d))
}

// nothing is the body of what needs no more than the call's id.
type nothing struct{}

// handover is the body of POST /calls/{id}/transfer.
type handover struct {
	To       string            `json:"to"`
	Attended bool              `json:"attended"`
	Trunk    string            `json:"trunk"`
	Headers  map[string]string `json:"headers"`
}

func (s *Server) transfer(ctx context.Context, id string, b handover) (err error) {
	t := agent.Transfer{Attended: b.Attended}
	if t.To, err = target("to", b.To); err != nil {
		return err
	}
	if t.Trunk, err = label("trunk", b.Trunk); err != nil {
		return err
	}
	if t.Headers, err = headers("headers", b.Headers, false); err != nil {
		return err
	}
	err = s.parts.Calls.Transfer(ctx, id, t)
	if errors.Is(err, agent.ErrForbidden) {
		s.parts.Metrics.dialRefused(problemOf(err).Rule)
	}
	return err
}

// pressed is the body of POST /calls/{id}/dtmf.
type pressed struct {
	Digits string `json:"digits"`
}

func (s *Server) dtmf(ctx context.Context, id string, b pressed) error {
	digits, err := keys("digits", b.Digits)
	if err != nil {
		return err
	}
	return s.parts.Calls.SendDigits(ctx, id, digits)
}

func (s *Server) hold(ctx context.Context, id string, _ nothing) error {
	return s.parts.Calls.Hold(ctx, id)
}

func (s *Server) resume(ctx context.Context, id string, _ nothing) error {
	return s.parts.Calls.Resume(ctx, id)
}

// announcement is the body of POST /calls/{id}/say.
type announcement struct {
	Text string `json:"text"`
}

func (s *Server) say(ctx context.Context, id string, b announcement) error {
	text, err := paragraph("text", b.Text, maxSay)
	if err != nil {
		return err
	}
	if text == "" || len(text) > maxSayBytes {
		return wrongField("text", fmt.Sprintf("It must be of 1 to %d bytes.", maxSayBytes), "Send words, and not too many at once.")
	}
	return s.parts.Calls.Say(ctx, id, text)
}

// recording is the body of POST /calls/{id}/record.
type recording struct {
	On *bool `json:"on"`
}

func (s *Server) record(_ context.Context, id string, b recording) error {
	if b.On == nil {
		return wrongField("on", "It is missing.", "Send true to begin or false to end the recording.")
	}
	return s.parts.Calls.Record(id, *b.On)
}
