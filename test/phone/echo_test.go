package phone

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/test/audio"
)

// TestEchoComesBack feeds packets that arrive with jitter and takes what is sent at its
// own times: the sound comes back whole, softer and as much later as was asked for.
func TestEchoComesBack(t *testing.T) {
	const ms = time.Millisecond
	for _, delay := range []time.Duration{40 * ms, 120 * ms} {
		e := newEcho(Echo{Level: -20, Delay: delay})
		said := speech(400 * ms)
		var back []int16
		began := 1007 * ms
		for slot := range 40 {
			now := began + time.Duration(slot)*20*ms
			if slot < 20 {
				e.heard(now+[]time.Duration{3 * ms, 9 * ms, 0}[slot%3], said[slot*frameSamples:][:frameSamples])
			}
			frame := e.take(now + 12*ms + time.Duration(slot%2)*ms)
			if frame == nil {
				frame = make([]int16, frameSamples)
			}
			back = append(back, frame...)
		}
		found := audio.FindWaveform(said, back, sampleRate)
		if want := delay - 12*ms + 3*ms; found.Score < 0.99 || found.At < want-2*ms || found.At > want+2*ms {
			t.Errorf("echo after %v: %+v, want it whole %v into what is sent", delay, found, want)
		}
		at := samplesAt(found.At)
		if loss := audio.Level(said) - audio.Level(back[at:][:len(said)]); loss < 19.8 || loss > 20.3 {
			t.Errorf("the echo is %.1f dB softer, want 20", loss)
		}
		if got := e.take(began + 3*time.Second); slices.ContainsFunc(got, func(v int16) bool { return v != 0 }) {
			t.Error("sound long after it was over")
		}
	}
	if newEcho(Echo{}).take(time.Second) != nil {
		t.Error("an echo that was not asked for")
	}
}

// TestRoomIsAroundTheMicrophone: what is around is there in speech and in silence, and
// comes over and over.
func TestRoomIsAroundTheMicrophone(t *testing.T) {
	c, _ := codecNamed("PCMU")
	m := newMouth(0)
	m.room = make([]int16, 250)
	for i := range m.room {
		m.room[i] = int16(1000 + 8*i)
	}
	m.speak(slices.Repeat([]int16{4000}, frameSamples))
	var sent []int16
	for range 3 {
		sent = append(sent, c.pcm(m.next(answer{codec: c}, 0, nil).payload)...)
	}
	for i, v := range sent {
		want := 1000 + 8*(i%250)
		if i < frameSamples {
			want += 4000
		}
		if int(v) < want-want/20 || int(v) > want+want/20 {
			t.Fatalf("sample %d is %d, want about %d", i, v, want)
		}
	}
}

// TestCoders: an encoding that the phone was given is offered, taken from the answer,
// used both ways and laid out at its own clock.
func TestCoders(t *testing.T) {
	// Not what the name says, which nobody here looks at: 16 bits as they are.
	plain := Coder{Name: "opus", ClockRate: 48000, Channels: 2, PayloadType: 111, New: func() (func([]int16) []byte, func([]byte) []int16, error) {
		encode := func(pcm []int16) (b []byte) {
			for _, v := range pcm {
				b = binary.BigEndian.AppendUint16(b, uint16(v))
			}
			return b
		}
		decode := func(b []byte) (pcm []int16) {
			for ; len(b) > 1; b = b[2:] {
				pcm = append(pcm, int16(binary.BigEndian.Uint16(b)))
			}
			return pcm
		}
		return encode, decode, nil
	}}
	u := newUAS(t, "udp")
	p := newPhone(t, Config{Codecs: []string{"opus", "PCMU"}, Coders: []Coder{plain}})
	ctx := soon(t)
	c, err := p.Dial(ctx, "sip:opus@"+u.addr)
	if err != nil {
		t.Fatal(err)
	}
	said := speech(500 * time.Millisecond)
	utterance := c.Say(said)
	if err := utterance.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(ctx, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := c.Hangup(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RTP/AVP 111 0 101", "a=rtpmap:111 opus/48000/2", "a=rtpmap:0 PCMU/8000"} {
		if !strings.Contains(u.offer(0), want) {
			t.Errorf("the offer has no %q:\n%s", want, u.offer(0))
		}
	}
	// Not by Stereo, which a stall of the machine would break into pieces.
	sides := map[Direction][]int16{}
	for _, packet := range c.Log().Packets() {
		sides[packet.Direction] = append(sides[packet.Direction], soundOf(packet, nil)...)
	}
	for direction, side := range sides {
		if m := audio.FindWaveform(said, side, sampleRate); m.Score < 0.999 {
			t.Errorf("what was said is not there (%d): %+v", direction, m)
		}
	}
	first, last, ok := utterance.Sent()
	if loud, end, _ := utterance.Loud(); !ok || first > loud || last < end {
		t.Errorf("sent %v to %v (%v), loud %v to %v", first, last, ok, loud, end)
	}
	packets := slices.DeleteFunc(c.Log().Packets(), func(p Packet) bool { return p.Direction != Heard })
	if n := len(packets); n < 20 || packets[n-1].since(packets[0]) != time.Duration(n-1)*packetTime {
		t.Errorf("%d packets were heard that last %v by their clock", n, packets[n-1].since(packets[0]))
	}
}
