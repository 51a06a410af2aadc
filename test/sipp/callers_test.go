package sipp

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"parley/call"
	"parley/test/peers"
	"parley/test/phone"
)

// Servers that several scenarios share.
var (
	plain   = peers.Settings{API: true}
	six     = peers.Settings{IPv6: true}
	digests = peers.Settings{Rest: "[auth]\nrequired = \"always\"\nalgorithms = [\"MD5\", \"SHA-256\"]\nusers = { alice = \"secret\" }\n"}
	capped  = peers.Settings{Rest: "[auth]\nrequired = \"always\"\nrate_per_source = 0.01\nrate_burst = 2\nusers = { alice = \"secret\" }\n"}
	routes  = peers.Settings{Rest: "[[route]]\nname = \"hotline\"\ncalled = \"+12025550100\"\nagent = \"sales\"\n" +
		"[[route]]\nname = \"branches\"\ncalled = \"+1202555*\"\nagent = \"support\"\n" +
		"[agents.sales.llm]\nprovider = \"echo\"\n[agents.support.llm]\nprovider = \"echo\"\n"}
)

// sound: about so many packets came in, none was lost, and sound went out. A call that a
// busy machine made longer may have more: as many as are spoken in its time.
func sound(least, most uint64) func(call.Record) bool {
	return func(r call.Record) bool {
		s := r.Stats
		return s.PacketsIn >= least && s.PacketsIn <= max(most, within(r.Ended.Sub(r.Answered))) && s.Lost == 0 && s.Strange == 0 && s.PacketsOut >= least/2 && r.Cause == call.CauseCallerHungUp
	}
}

// within is how many packets of 20 ms there are in so long, and a few.
func within(d time.Duration) uint64 { return uint64(max(0, d)/(20*time.Millisecond)) + 5 }

// ended: the call ended so, with so many packets in at least.
func ended(cause string, least uint64) func(call.Record) bool {
	return func(r call.Record) bool { return r.Cause == cause && r.Stats.PacketsIn >= least }
}

