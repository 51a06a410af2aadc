package api

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"parley/agent"
	"parley/call"
)

// Metrics are the gateway's figures. It is the call.Observer of the gateway; its
// methods may be called from any goroutine and do not block.
//
// Figures of a call's sound are added when the call ends.
type Metrics struct {
	registry *prometheus.Registry
	trunks   func() []Trunk // may be nil

	started  *prometheus.CounterVec
	ended    *prometheus.CounterVec
	refused  *prometheus.CounterVec
	setup    prometheus.Histogram
	duration prometheus.Histogram

	packets   *prometheus.CounterVec
	lost      prometheus.Counter
	late      prometheus.Counter
	duplicate prometheus.Counter
	strange   prometheus.Counter
	malformed prometheus.Counter
	concealed prometheus.Counter
	skipped   prometheus.Counter
	jitter    prometheus.Histogram
	reports   *prometheus.CounterVec
	peerLost  prometheus.Counter
	peerJit   prometheus.Histogram
	roundTrip prometheus.Histogram
	mos       *prometheus.HistogramVec
	speech    prometheus.Counter

	turns     prometheus.Counter
	digits    prometheus.Counter
	latency   prometheus.Histogram
	bargeIn   *prometheus.HistogramVec
	falseCuts prometheus.Counter
	errors    *prometheus.CounterVec
	stages    *prometheus.HistogramVec

	dialled   prometheus.Counter
	unreached *prometheus.CounterVec
	guarded   *prometheus.CounterVec
	transfers *prometheus.CounterVec
	insecure  *prometheus.CounterVec
	requests  *prometheus.CounterVec
	streams   prometheus.Gauge

	codecs, causes, rules, reasons, kinds, parts, guards *bounded
}

var (
	_ call.Observer        = (*Metrics)(nil)
	_ call.FailureObserver = (*Metrics)(nil)
)

