package sessiontest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"parley/agent/session"
)

// Again opens the same storage each time it is called; what it returns is closed when
// the test ends.
type Again func(t *testing.T) *session.Store

// RunShared runs the tests for storage that outlives a store and that several stores
// share. place returns storage that nobody else uses.
func RunShared(t *testing.T, place func(t *testing.T) Again) {
	t.Run("Reopen", func(t *testing.T) { reopen(t, place(t)) })
	t.Run("OpenAtOnce", func(t *testing.T) { openAtOnce(t, place(t)) })
	t.Run("TwoStores", func(t *testing.T) { twoStores(t, place(t)) })
	t.Run("CreateInTwoStores", func(t *testing.T) { createInTwoStores(t, place(t)) })
	t.Run("ForgetElsewhere", func(t *testing.T) { forgetElsewhere(t, place(t)) })
}

func reopen(t *testing.T, again Again) {
	s := again(t)
	add(t, s, begin(t, s, user, "1", map[string]any{"user:n": 1, "app:a": 2, "s": 3}), said("hello", map[string]any{"s": 4}))
	before := get(t, s, user, "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = again(t)
	after := get(t, s, user, "1")
	wantTexts(t, after, "hello")
	wantState(t, after, map[string]any{"user:n": 1, "app:a": 2, "s": 4})
	if !after.LastUpdateTime().Equal(before.LastUpdateTime()) {
		t.Errorf("updated %v, was %v", after.LastUpdateTime(), before.LastUpdateTime())
	}
	add(t, s, before, said("an old handle is as good as a new one", nil))
}

// openAtOnce: several processes start on storage that is new.
func openAtOnce(t *testing.T, again Again) {
	stores := make([]*session.Store, 4)
	var wg sync.WaitGroup
	for i := range stores {
		wg.Go(func() { stores[i] = again(t) })
	}
	wg.Wait()
	for i, s := range stores {
		if s == nil {
			t.Fatal("one was not opened")
		}
		begin(t, s, user, fmt.Sprint(i), nil)
	}
}

// twoStores: two calls of one user, each in a gateway of its own.
func twoStores(t *testing.T, again Again) {
	stores := []*session.Store{again(t), again(t)}
	handles := []session.Session{begin(t, stores[0], user, "0", nil), begin(t, stores[1], user, "1", nil)}
	ctx := context.WithoutCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			key := fmt.Sprintf("user:%02d", i)
			if err := stores[i%2].AppendEvent(ctx, handles[i%2], said(key, map[string]any{key: i, "user:00": i, "user:39": i})); err != nil {
				t.Errorf("append %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i, s := range stores {
		got := get(t, s, user, fmt.Sprint(1-i)) // what the other wrote
		if got.Events().Len() != 20 {
			t.Errorf("%d events, want 20", got.Events().Len())
		}
		for i := range 40 {
			if _, err := got.State().Get(fmt.Sprintf("user:%02d", i)); err != nil {
				t.Error(err)
			}
		}
	}
	h := get(t, stores[0], user, "1")
	add(t, stores[0], h, said("from the other", nil))
	wantError(t, "stale", stores[1].AppendEvent(t.Context(), handles[1], said("x", nil)), session.ErrStaleSession)
}

func createInTwoStores(t *testing.T, again Again) {
	stores := []*session.Store{again(t), again(t)}
	ctx := context.WithoutCancel(t.Context())
	var won sync.Map
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			_, err := stores[i%2].Create(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: "one"})
			if err == nil {
				won.Store(i, true)
				return
			}
			wantError(t, "Create", err, session.ErrExists)
		})
	}
	wg.Wait()
	n := 0
	won.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d created it", n)
	}
}

// forgetElsewhere: a user is forgotten by another process while calls write.
func forgetElsewhere(t *testing.T, again Again) {
	gateway, command := again(t), again(t)
	r := session.NewRecorder(gateway, session.RecorderConfig{})
	c, err := r.Open(t.Context(), &session.CreateRequest{AppName: app, UserID: user})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			if err := c.Append(said("x", map[string]any{"user:calls": 1})); err != nil {
				t.Error(err)
			}
		}
	}()
	if _, err := command.Forget(t.Context(), user); err != nil {
		t.Error(err)
	}
	<-done
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := r.Stats(); got.Written+got.Forgotten != 50 || got.Lost != 0 {
		t.Errorf("%+v", got)
	}
	if r, err := command.List(t.Context(), &session.ListRequest{AppName: app}); err != nil || len(r.Sessions) != 0 {
		t.Errorf("left: %v, %v", r, err)
	}
	wantState(t, begin(t, command, user, "", nil), map[string]any{})
}

// The calls that Writer records at the same time.
const writers = 4

// Writer records calls until it is killed, and writes the name of each event to out as
// soon as the recorder says that it is stored. It is what the process does that Killed
// kills.
func Writer(store *session.Store, out io.Writer) error {
	r := session.NewRecorder(store, session.RecorderConfig{})
	failed := make(chan error)
	var mu sync.Mutex
	for w := range writers {
		go func() {
			failed <- func() error {
				ctx := context.Background()
				c, err := r.Open(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: fmt.Sprint(w)})
				for i := 0; err == nil; i++ {
					if err = c.Append(said(fmt.Sprint(i), map[string]any{"last": i, fmt.Sprint("user:", w): i})); err != nil {
						break
					}
					if err = c.Flush(ctx); err != nil {
						break
					}
					mu.Lock()
					_, err = fmt.Fprintln(out, w, i)
					mu.Unlock()
				}
				return err
			}()
		}()
	}
	return <-failed
}

// Killed starts cmd, whose output is that of Writer, kills it with SIGKILL in the midst
// of its work, and looks for every event that was acknowledged.
func Killed(t *testing.T, cmd *exec.Cmd, again Again) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var trouble strings.Builder
	cmd.Stderr = &trouble
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[int]int{} // the last event of each call
	lines := bufio.NewScanner(out)
	killed := false
	for n := 0; lines.Scan(); n++ {
		var call, event int
		if _, err := fmt.Sscan(lines.Text(), &call, &event); err != nil {
			break // the end of the output may be cut off
		}
		acknowledged[call] = event
		if n >= 200 && len(acknowledged) == writers && !killed {
			killed = true
			if err := cmd.Process.Kill(); err != nil { // what it wrote until then is still read
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the writer was not killed")
	}
	if len(acknowledged) != writers {
		t.Fatalf("only %d calls wrote; %s", len(acknowledged), trouble.String())
	}
	s := again(t)
	for call, last := range acknowledged {
		h := get(t, s, user, fmt.Sprint(call))
		got := texts(h)
		if len(got) < last+1 || len(got) > last+2 { // one may have been stored and not told
			t.Errorf("call %d: %d events stored, %d acknowledged", call, len(got), last+1)
		}
		for i, text := range got {
			if text != fmt.Sprint(i) {
				t.Fatalf("call %d: event %d is %q", call, i, text)
			}
		}
		for _, key := range []string{"last", fmt.Sprint("user:", call)} { // an event and its delta go together
			if v, err := h.State().Get(key); err != nil || v != float64(len(got)-1) {
				t.Errorf("call %d: %s is %v, %v; want %d", call, key, v, err, len(got)-1)
			}
		}
		add(t, s, h, said("after", nil))
	}
}
