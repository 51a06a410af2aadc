package stream

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"parley/agent"
	"parley/media/g711"
)

// What a bot sees of a call, from the first message to the last, field by field.
func TestTwilioMessages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, listens, func(r *rig) {
			r.cfg.AccountSID = "AC0123456789abcdef0123456789abcdef"
			r.cfg.Parameters = map[string]string{"from": "{from}", "to": "{to}-{direction}", "who": "{name}/{agent}", "account": "{X-Account}", "none": "{X-None}", "plain": "a {b} c"}
			r.call.Context = map[string]string{"order": "42"}
		}).answer()
		p := r.peer(0)
		r.hears(1, 3)
		r.session.Notice(agent.Notice{Kind: agent.Digit, At: time.Now(), Digit: '5'})
		time.Sleep(100 * time.Millisecond)
		p.mark("here \"<&>\" ünï")
		time.Sleep(100 * time.Millisecond)
		r.hears(4, 1)
		err := r.end()
		if !errors.Is(err, errHungUp) {
			t.Errorf("Run returned %v", err)
		}
		all := p.got("")
		stream := p.stream()
		if len(stream) != 34 || !strings.HasPrefix(stream, "MZ") {
			t.Errorf("streamSid %q", stream)
		}
		account, call := r.cfg.AccountSID, "CA00112233445566778899aabbccddeeff"
		media := func(n, sequence, ms int, value byte) map[string]any {
			return map[string]any{
				"event": "media", "sequenceNumber": strconv.Itoa(sequence), "streamSid": stream,
				"media": map[string]any{
					"track": "inbound", "chunk": strconv.Itoa(n), "timestamp": strconv.Itoa(ms),
					"payload": base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{value}, 160)),
				},
			}
		}
		want := []map[string]any{
			{"event": "connected", "protocol": "Call", "version": "1.0.0"},
			{"event": "start", "sequenceNumber": "1", "streamSid": stream, "start": map[string]any{
				"accountSid": account, "streamSid": stream, "callSid": call, "tracks": []any{"inbound"},
				"mediaFormat": map[string]any{"encoding": "audio/x-mulaw", "sampleRate": 8000.0, "channels": 1.0},
				"customParameters": map[string]any{
					"from": "+14155550100", "to": "200-inbound", "who": "Ann/sales", "account": "7", "none": "", "plain": "a {b} c", "order": "42",
				},
			}},
			media(1, 2, 0, 1), media(2, 3, 20, 2), media(3, 4, 40, 3),
			{"event": "dtmf", "sequenceNumber": "5", "streamSid": stream, "dtmf": map[string]any{"track": "inbound_track", "digit": "5"}},
			{"event": "mark", "sequenceNumber": "6", "streamSid": stream, "mark": map[string]any{"name": "here \"<&>\" ünï"}},
			media(4, 7, 60, 4),
			{"event": "stop", "sequenceNumber": "8", "streamSid": stream, "stop": map[string]any{"accountSid": account, "callSid": call}},
		}
		var got []map[string]any
		for _, m := range all {
			got = append(got, m.m)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error("messages (-want +got):", d)
		}
		if code := websocket.CloseStatus(p.ended()); code != websocket.StatusNormalClosure {
			t.Errorf("closed with %v: %v", code, p.ended())
		}
		if digits := r.of(agent.EventDigit); len(digits) != 1 || digits[0].Text != "5" {
			t.Errorf("digit events %+v", digits)
		}
	})
}

// What the gateway says of itself before it is let in.
func TestRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, listens, func(r *rig) {
			r.cfg.URL = "ws://bot.example/media?id=7&x=%20"
			r.cfg.APIKey, r.cfg.AuthToken, r.call.Token = "k3y", "12345", "t.o.k"
		}).answer()
		p := r.peer(0)
		r.end()
		want := map[string]string{
			"Authorization": "Bearer k3y", "X-Call-Id": "c0ffee", "X-Session-Id": r.call.SessionID, "X-Identity-Token": "t.o.k",
			// printf %s URL | openssl dgst -sha1 -hmac 12345 -binary | base64
			"X-Twilio-Signature": "Dq988wRhsLIK6HfbYnO60SCV1Bk=",
		}
		for name, value := range want {
			if got := p.r.Header.Get(name); got != value {
				t.Errorf("%s: %q, want %q", name, got, value)
			}
		}
		if p.r.URL.String() != "/media?id=7&x=%20" {
			t.Errorf("asked for %s", p.r.URL)
		}
	})
}