// NewMetrics makes the figures, with what src tells among them.
func NewMetrics(src Sources) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		trunks:   src.Trunks,
		started:  counters("calls_started_total", "Calls answered.", "codec"),
		ended:    counters("calls_ended_total", "Answered calls that are over, by why.", "cause"),
		refused:  counters("calls_refused_total", "INVITEs refused, by status code and rule.", "code", "rule"),
		setup: histogram("call_setup_seconds", "From the INVITE to the 200.",
			0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
		duration: histogram("call_duration_seconds", "From the 200 to the end of the call.",
			1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200),

		packets:   counters("rtp_packets_total", "RTP packets of ended calls, from callers (in) and to them (out).", "direction"),
		lost:      counter("rtp_lost_packets_total", "Packets of callers that never came."),
		late:      counter("rtp_late_packets_total", "Packets of callers that came after their place was concealed."),
		duplicate: counter("rtp_duplicate_packets_total", "Packets of callers that came again."),
		strange:   counter("rtp_strange_packets_total", "Packets from a source that is not the caller's; neither heard nor answered."),
		malformed: counter("rtp_malformed_packets_total", "Datagrams on media ports that are no RTP."),
		concealed: counter("rtp_concealed_seconds_total", "Sound made up in place of packets that were missing."),
		skipped:   counter("rtp_skipped_slots_total", "Packets not sent because the process stalled."),
		jitter: histogram("rtp_jitter_seconds", "Interarrival jitter at the end of a call (RFC 3550).",
			0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2),
		reports:  counters("rtcp_packets_total", "RTCP packets of ended calls, from callers (in) and to them (out).", "direction"),
		peerLost: counter("rtp_peer_lost_packets_total", "Packets to callers that never came there, as callers reported."),
		peerJit: histogram("rtp_peer_jitter_seconds", "Interarrival jitter of our packets at the caller, as reported last.",
			0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2),
		roundTrip: histogram("rtp_round_trip_seconds", "Round-trip time to the caller as RTCP measured last.",
			0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2),
		mos: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "rtp_mos", Help: "Estimated mean opinion score of a call (ITU-T G.107), of callers (in) and at callers (out).",
			Buckets: []float64{1.5, 2, 2.5, 2.75, 3, 3.25, 3.5, 3.6, 3.75, 4, 4.1, 4.2, 4.3, 4.4},
		}, []string{"direction"}),
		speech: counter("agent_speech_seconds_total", "Speech of agents put on the wire."),

		turns:  counter("turns_total", "Turns of callers."),
		digits: counter("digits_total", "Keys pressed by callers."),
		latency: histogram("turn_latency_seconds", "From the caller's last sound to the first packet of the reply.",
			0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1, 1.25, 1.5, 2, 3, 5, 10),
		bargeIn: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "barge_in_stop_seconds", Help: "From the caller's first sound or key to the agent's silence.",
			Buckets: []float64{0.02, 0.05, 0.08, 0.1, 0.13, 0.16, 0.18, 0.2, 0.25, 0.3, 0.5, 1},
		}, []string{"reason"}),
		falseCuts: counter("false_barge_ins_total", "Interruptions that proved false; the agent went on."),
		errors:    counters("agent_errors_total", "Failures in conversations, by the part that failed.", "kind"),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "stage_seconds", Help: "How long a part of the work on a reply took.",
			Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10},
		}, []string{"stage"}),

		dialled:   counter("outbound_calls_total", "Calls placed."),
		unreached: counters("outbound_failures_total", "Calls placed that were not answered, by SIP status, 0 for none, and cause.", "code", "cause"),
		guarded:   counters("outbound_refused_total", "Requests to place or transfer a call that were refused, by rule.", "rule"),
		transfers: counters("transfers_total", "Transfers that are over, by result.", "result"),
		insecure:  counters("srtp_dropped_packets_total", "Packets of callers dropped by SRTP, by why.", "reason"),
		requests:  counters("api_requests_total", "HTTP requests answered, by operation and status.", "operation", "code"),
		streams:   prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "api_streams", Help: "Streams of events that are open."}),

		codecs: newBounded(), causes: newBounded(), rules: newBounded(), reasons: newBounded(), kinds: newBounded(), parts: newBounded(), guards: newBounded(),
	}
	for _, direction := range []string{"in", "out"} { // so that they are there before the first call
		m.reports.WithLabelValues(direction)
		m.mos.WithLabelValues(direction)
	}
	for _, reason := range []string{"forged", "replayed"} {
		m.insecure.WithLabelValues(reason)
	}
	for _, result := range []string{"transferred", "failed"} {
		m.transfers.WithLabelValues(result)
	}
	m.registry.MustRegister(
		m.started, m.ended, m.refused, m.setup, m.duration,
		m.packets, m.lost, m.late, m.duplicate, m.strange, m.malformed, m.concealed, m.skipped, m.jitter,
		m.reports, m.peerLost, m.peerJit, m.roundTrip, m.mos, m.speech,
		m.turns, m.digits, m.latency, m.bargeIn, m.falseCuts, m.errors, m.stages,
		m.dialled, m.unreached, m.guarded, m.transfers, m.insecure, m.requests, m.streams,
		newSourceCollector(src),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// CallStarted counts a call that was answered.
func (m *Metrics) CallStarted(s call.Started) {
	m.started.WithLabelValues(m.codecs.value(s.Codec)).Inc()
	m.setup.Observe(s.Setup.Seconds())
}

// CallEnded counts a call that is over, and its sound.
func (m *Metrics) CallEnded(r call.Record) {
	m.ended.WithLabelValues(m.causes.value(r.Cause)).Inc()
	m.duration.Observe(max(0, r.Ended.Sub(r.Answered)).Seconds())
	s := r.Stats
	m.packets.WithLabelValues("in").Add(float64(s.PacketsIn))
	m.packets.WithLabelValues("out").Add(float64(s.PacketsOut))
	m.lost.Add(float64(s.Lost))
	m.late.Add(float64(s.Late))
	m.duplicate.Add(float64(s.Duplicate))
	m.strange.Add(float64(s.Strange))
	m.malformed.Add(float64(s.Malformed))
	m.concealed.Add(float64(s.ConcealedMS) / 1000)
	m.skipped.Add(float64(s.SkippedSlots))
	m.speech.Add(max(0, s.Speech).Seconds())
	m.insecure.WithLabelValues("forged").Add(float64(s.Forged))
	m.insecure.WithLabelValues("replayed").Add(float64(s.Replayed))
	if s.PacketsIn > 1 {
		m.jitter.Observe(s.Jitter.Seconds())
	}
	m.callReported(s)
}

// CallFailed counts a call that was placed and not answered.
func (m *Metrics) CallFailed(r call.Record) {
	m.unreached.WithLabelValues(statusLabel(r.Code, 0), m.causes.value(r.Cause)).Inc()
}

// callReported counts what RTCP said of a call.
func (m *Metrics) callReported(s call.Stats) {
	m.reports.WithLabelValues("in").Add(float64(s.RTCPIn))
	m.reports.WithLabelValues("out").Add(float64(s.RTCPOut))
	m.peerLost.Add(float64(s.PeerLost))
	if s.RTT > 0 {
		m.roundTrip.Observe(s.RTT.Seconds())
	}
	if s.MOS > 0 {
		m.mos.WithLabelValues("in").Observe(s.MOS)
	}
	if s.PeerMOS > 0 { // the caller reported
		m.mos.WithLabelValues("out").Observe(s.PeerMOS)
		m.peerJit.Observe(s.PeerJitter.Seconds())
	}
}

// CallRefused counts an INVITE that was refused.
func (m *Metrics) CallRefused(code int, rule string) {
	m.refused.WithLabelValues(statusLabel(code, 300), m.rules.value(rule)).Inc()
}

// statusLabel is a SIP status from least on as a label's value.
func statusLabel(code, least int) string {
	if code >= least && code < 700 {
		return strconv.Itoa(code)
	}
	return "other"
}

// dialRefused counts a request to place or transfer a call that was refused.
func (m *Metrics) dialRefused(rule string) {
	m.guarded.WithLabelValues(m.guards.value(rule)).Inc()
}

// answered counts a request over HTTP.
func (m *Metrics) answered(operation string, status int) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
}

