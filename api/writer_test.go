package api

import (
	"errors"
	"net/http/httptest"
	"sync"
	"time"
)

// recorderWithDeadlines is an httptest.ResponseRecorder whose writes may fail and
// may be read while they are made.
type recorderWithDeadlines struct {
	*httptest.ResponseRecorder
	mu       sync.Mutex
	fail     error // what Write returns
	deadline time.Time
	flushed  int
	noRead   bool // SetReadDeadline is not supported
	noWrite  bool
}

func newRecorder() *recorderWithDeadlines {
	return &recorderWithDeadlines{ResponseRecorder: httptest.NewRecorder()}
}

func (r *recorderWithDeadlines) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return 0, r.fail
	}
	return r.ResponseRecorder.Write(p)
}

func (r *recorderWithDeadlines) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushed++
	return r.fail
}

func (r *recorderWithDeadlines) SetReadDeadline(time.Time) error {
	if r.noRead {
		return errors.New("no read deadline")
	}
	return nil
}

func (r *recorderWithDeadlines) SetWriteDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noWrite {
		return errors.New("no write deadline")
	}
	r.deadline = t
	return nil
}

// text is what was written so far.
func (r *recorderWithDeadlines) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Body.String()
}

// break makes writes fail.
func (r *recorderWithDeadlines) breaks(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}
