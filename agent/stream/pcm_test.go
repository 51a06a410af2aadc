package stream

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"parley/agent"
)

// fakeCall is a call that nothing is done with.
func fakeCall() agent.Call {
	return agent.Call{ID: "c", SessionID: "00112233445566778899aabbccddeeff", Direction: "inbound", Emit: func(agent.Event) {}}
}

// ramp is n samples from a value upwards, as bytes.
func ramp(from, n int) (out []byte) {
	for i := range n {
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(from+i)))
	}
	return out
}

// samplesOf are the samples of bytes.
func samplesOf(b []byte) (out []int16) {
	for ; len(b) > 1; b = b[2:] {
		out = append(out, int16(binary.LittleEndian.Uint16(b)))
	}
	return out
}

// A whole call with everything in it, each message held against the schema.
func TestPCMConversation(t *testing.T) {
	seen := map[string]bool{}
	bubble(t, func(t *testing.T) {
		r := newRig(t, PCM, drops(1, 4*time.Second), func(r *rig) {
			r.memory.m = map[string]any{"user:name": "Ann", "user:calls": 3, "app:motd": []string{"a"}}
			r.control.errs["transfer 666 false map[]"] = agent.ErrForbidden
			r.control.errs["transfer 667 true trunk2map[X-A:b]"] = &agent.TransferError{Code: 486, Reason: "Busy Here"}
			r.control.errs["dtmf 9"] = agent.ErrNotSupported
			r.control.errs["hold"] = errors.New("no idea")
		}).answer()
		p := r.peer(0)
		synctest.Wait()
		hello := p.got("")[0]
		want := map[string]any{
			"type": "hello", "version": 1.0, "session": r.call.SessionID, "call_id": "c0ffee", "direction": "inbound", "encoding": "s16le", "rate": 16000.0,
			"caller": map[string]any{"resource_id": "+14155550100", "number": "+14155550100", "name": "Ann", "verified": true},
			"called": "200", "trunk": "carrier", "agent": "sales", "headers": map[string]any{"X-Account": "7"},
			"memory": map[string]any{"user:name": "Ann", "user:calls": 3.0, "app:motd": []any{"a"}},
		}
		if d := cmp.Diff(want, hello.m); d != "" {
			t.Error("hello (-want +got):", d)
		}
		if p.got("")[1].kind() != "start" {
			t.Errorf("then came %v", p.got("")[1])
		}
		// Sound both ways.
		r.session.Hear(samplesOf(ramp(-200, 320)))
		p.binary(ramp(-30000, 16001)[:32001]) // half a sample is left
		p.binary(append([]byte{ramp(-30000, 16001)[32001]}, ramp(-13999, 319)...))
		p.text(`{"type":"mark","name":"m1","text":"Hello there."}`)
		now := time.Now()
		for _, n := range []agent.Notice{
			{Kind: agent.VoiceOn, At: now, Lag: 5 * time.Millisecond}, {Kind: agent.VoiceConfirmed, At: now}, {Kind: agent.VoiceOff, At: now},
			{Kind: agent.Digit, At: now, Digit: '#'}, {Kind: agent.Held, At: now}, {Kind: agent.Resumed, At: now},
		} {
			r.session.Notice(n)
		}
		for _, m := range []string{
			`{"type":"config","statistics_ms":300}`, `{"type":"transcript","text":"I am","final":false}`, `{"type":"transcript","text":"I am\u0007 Ann.","final":true}`,
			`{"type":"memory","key":"user:name","value":{"first":"Ann"}}`, `{"type":"memory","key":"user:calls","value":null}`,
			`{"type":"transfer","to":"666","id":"t1"}`, `{"type":"transfer","to":"667","attended":true,"trunk":"trunk2","headers":{"X-A":"b"},"id":"t2"}`,
			`{"type":"dtmf","digits":"12ab,#","id":"d1"}`, `{"type":"dtmf","digits":"9"}`, `{"type":"hold","on":true,"id":"h1"}`, `{"type":"hold","on":false,"id":"h2"}`,
			`{"type":"later","x":1}`, `{"type":"dtmf","digits":"x"}`,
		} {
			p.text(m)
		}
		time.Sleep(2005 * time.Millisecond) // between two packets
		if got := p.got("binary"); len(got) != 1 || !slices.Equal(samplesOf(got[0].binary), samplesOf(ramp(-200, 320))) {
			t.Errorf("the agent heard %d frames", len(got))
		}
		if got := r.mouth.sent(); !slices.Equal(got[:16320], samplesOf(ramp(-30000, 16320))) {
			t.Errorf("%d samples on the wire, or not those", len(got))
		}
		results := map[string]map[string]any{}
		for _, m := range p.got("result") {
			id, _ := m.m["id"].(string)
			results[id] = m.m
		}
		wantResults := map[string]map[string]any{
			"t1": {"type": "result", "action": "transfer", "id": "t1", "ok": false, "reason": "it is not allowed here"},
			"t2": {"type": "result", "action": "transfer", "id": "t2", "ok": false, "code": 486.0, "reason": "Busy Here"},
			"d1": {"type": "result", "action": "dtmf", "id": "d1", "ok": true},
			"":   {"type": "result", "action": "dtmf", "ok": false, "reason": "it is not possible in this call"},
			"h1": {"type": "result", "action": "hold", "id": "h1", "ok": false, "reason": "it failed"},
			"h2": {"type": "result", "action": "hold", "id": "h2", "ok": true},
		}
		if d := cmp.Diff(wantResults, results); d != "" {
			t.Error("results (-want +got):", d)
		}
		if d := cmp.Diff([]string{"transfer 666 false map[]", "transfer 667 true trunk2map[X-A:b]", "dtmf 12AB,#", "dtmf 9", "hold", "resume"}, r.control.list()); d != "" {
			t.Error("done (-want +got):", d)
		}
		if m := p.got("error"); len(m) != 1 || m[0].field("field") != "digits" {
			t.Errorf("mistakes %v", m)
		}
		if v, ok := r.memory.Get("user:name"); !ok || !reflect.DeepEqual(v, map[string]any{"first": "Ann"}) {
			t.Errorf("memory: %v", v)
		}
		if _, ok := r.memory.Get("user:calls"); ok {
			t.Error("what was deleted is there")
		}
		if e := r.of(agent.EventUserStopped); len(e) != 1 || e[0].Text != "I am Ann." {
			t.Errorf("turns %+v", e)
		}
		stats := p.got("statistics")
		if len(stats) < 5 || stats[4].field("warnings") != 2.0 || stats[4].field("heard_ms") != 20.0 || stats[4].field("played_ms") != 1020.0 {
			t.Errorf("statistics %v", stats)
		}
		// A barge-in, then the connection breaks and comes back.
		p.binary(ramp(0, 32000))
		p.text(`{"type":"mark","name":"m2","text":"More."}`)
		time.Sleep(500 * time.Millisecond)
		p.text(`{"type":"clear"}`)
		time.Sleep(10 * time.Millisecond)
		if c := p.got("cleared"); len(c) != 1 || c[0].field("played_ms") != 1520.0 || c[0].field("dropped_ms") != 1500.0 {
			t.Errorf("cleared %v", c)
		}
		marks := p.got("mark")
		if len(marks) != 2 || marks[0].field("cleared") != false || marks[0].field("played_ms") != 1020.0 || marks[1].field("cleared") != true || marks[1].field("played_ms") != 1520.0 {
			t.Errorf("marks %v", marks)
		}
		stopped := r.of(agent.EventAgentStopped)
		if len(stopped) != 2 || stopped[0].Heard != "Hello there." || stopped[0].Interrupted || stopped[1].Text != "More." || stopped[1].Heard != "" || !stopped[1].Interrupted {
			t.Errorf("stopped %+v", stopped)
		}
		p.binary(make([]byte, 2*16000*10))
		p.text(`{"type":"mark","name":"m3"}`)
		second := r.peer(1)
		synctest.Wait()
		resume := second.got("")[0]
		if resume.kind() != "resume" || resume.field("session") != r.call.SessionID || resume.field("played_ms").(float64) < 1600 || resume.field("queued_ms").(float64) < 5000 ||
			!reflect.DeepEqual(resume.field("marks"), []any{"m3"}) || resume.field("caller", "name") != "Ann" {
			t.Errorf("resume %v", resume.text)
		}
		time.Sleep(12 * time.Second)
		if m := second.got("mark"); len(m) != 1 || m[0].field("name") != "m3" {
			t.Errorf("the mark of before came back as %v", m)
		}
		second.text(`{"type":"hangup"}`)
		if err := r.waitRun(time.Second); err != nil {
			t.Errorf("Run returned %v", err)
		}
		r.end()
		last := second.got("")
		if m := last[len(last)-1]; m.kind() != "stop" || m.field("cause") != "agent hung up" {
			t.Errorf("the last message is %v", m.text)
		}
		checkSent(t, p, seen)
		checkSent(t, second, seen)
	})
	for name := range loadSchemas(t).defs {
		if kind, ours := strings.CutPrefix(name, "toAgent."); ours && !seen[kind] && kind != "gap" { // gap: TestASlowBot
			t.Errorf("no message of type %s was seen", kind)
		}
	}
}