// Mu-law goes through as it is, both ways; with another codec of the call it is coded.
func TestTwilioSound(t *testing.T) {
	pcmu := g711.PCMU()
	enc, _ := pcmu.NewEncoder()
	dec, _ := pcmu.NewDecoder()
	for _, coded := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Twilio, listens, func(r *rig) { r.mouth.coded = coded }).answer()
			p := r.peer(0)
			heard := []byte{}
			for i := range 256 { // pieces of any length
				b := bytes.Repeat([]byte{byte(i)}, 1+i%7)
				heard = append(heard, b...)
				if coded {
					r.payload(b)
				}
			}
			if !coded {
				r.session.Hear(slices.Repeat([]int16{1000}, 160))
				b, _ := enc.Encode(nil, slices.Repeat([]int16{1000}, 160))
				heard = b
			}
			time.Sleep(time.Second)
			var got []byte
			for _, m := range p.got("media") {
				b, err := base64.StdEncoding.DecodeString(m.field("media", "payload").(string))
				if err != nil || len(b) != 160 {
					t.Fatalf("payload of %d bytes, %v", len(b), err)
				}
				got = append(got, b...)
			}
			if !bytes.Equal(got, heard[:len(heard)/160*160]) {
				t.Errorf("coded %v: the bot heard %x, want %x", coded, got, heard)
			}
			said := tone(1, 100)
			p.media(said[:999])
			p.textf(`{"event":"media","media":{"payload":%q}}`, base64.RawStdEncoding.EncodeToString(said[999:]))
			time.Sleep(3 * time.Second)
			want := bytesOf(said)
			if !coded {
				want, _ = dec.Decode(nil, said)
			}
			if got := r.mouth.sent(); !slices.Equal(got, want) {
				t.Errorf("coded %v: %d samples on the wire of %d, or not the same", coded, len(got), len(want))
			}
			if n, _ := r.mouth.counts(); n > 0 != coded {
				t.Errorf("coded %v: %d payloads passed as they are", coded, n)
			}
			r.end()
		})
	}
}

// A mark comes back when the sound before it is on the wire: not before, and soon.
func TestTwilioMarks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, listens, nil).answer()
		p := r.peer(0)
		began := time.Now()
		p.mark("nothing before")
		time.Sleep(time.Millisecond)
		if m := p.got("mark"); len(m) != 1 || m[0].at.Sub(began) > time.Millisecond {
			t.Fatalf("with nothing queued: %+v", m)
		}
		names := []string{"a", "b", "b", "c", "d"}
		lengths := []int{160 * 50, 160*13 + 40, 0, 90, 160 * 100} // 1 s, 265 ms, 0, 11 ms, 2 s
		for i, n := range lengths {
			p.media(bytes.Repeat([]byte{byte(i + 1)}, n))
			p.mark(names[i])
		}
		time.Sleep(5 * time.Second)
		marks := p.got("mark")[1:]
		if len(marks) != len(names) {
			t.Fatalf("%d marks of %d", len(marks), len(names))
		}
		// When the last sample before each mark went out.
		samples, sum := 0, 0
		var sent []time.Time
		wire := r.mouth.packets()
		for _, n := range lengths {
			for sum += n; samples < sum; wire = wire[1:] {
				samples += len(wire[0].sound)
				sent = append(sent[:len(sent):len(sent)], wire[0].at)
			}
			m := marks[0]
			marks = marks[1:]
			if late := m.at.Sub(sent[len(sent)-1]); late < 0 || late > 10*time.Millisecond {
				t.Errorf("mark %v came %v after its sound", m.field("mark", "name"), late)
			}
			if m.field("mark", "name") != names[len(names)-len(marks)-1] {
				t.Errorf("mark %v out of order", m.field("mark", "name"))
			}
		}
		started, stopped := r.of(agent.EventAgentStarted), r.of(agent.EventAgentStopped)
		if len(started) != 1 || len(stopped) != 1 || stopped[0].Interrupted || stopped[0].Position != r.mouth.Played() {
			t.Errorf("started %+v, stopped %+v", started, stopped)
		}
		r.end()
	})
}

// Clear silences within a packet, all marks come back at once, and what is sent after
// it is heard.
func TestTwilioClear(t *testing.T) {
	for _, after := range []time.Duration{0, 5, 30, 111, 500, 900, 1999} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Twilio, listens, nil).answer()
			p := r.peer(0)
			p.media(tone(1, 50))
			p.mark("one")
			p.media(tone(51, 50))
			p.mark("two")
			p.mark("three")
			time.Sleep(after * time.Millisecond)
			before := len(p.got("mark"))
			cleared := time.Now()
			p.clear()
			p.media(tone(201, 10))
			p.mark("four")
			time.Sleep(time.Millisecond)
			if n := len(p.got("mark")); n != 3 {
				t.Errorf("after %v: %d marks at once, %d came before", after, n, before)
			}
			time.Sleep(time.Second)
			if marks := p.got("mark"); len(marks) != 4 || marks[3].field("mark", "name") != "four" {
				t.Errorf("after %v: marks %v", after, marks)
			}
			for _, w := range r.mouth.packets() {
				if w.at.After(cleared) && w.sound[0] < 200 {
					t.Fatalf("after %v: old sound %v after clear", after, w.at.Sub(cleared))
				}
			}
			if got := r.mouth.sent(); len(got) < 1600 || got[len(got)-1] != 210 || got[len(got)-1600] != 201 {
				t.Errorf("after %v: what came after clear was not heard whole", after)
			}
			barges := r.of(agent.EventBargeIn)
			stopped := r.of(agent.EventAgentStopped)
			if n := len(r.of(agent.EventAgentStarted)); after > 20 && (n != 2 || len(stopped) != 2 || stopped[1].Interrupted) {
				t.Errorf("after %v: %d replies began, stopped %+v", after, n, stopped)
			}
			if after > 20 && (len(barges) != 1 || !stopped[0].Interrupted || stopped[0].Position != barges[0].Position) {
				t.Errorf("after %v: barge-ins %+v, stopped %+v", after, barges, stopped)
			}
			r.end()
		})
	}
}

