package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"parley/agent"
	"parley/call"
)

// scrape gives the text of /metrics.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	s, err := New(DefaultConfig(), Parts{Ready: func() error { return nil }, Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, request("GET", "/metrics", "", ""))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// full is metrics to which everything has happened.
func full() *Metrics {
	m := NewMetrics(Sources{
		Active: func() int { return 3 },
		Limit:  func() int { return 500 },
		Ready:  func() error { return errors.New("draining") },
		Wheel: func() Wheel {
			return Wheel{
				Turns: 100, Missed: 2, Longest: 3 * time.Millisecond, Sessions: 3, Faults: 1,
				Bounds: []time.Duration{time.Millisecond, 5 * time.Millisecond}, Counts: []uint64{90, 6, 4}, Sum: 80 * time.Millisecond,
				InUse: 3, Quarantined: 1, Total: 500,
			}
		},
		Signalling: func() Signalling {
			return Signalling{Requests: map[string]uint64{"INVITE": 7}, Responses: map[int]uint64{200: 6, 503: 1}, Malformed: 2, Dialogs: 3, Transactions: 4, Connections: 1}
		},
		TrunkLoads: func() []call.TrunkLoad {
			return []call.TrunkLoad{{Name: "carrier", Active: 4, Limit: 10}, {Name: "pbx-1"}}
		},
		Sound: func() call.SoundStats {
			delay := func(in, over uint64) call.Delay {
				return call.Delay{Bounds: []time.Duration{time.Millisecond}, Counts: []uint64{in, over}, Sum: 4 * time.Millisecond}
			}
			return call.SoundStats{
				Delays:        call.Delays{Hear: delay(1, 2), Say: delay(3, 4), Stop: delay(5, 6)},
				SpeechDropped: 1500 * time.Millisecond,
				Recording:     call.RecordingStats{Files: 8, Failed: 1, DroppedBlocks: 6, Active: 2},
			}
		},
		Sessions: func() Sessions { return Sessions{Waiting: 2, Written: 40, Retried: 3, Lost: 1, Forgotten: 5} },
		Switches: func() map[Switch]uint64 {
			return map[Switch]uint64{{"stt", "deepgram", "pocketsphinx"}: 2, {"tts", "openai", ""}: 1}
		},
		Trunks: func() []Trunk {
			return []Trunk{{Name: "carrier", State: TrunkRegistered, Failures: 2}, {Name: "pbx-1", State: TrunkFailed, Failures: 7}}
		},
	})
	m.CallFailed(call.Record{Code: 486, Cause: call.CauseBusy})
	m.CallFailed(call.Record{Cause: call.CauseNoAnswer})
	m.CallStarted(call.Started{Codec: "PCMU", Setup: 12 * time.Millisecond})
	began := time.Unix(1000, 0)
	m.CallEnded(call.Record{
		Cause: call.CauseCallerHungUp, Answered: began, Ended: began.Add(42 * time.Second),
		Stats: call.Stats{
			PacketsIn: 2100, PacketsOut: 2101, Lost: 5, Late: 2, Duplicate: 1, ConcealedMS: 140, Strange: 9, Malformed: 3, Forged: 11, Replayed: 12,
			Jitter: 4 * time.Millisecond, SkippedSlots: 1, Speech: 20 * time.Second,
			RTT: 80 * time.Millisecond, PeerLost: 6, PeerJitter: 3 * time.Millisecond, RTCPIn: 9, RTCPOut: 10, MOS: 4.22, PeerMOS: 3.9,
		},
	})
	m.CallRefused(503, "max_calls")
	for _, e := range []agent.Event{
		{Type: agent.EventUserStopped, Text: "hello"},
		{Type: agent.EventAgentStarted, Latency: 730 * time.Millisecond},
		{Type: agent.EventAgentStarted}, // the greeting answers no turn
		{Type: agent.EventBargeIn, Latency: 120 * time.Millisecond, Reason: "voice"},
		{Type: agent.EventFalseBargeIn},
		{Type: agent.EventDigit, Text: "5"},
		{Type: agent.EventError, Reason: "stt: stream lost"},
		{Type: agent.EventError, Reason: "something without a room"},
		{Type: agent.EventTranscript, Text: "hello"},
		{Type: agent.EventConnection, Reason: agent.ConnectionDialling},
		{Type: agent.EventConnection, Reason: agent.ConnectionTransferred},
		{Type: agent.EventConnection, Reason: agent.ConnectionTransferFailed, Code: 486},
		{Type: agent.EventConnection, Reason: agent.ConnectionTransferFailed, Code: 404},
		{Type: agent.EventTiming, Reason: "llm", Latency: 250 * time.Millisecond},
	} {
		m.CallEvent("id", e)
	}
	return m
}