// Hang-up waits for what was sent before it, however the agent goes on.
func TestHangUpAfterTheLastWords(t *testing.T) {
	for _, then := range []func(p *peer){
		func(*peer) {},
		func(p *peer) { _ = p.conn.Close(websocket.StatusNormalClosure, "") },
		func(p *peer) { _ = p.conn.CloseNow() },
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, PCM, func(p *peer) (websocket.StatusCode, string) {
				go func() {
					p.text(`{"type":"pause"}`) // a hang-up ends a pause
					p.binary(ramp(0, 8000))
					p.text(`{"type":"mark","name":"bye","text":"Goodbye."}`)
					p.text(`{"type":"hangup"}`)
					p.binary(ramp(0, 8000)) // comes too late
					then(p)
				}()
				return listens(p)
			}, func(r *rig) { r.cfg.OnLost = LostHangup }).answer()
			if err := r.waitRun(5 * time.Second); err != nil {
				t.Errorf("Run returned %v", err)
			}
			if got := r.mouth.sent(); len(got) < 8000 || !slices.Equal(got[:8000], samplesOf(ramp(0, 8000))) {
				t.Errorf("%d samples heard", len(got))
			}
			r.end()
			if e := r.of(agent.EventAction); len(e) != 1 || e[0].Reason != "hangup" {
				t.Errorf("actions %+v", e)
			}
		})
	}
}