// A clear of silence is no barge-in; one by a key, or by a voice, says so.
func TestClearIsPutDownToWhatCameBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, listens, nil).answer()
		p := r.peer(0)
		p.clear()
		time.Sleep(time.Second)
		for i, n := range []agent.NoticeKind{agent.Digit, agent.VoiceOn, agent.VoiceOff} {
			p.media(tone(1, 100))
			time.Sleep(500 * time.Millisecond)
			r.session.Notice(agent.Notice{Kind: n, At: time.Now(), Digit: '1', Lag: time.Duration(i) * 10 * time.Millisecond})
			time.Sleep(40 * time.Millisecond)
			p.clear()
			time.Sleep(3 * time.Second)
		}
		b := r.of(agent.EventBargeIn)
		if len(b) != 3 || b[0].Reason != "digit" || b[0].Latency != 40*time.Millisecond || b[1].Reason != "voice" || b[1].Latency != 50*time.Millisecond ||
			b[2].Reason != "voice" || b[2].Latency != 0 {
			t.Errorf("barge-ins %+v", b)
		}
		r.end()
	})
}

// A bot may send all it has at once; beyond the limit it is not read from, and all of it
// is heard in the end.
func TestBackPressure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sent := make(chan time.Duration, 1)
		r := newRig(t, Twilio, func(p *peer) (websocket.StatusCode, string) {
			over := make(chan error, 1)
			go func() { over <- p.listen() }()
			time.Sleep(time.Second)
			began := time.Now()
			for i := range 100 { // 20 s
				p.media(tone(i, 10))
			}
			p.mark("all")
			sent <- time.Since(began)
			<-over
			return 0, ""
		}, func(r *rig) { r.cfg.Buffer = 2 * time.Second }).answer()
		most := int64(0)
		for range 30 * 100 {
			time.Sleep(10 * time.Millisecond)
			n, _ := r.session.(*session).speech.waiting()
			most = max(most, n)
		}
		if took := <-sent; took < 16*time.Second || took > 18*time.Second {
			t.Errorf("20 s of sound were taken in %v with 2 s of room", took)
		}
		if most > 8000*2+1600 {
			t.Errorf("%d samples waited, 2 s and a message are allowed", most)
		}
		if got := len(r.mouth.sent()); got != 20*8000 || len(r.peer(0).got("mark")) != 1 {
			t.Errorf("%d samples heard, %d marks", got, len(r.peer(0).got("mark")))
		}
		r.end()
	})
}

// Half an hour at once is refused to wait, ten minutes are not.
func TestTenMinutesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, listens, nil).answer()
		p := r.peer(0)
		began := time.Now()
		for range 10 {
			p.media(bytes.Repeat([]byte{1}, 60*8000))
		}
		p.mark("all")
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(9*time.Minute + 59*time.Second)
		if len(p.got("mark")) != 0 {
			t.Error("the mark came too early")
		}
		time.Sleep(2 * time.Second)
		if len(p.got("mark")) != 1 {
			t.Error("the mark did not come")
		}
		r.end()
	})
}