func TestMetricsSayWhatHappened(t *testing.T) {
	text := scrape(t, full())
	for _, want := range []string{
		`parley_calls_started_total{codec="pcmu"} 1`,
		`parley_calls_ended_total{cause="caller_hung_up"} 1`,
		`parley_calls_refused_total{code="503",rule="max_calls"} 1`,
		`parley_calls_active 3`,
		`parley_calls_limit 500`,
		`parley_ready 0`,
		`parley_session_events_waiting 2`,
		`parley_session_events_total{result="written"} 40`,
		`parley_session_events_total{result="lost"} 1`,
		`parley_session_events_total{result="forgotten"} 5`,
		`parley_session_write_retries_total 3`,
		`parley_speech_switches_total{from="deepgram",part="stt",to="pocketsphinx"} 2`,
		`parley_speech_switches_total{from="openai",part="tts",to="none"} 1`,
		`parley_trunk_registered{trunk="carrier"} 1`,
		`parley_trunk_registered{trunk="pbx-1"} 0`,
		`parley_trunk_registration_failures_total{trunk="pbx-1"} 7`,
		`parley_call_setup_seconds_bucket{le="0.025"} 1`,
		`parley_call_duration_seconds_sum 42`,
		`parley_rtp_packets_total{direction="in"} 2100`,
		`parley_rtp_packets_total{direction="out"} 2101`,
		`parley_rtp_lost_packets_total 5`,
		`parley_rtp_late_packets_total 2`,
		`parley_rtp_duplicate_packets_total 1`,
		`parley_rtp_strange_packets_total 9`,
		`parley_rtp_malformed_packets_total 3`,
		`parley_rtp_concealed_seconds_total 0.14`,
		`parley_rtp_skipped_slots_total 1`,
		`parley_rtp_jitter_seconds_bucket{le="0.005"} 1`,
		`parley_rtcp_packets_total{direction="in"} 9`,
		`parley_rtcp_packets_total{direction="out"} 10`,
		`parley_rtp_peer_lost_packets_total 6`,
		`parley_rtp_peer_jitter_seconds_bucket{le="0.005"} 1`,
		`parley_rtp_round_trip_seconds_bucket{le="0.1"} 1`,
		`parley_rtp_mos_bucket{direction="in",le="4.3"} 1`,
		`parley_rtp_mos_bucket{direction="out",le="4"} 1`,
		`parley_agent_speech_seconds_total 20`,
		`parley_turns_total 1`,
		`parley_digits_total 1`,
		`parley_turn_latency_seconds_count 1`,
		`parley_turn_latency_seconds_bucket{le="0.8"} 1`,
		`parley_barge_in_stop_seconds_bucket{reason="voice",le="0.13"} 1`,
		`parley_false_barge_ins_total 1`,
		`parley_agent_errors_total{kind="stt"} 1`,
		`parley_outbound_calls_total 1`,
		`parley_outbound_failures_total{cause="busy",code="486"} 1`,
		`parley_outbound_failures_total{cause="no_answer",code="0"} 1`,
		`parley_transfers_total{result="transferred"} 1`,
		`parley_transfers_total{result="failed"} 2`,
		`parley_stage_seconds_bucket{stage="llm",le="0.3"} 1`,
		`parley_srtp_dropped_packets_total{reason="forged"} 11`,
		`parley_srtp_dropped_packets_total{reason="replayed"} 12`,
		`parley_trunk_calls_active{trunk="carrier"} 4`,
		`parley_trunk_calls_limit{trunk="carrier"} 10`,
		`parley_trunk_calls_active{trunk="pbx-1"} 0`,
		`parley_hear_delay_seconds_bucket{le="0.001"} 1`,
		`parley_hear_delay_seconds_count 3`,
		`parley_say_delay_seconds_count 7`,
		`parley_stop_delay_seconds_sum 0.004`,
		`parley_agent_speech_dropped_seconds_total 1.5`,
		`parley_recordings_active 2`,
		`parley_recordings_total 8`,
		`parley_recording_failures_total 1`,
		`parley_recording_dropped_packets_total 6`,
		`parley_api_streams 0`,
		`parley_agent_errors_total{kind="other"} 1`,
		`parley_wheel_turns_total 100`,
		`parley_wheel_missed_turns_total 2`,
		`parley_wheel_lateness_seconds_bucket{le="0.001"} 90`,
		`parley_wheel_lateness_seconds_bucket{le="0.005"} 96`,
		`parley_wheel_lateness_seconds_bucket{le="+Inf"} 100`,
		`parley_wheel_longest_turn_seconds 0.003`,
		`parley_rtp_ports{state="free"} 496`,
		`parley_sip_requests_total{method="INVITE"} 7`,
		`parley_sip_responses_total{code="503"} 1`,
		`parley_sip_dialogs 3`,
		`go_goroutines `,
		`process_start_time_seconds `,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(text, `parley_trunk_calls_limit{trunk="pbx-1"}`) {
		t.Error("a limit where there is none")
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestMetricNamesFollowTheConventions(t *testing.T) {
	problems, err := promlint.New(bytes.NewBufferString(scrape(t, full()))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "parley_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestLabelsAreBounded(t *testing.T) {
	m := NewMetrics(Sources{})
	for i := range 1000 {
		text := fmt.Sprintf("text of a stranger %d", i)
		m.CallStarted(call.Started{Codec: text})
		m.CallEnded(call.Record{Cause: text})
		m.CallRefused(i, text)
		m.CallEvent("", agent.Event{Type: agent.EventBargeIn, Reason: text})
		m.CallEvent("", agent.Event{Type: agent.EventError, Reason: fmt.Sprintf("kind%d: x", i)})
	}
	got := strings.Count(scrape(t, m), "\nparley_")
	// Four labels of 33 values, one of them a histogram of 15 lines, and rules
	// times codes, each of which was seen with one rule only.
	if got > 3*33+33*15+500+200 {
		t.Errorf("%d time series", got)
	}
	if !strings.Contains(scrape(t, m), `parley_calls_ended_total{cause="other"} 968`) {
		t.Error("what is beyond the bound is not counted as other")
	}
}

func TestLabelText(t *testing.T) {
	for in, want := range map[string]string{
		"": "none", "caller hung up": "caller_hung_up", "PCMU": "pcmu", "a\"b\n": "a_b_", "李": "_",
		strings.Repeat("x", 100): strings.Repeat("x", 48),
	} {
		if got := labelText(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestSourcesThatAreMissing(t *testing.T) {
	text := scrape(t, NewMetrics(Sources{Wheel: func() Wheel { return Wheel{} }}))
	if strings.Contains(text, "parley_calls_active") || strings.Contains(text, "parley_wheel_lateness_seconds") || !strings.Contains(text, "parley_wheel_turns_total 0") {
		t.Error(text)
	}
}

func TestMetricsAreSafeForConcurrentUse(t *testing.T) {
	m := full()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				m.CallStarted(call.Started{Codec: "PCMA"})
				m.CallEnded(call.Record{Cause: fmt.Sprint(i)})
				m.CallRefused(486, fmt.Sprint(i))
				m.CallEvent("", agent.Event{Type: agent.EventError, Reason: "llm: x"})
			}
		})
	}
	scrape(t, m)
	wg.Wait()
	if !strings.Contains(scrape(t, m), `parley_agent_errors_total{kind="llm"} 400`) {
		t.Error("events were lost")
	}
}