// A pause loses nothing, a clear ends it.
func TestPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, PCM, listens, nil).answer()
		p := r.peer(0)
		p.binary(ramp(0, 16000))
		p.text(`{"type":"mark","name":"m"}`)
		time.Sleep(205 * time.Millisecond)
		p.text(`{"type":"pause"}`)
		time.Sleep(time.Minute)
		if n := len(r.mouth.sent()); n != 10*320 || len(p.got("mark")) != 0 {
			t.Errorf("%d samples heard while paused", n)
		}
		p.text(`{"type":"resume"}`)
		time.Sleep(time.Second)
		if got := r.mouth.sent(); !slices.Equal(got, samplesOf(ramp(0, 16000))) || len(p.got("mark")) != 1 {
			t.Errorf("%d samples heard, %d marks", len(got), len(p.got("mark")))
		}
		if n := len(r.of(agent.EventAgentStarted)); n != 1 {
			t.Errorf("the agent began %d times", n)
		}
		p.text(`{"type":"pause"}`)
		p.binary(ramp(0, 1600))
		p.text(`{"type":"clear"}`)
		p.binary(ramp(100, 1600))
		time.Sleep(time.Second)
		if got := r.mouth.sent(); !slices.Equal(got[16000:], samplesOf(ramp(100, 1600))) {
			t.Errorf("%d samples heard after a clear", len(got)-16000)
		}
		r.end()
	})
}