// CallEvent counts what happens in conversations.
func (m *Metrics) CallEvent(_ string, e agent.Event) {
	switch e.Type {
	case agent.EventUserStopped:
		m.turns.Inc()
	case agent.EventDigit:
		m.digits.Inc()
	case agent.EventAgentStarted:
		if e.Latency > 0 {
			m.latency.Observe(e.Latency.Seconds())
		}
	case agent.EventBargeIn:
		m.bargeIn.WithLabelValues(m.reasons.value(e.Reason)).Observe(max(0, e.Latency).Seconds())
	case agent.EventFalseBargeIn:
		m.falseCuts.Inc()
	case agent.EventError:
		m.errors.WithLabelValues(m.kinds.value(kind(e.Reason))).Inc()
	case agent.EventConnection:
		m.connection(e)
	case agent.EventTiming:
		m.stages.WithLabelValues(m.parts.value(e.Reason)).Observe(max(0, e.Latency).Seconds())
	case agent.EventUserStarted, agent.EventTranscript, agent.EventStopTimeout, agent.EventInference, agent.EventIdle,
		agent.EventAgentText, agent.EventAgentStopped, agent.EventAction, agent.EventState, agent.EventRecording,
		agent.EventToolCall, agent.EventToolResult, agent.EventThought, agent.EventSummary, agent.EventCompletion,
		agent.EventRetrieval, agent.EventMuted, agent.EventAnsweredBy, agent.EventLagged:
	}
}

// connection counts what became of calls that were placed, and of transfers.
func (m *Metrics) connection(e agent.Event) {
	switch e.Reason {
	case agent.ConnectionDialling:
		m.dialled.Inc()
	case agent.ConnectionTransferred:
		m.transfers.WithLabelValues("transferred").Inc()
	case agent.ConnectionTransferFailed:
		m.transfers.WithLabelValues("failed").Inc()
	}
}

// namespace begins the name of every figure.
const namespace = "parley"

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets ...float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}
