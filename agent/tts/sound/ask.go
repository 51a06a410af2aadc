package sound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"parley/agent/internal/wire"
)

// Request asks a service over HTTP for the sound of one text.
type Request struct {
	Service *wire.Service
	// Address, Body and Accept are what is posted, and what is taken for an answer.
	Address string
	Body    any
	Accept  string
	// Within is the longest that the service may send nothing.
	Within time.Duration
}

// errStalled cancels a request whose service sends nothing.
var errStalled = errors.New("it sends nothing")

// Post sends the request and has read take the answer, whose body need not be closed. A
// connection that was lost before the first sound is made anew, once; errors are those of
// wire.Service, of s, or of read. The request ends at once when the context of s does.
func (s *Speech) Post(r Request, read func(contentType string, body io.Reader) error) error {
	err := s.post(r, read)
	if err != nil && wire.Dropped(err) && s.Again() {
		err = s.post(r, read)
	}
	return s.Err(err)
}

func (s *Speech) post(r Request, read func(string, io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	watch := time.AfterFunc(r.Within, func() { cancel(errStalled) })
	defer watch.Stop()
	resp, err := r.Service.Post(ctx, r.Address, r.Body, r.Accept)
	watch.Stop()
	if err == nil {
		defer resp.Body.Close()
		body := &watched{body: resp.Body, watch: watch, within: r.Within}
		if err = read(resp.Header.Get("Content-Type"), body); err == nil {
			return nil
		}
		err = r.explain(ctx, resp, body, err)
	}
	if errors.Is(context.Cause(ctx), errStalled) {
		return fmt.Errorf("%s: %s sent nothing for %v", r.Service.Room, r.Service.Address, r.Within)
	}
	return err
}

// explain is an error of read in words that tell the operator what to do.
func (r Request) explain(ctx context.Context, resp *http.Response, body *watched, err error) error {
	var format *FormatError
	switch {
	case errors.As(err, &format):
		said := format.Text
		if said == "" {
			return fmt.Errorf("%s: %s answered %s: %w", r.Service.Room, r.Service.Address, resp.Status, err)
		}
		return fmt.Errorf("%s: %s answered %s: %w; it said: %s", r.Service.Room, r.Service.Address, resp.Status, err, r.Service.Said(said+wire.Excerpt(body)))
	case body.err != nil:
		return r.Service.Explain(ctx, body.err)
	}
	return fmt.Errorf("%s: %s: %w", r.Service.Room, r.Service.Address, err)
}

// watched is a body that must not let its reader wait too long.
type watched struct {
	body   io.Reader
	watch  *time.Timer
	within time.Duration
	err    error // what reading ended with, but for the end
}

func (w *watched) Read(p []byte) (int, error) {
	w.watch.Reset(w.within)
	n, err := w.body.Read(p)
	w.watch.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// Audio reads a body that is nothing but sound. expected is what bare samples are where the
// service does not say.
func (s *Speech) Audio(contentType string, body io.Reader, expected Format) error {
	d := NewDecoder(s.rate, expected, contentType)
	var buf [4 << 10]byte
	for {
		n, err := body.Read(buf[:])
		if err := d.Write(buf[:n], s.Sound); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			if err := d.Close(s.Sound); err != nil {
				return err
			}
			return s.End()
		case err != nil:
			return err
		}
	}
}