// An agent that does not want to hear is not sent the caller's sound.
func TestHearIsSwitchedOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, PCM, listens, nil).answer()
		p := r.peer(0)
		p.text(`{"type":"config","hear":false}`)
		synctest.Wait()
		r.hears(0, 10)
		p.text(`{"type":"config","hear":true}`)
		synctest.Wait()
		r.hears(10, 3)
		if got := p.got("binary"); len(got) != 3 || samplesOf(got[0].binary)[0] != 10 {
			t.Errorf("%d frames", len(got))
		}
		if gaps := p.got("gap"); len(gaps) != 1 || gaps[0].field("heard_ms") != 200.0 || gaps[0].field("lost_ms") != 200.0 {
			t.Errorf("gaps %v", gaps)
		}
		r.end()
	})
}

// Actions may be switched off; a hang-up may not, for the socket can be closed as well.
func TestActionsAreSwitchedOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, PCM, listens, func(r *rig) { r.cfg.Actions, r.cfg.SecretDigits, r.call.Memory = false, true, nil }).answer()
		p := r.peer(0)
		p.text(`{"type":"transfer","to":"1","id":"a"}`)
		p.text(`{"type":"memory","key":"a","value":1}`)
		r.session.Notice(agent.Notice{Kind: agent.Digit, Digit: '7', At: time.Now()})
		synctest.Wait()
		if m := p.got("result"); len(m) != 1 || m[0].field("ok") != false || m[0].field("reason") != "actions are switched off" || len(r.control.list()) != 0 {
			t.Errorf("results %v", m)
		}
		if m := p.got("error"); len(m) != 1 {
			t.Errorf("nothing is kept, and the agent is told %v", m)
		}
		if e := r.of(agent.EventDigit); len(e) != 1 || e[0].Text != "" || p.got("digit")[0].field("digit") != "7" {
			t.Errorf("digit events %+v", e)
		}
		p.text(`{"type":"hangup"}`)
		if err := r.waitRun(time.Second); err != nil {
			t.Error(err)
		}
		r.end()
	})
}

// Files that are sent as sound are refused, not played (BR-155).
func TestFilesAreNoSound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, PCM, listens, nil).answer()
		p := r.peer(0)
		for _, file := range []string{"RIFF\x24\x08\x00\x00WAVEfmt data", "ID3\x04\x00", "OggS\x00", "fLaC\x00\x00\x00\x22"} {
			p.binary(append([]byte(file), make([]byte, 6400)...))
		}
		time.Sleep(time.Second)
		if m := p.got("error"); len(m) != 4 || m[0].field("field") != "sound" || !strings.Contains(m[0].field("message").(string), "WAV") || len(r.mouth.sent()) != 0 {
			t.Errorf("mistakes %v; %d samples heard", m, len(r.mouth.sent()))
		}
		r.end()
	})
}

// A panic in the call's control is a mistake of that one action.
func TestAPanicInAnAction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, PCM, listens, func(r *rig) { r.call.Control = nil }).answer()
		p := r.peer(0)
		p.text(`{"type":"hold","on":true}`)
		p.text(`{"type":"dtmf","digits":"1"}`)
		synctest.Wait()
		if m := p.got("result"); len(m) != 2 || m[0].field("ok") != false || m[1].field("ok") != false {
			t.Errorf("results %v", m)
		}
		if err := r.end(); !errors.Is(err, errHungUp) {
			t.Error(err)
		}
	})
}

// What is known of a caller may be much: the opening stays bounded.
func TestMemoryIsBounded(t *testing.T) {
	c := fakeCall()
	m := &memory{m: map[string]any{"user:bad": math.Inf(1)}}
	for i := range 1000 {
		m.m["user:"+strings.Repeat("k", i%100)+string(rune('a'+i%26))] = strings.Repeat("x", 1000)
	}
	c.Memory = m
	text := newPCM(c, 8000).connected(nil, nil)
	if len(text) > maxMemoryBytes+4096 || len(text) < 1000 {
		t.Errorf("an opening of %d bytes", len(text))
	}
	if err := valid(loadSchemas(t).toAgent, string(text)); err != nil {
		t.Error(err)
	}
}