// A bot that floods marks and takes no answers is not read from; the call goes on.
func TestMarksAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, func(p *peer) (websocket.StatusCode, string) {
			for _, m := range []string{"connected", "start"} {
				if _, b, err := p.conn.Read(t.Context()); err != nil || !bytes.Contains(b, []byte(m)) {
					t.Errorf("%s, %v", b, err)
				}
			}
			for i := range 2 * maxMarks {
				if p.conn.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"event":"mark","mark":{"name":"%d"}}`, i)) != nil {
					break
				}
			}
			return 0, ""
		}, func(r *rig) { r.cfg.Reconnect = 0 }).answer()
		s := r.session.(*session)
		most := 0
		for range 80 { // they are read at a pace
			time.Sleep(100 * time.Millisecond)
			s.speech.mu.Lock()
			most = max(most, s.speech.marks)
			s.speech.mu.Unlock()
		}
		if most < maxMarks || most > maxMarks+1 {
			t.Errorf("%d marks waited", most)
		}
		// Nothing could be written for writeTimeout.
		if err := r.waitRun(time.Minute); err == nil {
			t.Error("Run returned nil")
		}
		r.end()
	})
}

// What is wrong in a message costs a warning and no call; no answer goes to the bot, for
// the protocol has none.
func TestTwilioGarbage(t *testing.T) {
	garbage := []string{
		``, `x`, `[]`, `null`, `{}`, `{"event":7}`, `{"event":null}`, `{"event":"media"}`, `{"event":"media","media":{}}`,
		`{"event":"media","media":{"payload":7}}`, `{"event":"media","media":{"payload":"!"}}`, `{"event":"media","media":{"payload":"AAA"}}x`,
		`{"event":"mark"}`, `{"event":"mark","mark":{"name":null}}`, `{"event":"mark","mark":{"name":"` + strings.Repeat("x", 1025) + `"}}`,
		`{"event":"media","media":{"payload":"` + base64.StdEncoding.EncodeToString([]byte("RIFF\x24\x08\x00\x00WAVEfmt ")) + `"}}`,
		`{"event":"stop"}`, `{"event":"start"}`, `{"event":"clear","streamSid":"MZ00000000000000000000000000000000"}`,
		`{"event":"media","streamSid":"MZother","media":{"payload":"AAAA"}}`, strings.Repeat("[", 20000),
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, listens, nil).answer()
		p := r.peer(0)
		p.media(tone(1, 5))
		for _, g := range garbage {
			p.text(g)
		}
		p.binary([]byte("sound"))
		p.media(tone(6, 5))
		p.text(`{"event":"media","media":{"payload":""}}`) // is nothing
		time.Sleep(time.Second)
		if got := r.mouth.sent(); !slices.Equal(got, bytesOf(tone(1, 10))) {
			t.Errorf("%d samples heard", len(got))
		}
		if n := r.session.(*session).warnings.Load(); n != uint64(len(garbage)+1) {
			t.Errorf("%d warnings for %d mistakes", n, len(garbage)+1)
		}
		errs := r.of(agent.EventError)
		if len(errs) != 1 || !strings.Contains(errs[0].Reason, "message") {
			t.Errorf("complaints %+v, want one", errs)
		}
		if n := len(p.got("")); n != 2 {
			t.Errorf("the bot got %d messages", n)
		}
		if err := r.end(); !errors.Is(err, errHungUp) {
			t.Error(err)
		}
	})
}

// A message without end is refused, and the call ends.
func TestAMessageTooLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, func(p *peer) (websocket.StatusCode, string) {
			go p.text(`{"event":"media","media":{"payload":"` + strings.Repeat("A", maxMessage) + `"}}`)
			return listens(p)
		}, nil).answer()
		if err := r.waitRun(time.Minute); err == nil {
			t.Error("Run returned nil")
		}
		r.end()
	})
}

// An agent that is not there, says no or says nothing has the call refused, in time, and
// no secret is in the error.
func TestOpenFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		handle http.HandlerFunc
		gone   bool
		want   string
	}{
		{"says no", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "s3cret", 403) }, false, "status 403"},
		{"is somewhere else", func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "http://other.example/", 302) }, false, "status 302"},
		{"is no WebSocket", func(w http.ResponseWriter, _ *http.Request) {}, false, "status 200"},
		{"says nothing", func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, false, "deadline exceeded"},
		{"is not there", nil, true, "connection refused"},
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Twilio, listens, func(r *rig) { r.cfg.URL += "&token=s3cret"; r.cfg.APIKey = "s3cret" })
			if c.handle != nil {
				r.server.Handler = c.handle
			}
			if c.gone {
				r.net.Close()
			}
			began := time.Now()
			s, err := r.opener.Open(t.Context(), r.call)
			if err == nil || s != nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "bot.example") {
				t.Errorf("%s: %v, want it to say %q", c.name, err, c.want)
			}
			if took := time.Since(began); took > r.cfg.ConnectTimeout {
				t.Errorf("%s: it took %v", c.name, took)
			}
			r.close()
		})
	}
}

// A session that is never answered closes its connection.
func TestNeverAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, listens, nil)
		s, err := r.opener.Open(t.Context(), r.call)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := cancelled()
		defer cancel()
		if err := s.Run(ctx); !errors.Is(err, errHungUp) {
			t.Errorf("Run returned %v", err)
		}
		p := r.peer(0)
		if got := p.got(""); len(got) != 1 || websocket.CloseStatus(p.ended()) != websocket.StatusNormalClosure {
			t.Errorf("%d messages, %v", len(got), p.ended())
		}
		r.close()
	})
}