var callers = []scenario{
	{file: "uac-answer-bye", calls: 1, check: record(sound(80, 110))},
	{file: "uac-answer-bye", args: []string{"-t", "t1"}, calls: 1, check: record(sound(80, 110))},
	{file: "uac-load", args: []string{"-m", "60", "-r", "20", "-d", "2000"}, calls: 60, check: record(sound(70, 120))},
	{file: "uac-load", args: []string{"-m", "20", "-r", "20", "-d", "1000", "-t", "tn", "-max_socket", "100"}, calls: 20, check: record(sound(30, 70))},
	{file: "uac-cancel-while-ringing", slow: true},
	{file: "uac-cancel-while-ringing", args: []string{"-t", "t1"}, slow: true},
	{file: "uac-early-cancel", slow: true},
	{file: "uac-cancel-crosses-200", calls: 1, check: record(ended(call.CauseCallerHungUp, 0))},
	{file: "uac-bye-before-ack", calls: 1, check: func(st *stage) {
		if n := st.Count(false, "SIP/2.0 200"); n != 2 {
			st.Errorf("%d times 200, want one for the INVITE and one for the BYE", n)
		}
		record(ended(call.CauseCallerHungUp, 0))(st)
	}},
	{file: "uac-prack", slow: true, calls: 1},
	{file: "uac-prack-unknown", slow: true, calls: 1},
	{file: "uac-hold-resume", calls: 1, check: record(ended(call.CauseCallerHungUp, 60))},
	{file: "uac-hold-old-style", calls: 1, check: func(st *stage) {
		// The hold is from one answer to the next, a second and what the machine took.
		held := st.apart("SIP/2.0 200", 1, 2)
		if gap := st.ear.Gap(0); gap < 900*time.Millisecond || gap > held+400*time.Millisecond {
			st.Errorf("the longest silence was %v, want about the %v of the hold", gap, held)
		}
		talked := st.apart("SIP/2.0 200", 0, 1) + st.apart("SIP/2.0 200", 2, 3)
		if n := uint64(len(st.ear.Packets(0))); n < 30 || n > within(talked)+20 {
			st.Errorf("%d packets outside of the hold, in %v", n, talked)
		}
	}},
	{file: "uac-hold-inactive", calls: 1, check: record(ended(call.CauseCallerHungUp, 30))},
	{file: "uac-late-offer", calls: 1, check: record(sound(35, 65))},
	{file: "uac-late-offer", args: []string{"-t", "t1"}, calls: 1, check: record(sound(35, 65))},
	{file: "uac-late-offer-unanswered", calls: 1, check: record(func(r call.Record) bool { return r.Cause != call.CauseCallerHungUp })},
	{file: "uac-options"},
	{file: "uac-options", args: []string{"-t", "t1"}},
	{file: "uac-options-keepalive", check: func(st *stage) {
		if n := st.Count(false, "SIP/2.0 200"); n != 4 {
			st.Errorf("%d answers to 4 OPTIONS", n)
		}
	}},
	{file: "uac-options-in-dialog", calls: 1, check: record(ended(call.CauseCallerHungUp, 20))},
	{file: "uac-no-common-codec", refused: 488},
	{file: "uac-bad-bye"},
	{file: "uac-forged-bye", calls: 1, check: record(func(r call.Record) bool {
		return r.Cause == call.CauseCallerHungUp && r.Ended.Sub(r.Answered) > 900*time.Millisecond
	})},
	{file: "uac-unknown-require"},
	{file: "uac-unknown-method", calls: 1},
	{file: "uac-unknown-body"},
	{file: "uac-max-forwards"},
	{file: "uac-retransmitted-invite", slow: true, calls: 1},
	{file: "uac-merged-request", slow: true, calls: 1},
	{file: "uac-merged-late", calls: 1, check: record(ended(call.CauseCallerHungUp, 130))},
	{file: "uac-no-ack", settings: peers.Settings{SIP: `t1 = "50ms"`}, calls: 1, check: func(st *stage) {
		// 50, 100, 200 ... 3200 ms with T1 = 50 ms; and never a BYE before the end.
		if n := st.Count(false, "SIP/2.0 200"); n < 5 {
			st.Errorf("the 200 was sent %d times", n)
		}
		record(ended(call.CauseNoACK, 0))(st)
	}},
	{file: "uac-late-ack", calls: 1, check: func(st *stage) {
		if n := st.Count(false, "SIP/2.0 200 "); n < 3 {
			st.Errorf("the 200 was sent %d times before the ACK came", n)
		}
	}},
	{file: "uac-info-dtmf", calls: 1, check: record(func(r call.Record) bool { return r.Stats.Digits == 2 })},
	{file: "uac-reinvite-codec", calls: 1, check: record(func(r call.Record) bool { return r.Codec == "PCMU" })},
	{file: "uac-reinvite-refused", calls: 1, check: record(sound(35, 70))},
	{file: "uac-reinvite-before-ack", calls: 1, check: record(ended(call.CauseCallerHungUp, 10))},
	{file: "uac-t38-refused", calls: 1, check: record(sound(40, 80))},
	{file: "uac-video-refused", calls: 1, check: record(sound(10, 60))},
	{file: "uac-update", calls: 1},
	{file: "uac-session-timer", calls: 1},
	{file: "uac-session-timer-uas", calls: 1, check: record(func(r call.Record) bool {
		return r.Cause == call.CauseCallerHungUp && r.Ended.Sub(r.Answered) > 44*time.Second
	})},
	{file: "uac-glare", calls: 1, drive: func(st *stage) {
		st.status(call.StateAnswered)
		time.Sleep(300 * time.Millisecond)
		st.must("hold", struct{}{})
	}, check: record(ended(call.CauseCallerHungUp, 10))},
	{file: "uac-old-sequence", calls: 1, check: record(func(r call.Record) bool { return r.Stats.Digits == 0 })},
	{file: "uac-over-capacity", settings: peers.Settings{Call: "max_calls = 1"}, refused: 503, drive: occupied},
	{file: "uac-drain", settings: peers.Settings{Call: "initial_media_timeout = \"31s\""}, calls: 1, drive: func(st *stage) {
		if !st.sipp.Saw(true, "ACK") {
			st.Error("no call")
		}
		time.Sleep(500 * time.Millisecond)
		if err := st.server.Signal(syscall.SIGTERM); err != nil {
			st.Error(err)
		}
	}, check: record(sound(80, 170))},
	{file: "uac-trunk-headers", calls: 1, check: record(func(r call.Record) bool { return r.ResourceID == "+12025550191" })},
	{file: "uac-withheld-identity", calls: 1, check: record(func(r call.Record) bool { return r.ResourceID == "" })},
	{file: "uac-compact-headers", calls: 1, check: record(sound(10, 60))},
	{file: "uac-compact-headers", args: []string{"-t", "t1"}, calls: 1, check: record(sound(10, 60))},
	{file: "uac-ims-invite", calls: 1, check: record(sound(10, 60))},
	{file: "uac-multipart", calls: 1, check: record(sound(10, 60))},
	{file: "uac-multipart", args: []string{"-t", "t1"}, calls: 1, check: record(sound(10, 60))},
	{file: "uac-request-uri", calls: 1, check: record(sound(10, 60))},
	{file: "uac-record-route", calls: 1, drive: talk(300 * time.Millisecond), check: record(ended(call.CauseOperator, 5))},
	{file: "uac-target-refresh", calls: 1, drive: talk(time.Second), check: record(ended(call.CauseOperator, 30))},
	{file: "uac-nat", calls: 1, drive: talk(time.Second), check: record(func(r call.Record) bool {
		return ended(call.CauseOperator, 20)(r) && r.Stats.PacketsOut > 10
	})},
	{file: "uac-ipv6", settings: six, local: "[::1]", calls: 1, check: record(sound(35, 65))},
	{file: "uac-ipv6", args: []string{"-t", "t1"}, settings: six, local: "[::1]", calls: 1, check: record(sound(35, 65))},

	{file: "uac-refer-refused", calls: 1, check: record(sound(20, 50))},
	{file: "uac-replaces", calls: 1, check: record(ended(call.CauseCallerHungUp, 10))},
	{file: "uac-replaces-unknown", refused: 481},
	{file: "uac-digest", settings: digests, args: secret("secret"), calls: 1, check: record(sound(10, 60))},
	{file: "uac-digest-wrong-password", settings: digests, args: secret("guessed"), refused: 401},
	{file: "uac-digest-stale-nonce", settings: digests, args: secret("secret"), calls: 1, prepare: func(st *stage) []string {
		first := Start(st.T, Play{File: "uac-digest", Target: st.server.Host, User: "agent", Args: secret("secret")}).Finish()
		for _, m := range first.Messages {
			if v := m.Header("Authorization"); m.Sent && v != "" {
				return []string{"-key", "proof", v}
			}
		}
		st.Fatal("no credentials were sent")
		return nil
	}},
	{file: "uac-digest-next-count", settings: digests, args: secret("secret"), calls: 2},
	{file: "uac-rate-cap", settings: capped, args: []string{"-t", "t1"}, refused: 503},
	{file: "uac-route", user: "+12025550100", settings: routes, calls: 1, check: record(func(r call.Record) bool { return r.Route == "hotline" && r.Agent == "sales" })},
	{file: "uac-route", user: "+12025550142", args: []string{"-d", "1"}, settings: routes, calls: 1, check: record(func(r call.Record) bool { return r.Route == "branches" && r.Agent == "support" })},
	{file: "uac-unknown-route", user: "+14155550100", settings: routes, refused: 404},

	{file: "uac-early-rtp", calls: 1, check: record(sound(55, 90))},
	{file: "uac-late-media", calls: 1, check: record(sound(35, 65))},
	{file: "uac-no-media", settings: peers.Settings{Call: "initial_media_timeout = \"1s\""}, calls: 1, check: record(ended(call.CauseMediaTimeout, 0))},
	{file: "uac-max-duration", settings: peers.Settings{Call: "max_duration = \"2s\"\ninitial_media_timeout = \"1s\""}, calls: 1, check: record(ended(call.CauseMaxDuration, 80))},
	{file: "uac-rtp-loss", calls: 1, check: record(func(r call.Record) bool {
		const lost = captured / lostOf
		s := r.Stats
		return s.Lost == lost && s.PacketsIn > captured-lost-4 && s.PacketsIn <= captured-lost && s.ConcealedMS >= lost*20
	})},
	{file: "uac-rtp-reordered", calls: 1, check: record(func(r call.Record) bool {
		s := r.Stats
		return s.Lost == 0 && s.Late == 0 && s.Duplicate >= captured/10-1 && s.PacketsIn > captured-4
	})},
	{file: "uac-dtmf", slow: true, calls: 1, check: func(st *stage) {
		record(func(r call.Record) bool { return r.Stats.Digits == 4 })(st)
		if keys := st.agent.Digits(); keys != "19*#" {
			st.Errorf("keys %q, want 19*#", keys)
		}
	}},
	{file: "uac-alaw", calls: 1, check: record(func(r call.Record) bool { return r.Codec == "PCMA" && r.Stats.PacketsIn > 90 && r.Stats.Lost == 0 })},
	{file: "uac-g722", calls: 1, check: record(func(r call.Record) bool { return r.Codec == "G722" && sound(35, 65)(r) })},
	{file: "uac-ptime-30", calls: 1, check: func(st *stage) {
		packets := st.ear.Packets(0)
		talked := st.apart("SIP/2.0 200", 0, 1)
		if n := len(packets); n < 25 || n > int(talked/(30*time.Millisecond))+5 {
			st.Errorf("%d packets in %v", n, talked)
		}
		for _, p := range packets {
			if len(p.Payload) != 240 {
				st.Fatalf("a packet of %d bytes", len(p.Payload))
			}
		}
	}},
	{file: "uac-trunk-source", local: "127.0.0.2", settings: trunks(), calls: 1, check: record(func(r call.Record) bool {
		return r.Trunk == "carrier" && r.ResourceID == "+12025550191" && sound(10, 60)(r)
	})},
	{file: "uac-refer-accepted", local: "127.0.0.3", settings: trunks(), second: "uas-answer", calls: 1, check: func(st *stage) {
		record(ended(call.CauseCallerHungUp, 20))(st) // whoever is the caller now
		st.otherPlayed()
	}},
}

func secret(password string) []string {
	return []string{"-au", "alice", "-ap", password, "-auth_uri", "agent@parley"}
}

// otherPlayed: the second SIPp went through its scenario.
func (st *stage) otherPlayed() {
	st.Helper()
	if r := st.other.Finish(); r.Status != 0 {
		st.Errorf("the second SIPp ended with status %d: %s", r.Status, r.Output)
	}
}

// occupied holds a call, which is all that the server may have, until the caller has
// been refused.
func occupied(st *stage) {
	p, err := phone.New(phone.Config{Number: "+12025550193"})
	if err != nil {
		st.Fatal(err)
	}
	c, err := p.Dial(st.Context(), st.server.URI("agent"))
	if err != nil {
		st.Fatal(err)
	}
	st.Cleanup(func() {
		if err := c.Hangup(st.Context()); err != nil && !strings.Contains(err.Error(), "context canceled") {
			st.Error(fmt.Errorf("hanging up: %w", err))
		}
		_ = p.Close()
	})
}
