package api

import (
	"cmp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/call"
)

// Sources tell figures that others keep. Each function may be nil, is asked at
// every scrape, may be called from several goroutines and must not block.
type Sources struct {
	// Active is how many calls are up or being set up, Limit how many may be.
	Active, Limit func() int
	// Ready is nil when calls are taken.
	Ready func() error
	// Wheel are the figures of what moves the packets.
	Wheel func() Wheel
	// Signalling are the figures of the SIP side.
	Signalling func() Signalling
	// Trunks are the registrations at trunks, by name.
	Trunks func() []Trunk
	// TrunkLoads are the calls of each trunk, and how many it may have.
	TrunkLoads func() []call.TrunkLoad
	// Sound are the gateway's own delays and its recordings.
	Sound func() call.SoundStats
	// Sessions are the figures of what keeps conversations on record.
	Sessions func() Sessions
	// Switches count the recognisers and voices that failed.
	Switches func() map[Switch]uint64
}

// Switch is a recogniser or a voice that failed and the one that took over.
type Switch struct {
	// Part is "stt" or "tts", From and To are names of providers. To is empty when none
	// was left.
	Part, From, To string
}

// Sessions are the figures of what keeps conversations on record.
type Sessions struct {
	// Waiting is how many events wait to be written now.
	Waiting int
	// Written, Retried, Lost and Forgotten count events that are in the store, attempts
	// that failed and were made again, events that were given up, and those of
	// conversations that were removed meanwhile.
	Written, Retried, Lost, Forgotten uint64
}

// Wheel are the figures of what moves the packets.
type Wheel struct {
	// Turns counts its ticks, Missed those given up after a stall.
	Turns, Missed uint64
	// Lateness counts turns by how long after their time they began: Bounds are
	// the inclusive upper bounds of the buckets, Counts has one entry more for the
	// rest, Sum is of all.
	Bounds []time.Duration
	Counts []uint64
	Sum    time.Duration
	// Longest is the longest turn.
	Longest time.Duration
	// Faults counts calls that were detached because of a fault.
	Faults uint64
	// Sessions is how many it turns.
	Sessions int
	// InUse, Quarantined and Total are ports; Total is 0 when there is no range.
	InUse, Quarantined, Total int
}

// Signalling are the figures of the SIP side.
type Signalling struct {
	// Requests by method, Responses by status code.
	Requests  map[string]uint64
	Responses map[int]uint64
	// What was malformed, dropped, sent again, refused for load, and recovered.
	Malformed, Dropped, Retransmitted, Overloads, Panics uint64
	// How many there are now.
	Dialogs, Transactions, Connections int
}

// sourceCollector asks the sources at a scrape.
type sourceCollector struct {
	src   Sources
	descs map[string]*prometheus.Desc
}

func newSourceCollector(src Sources) *sourceCollector {
	c := &sourceCollector{src: src, descs: map[string]*prometheus.Desc{}}
	for _, d := range []struct {
		name, help string
		label      []string
	}{
		{"calls_active", "Calls that are up or being set up.", nil},
		{"calls_limit", "Calls that may be up at once.", nil},
		{"ready", "1 when calls are taken, else 0.", nil},

		{"wheel_turns_total", "Turns of the wheel that moves the packets.", nil},
		{"wheel_missed_turns_total", "Turns given up after a stall.", nil},
		{"wheel_lateness_seconds", "How long after its time each turn began.", nil},
		{"wheel_longest_turn_seconds", "The longest turn since the start.", nil},
		{"wheel_faults_total", "Calls detached from the wheel because of a fault.", nil},
		{"wheel_sessions", "Sessions on the wheel.", nil},
		{"rtp_ports", "Ports of the range, by state.", []string{"state"}},

		{"sip_requests_total", "Requests received, retransmissions included.", []string{"method"}},
		{"sip_responses_total", "Responses sent, without retransmissions.", []string{"code"}},
		{"sip_malformed_messages_total", "Messages refused for their form, or not even that.", nil},
		{"sip_dropped_messages_total", "Stray ACKs and responses.", nil},
		{"sip_retransmissions_total", "Requests and responses of ours that were sent again.", nil},
		{"sip_overloads_total", "Requests refused because of too many transactions.", nil},
		{"sip_panics_total", "Faults in handlers that were recovered.", nil},
		{"sip_dialogs", "Dialogs that are up.", nil},
		{"sip_transactions", "Server transactions that are alive.", nil},
		{"sip_connections", "TCP connections that are open.", nil},

		{"trunk_registered", "1 while a trunk's registration stands, else 0.", []string{"trunk"}},
		{"trunk_registration_failures_total", "Attempts to register that failed.", []string{"trunk"}},
		{"trunk_calls_active", "Calls of a trunk that are up or being set up, of both directions.", []string{"trunk"}},
		{"trunk_calls_limit", "Calls that a trunk may have at once; not there without a limit.", []string{"trunk"}},

		{"hear_delay_seconds", "From a packet's arrival until its sound is given to the agent.", nil},
		{"say_delay_seconds", "From the agent's first sample until its packet goes out.", nil},
		{"stop_delay_seconds", "From the stop of the agent's speech until the first packet of silence.", nil},
		{"agent_speech_dropped_seconds_total", "Speech of agents that a stall made too late to be sent.", nil},
		{"recordings_active", "Calls that are being recorded.", nil},
		{"recordings_total", "Recordings begun.", nil},
		{"recording_failures_total", "Recordings that an error ended early.", nil},
		{"recording_dropped_packets_total", "Packets that are silence in their recording because the disk was slow.", nil},

		{"session_events_waiting", "Events of conversations that wait to be written.", nil},
		{"session_events_total", "Events of conversations, by what became of them.", []string{"result"}},
		{"speech_switches_total", "Recognisers and voices that failed, by which was to take over (none: none was left).", []string{"part", "from", "to"}},

		{"session_write_retries_total", "Attempts to write an event that failed and were made again.", nil},
	} {
		c.descs[d.name] = prometheus.NewDesc(namespace+"_"+d.name, d.help, d.label, nil)
	}
	return c
}

// Describe lists what Collect gives.
func (c *sourceCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect asks.
func (c *sourceCollector) Collect(ch chan<- prometheus.Metric) {
	if c.src.Active != nil {
		c.gauge(ch, "calls_active", c.src.Active())
	}
	if c.src.Limit != nil {
		c.gauge(ch, "calls_limit", c.src.Limit())
	}
	if c.src.Ready != nil {
		ready := 0
		if c.src.Ready() == nil {
			ready = 1
		}
		c.gauge(ch, "ready", ready)
	}
	if c.src.Wheel != nil {
		c.wheel(ch, c.src.Wheel())
	}
	if c.src.Signalling != nil {
		c.signalling(ch, c.src.Signalling())
	}
	if c.src.Trunks != nil {
		c.trunks(ch, c.src.Trunks())
	}
	if c.src.TrunkLoads != nil {
		for _, t := range c.src.TrunkLoads() {
			c.gauge(ch, "trunk_calls_active", t.Active, t.Name)
			if t.Limit > 0 {
				c.gauge(ch, "trunk_calls_limit", t.Limit, t.Name)
			}
		}
	}
	if c.src.Sound != nil {
		c.sound(ch, c.src.Sound())
	}
	if c.src.Switches != nil {
		for of, n := range c.src.Switches() {
			c.count(ch, "speech_switches_total", n, of.Part, of.From, cmp.Or(of.To, "none"))
		}
	}
	if c.src.Sessions != nil {
		s := c.src.Sessions()
		c.gauge(ch, "session_events_waiting", s.Waiting)
		c.count(ch, "session_events_total", s.Written, "written")
		c.count(ch, "session_events_total", s.Lost, "lost")
		c.count(ch, "session_events_total", s.Forgotten, "forgotten")
		c.count(ch, "session_write_retries_total", s.Retried)
	}
}

func (c *sourceCollector) sound(ch chan<- prometheus.Metric, s call.SoundStats) {
	c.histogram(ch, "hear_delay_seconds", s.Delays.Hear.Bounds, s.Delays.Hear.Counts, s.Delays.Hear.Sum)
	c.histogram(ch, "say_delay_seconds", s.Delays.Say.Bounds, s.Delays.Say.Counts, s.Delays.Say.Sum)
	c.histogram(ch, "stop_delay_seconds", s.Delays.Stop.Bounds, s.Delays.Stop.Counts, s.Delays.Stop.Sum)
	ch <- prometheus.MustNewConstMetric(c.descs["agent_speech_dropped_seconds_total"], prometheus.CounterValue, s.SpeechDropped.Seconds())
	c.gauge(ch, "recordings_active", s.Recording.Active)
	c.count(ch, "recordings_total", s.Recording.Files)
	c.count(ch, "recording_failures_total", s.Recording.Failed)
	c.count(ch, "recording_dropped_packets_total", s.Recording.DroppedBlocks)
}

func (c *sourceCollector) wheel(ch chan<- prometheus.Metric, w Wheel) {
	c.count(ch, "wheel_turns_total", w.Turns)
	c.count(ch, "wheel_missed_turns_total", w.Missed)
	c.count(ch, "wheel_faults_total", w.Faults)
	c.gauge(ch, "wheel_sessions", w.Sessions)
	ch <- prometheus.MustNewConstMetric(c.descs["wheel_longest_turn_seconds"], prometheus.GaugeValue, w.Longest.Seconds())
	if w.Total > 0 {
		c.gauge(ch, "rtp_ports", w.InUse, "in_use")
		c.gauge(ch, "rtp_ports", w.Quarantined, "quarantined")
		c.gauge(ch, "rtp_ports", max(0, w.Total-w.InUse-w.Quarantined), "free")
	}
	c.histogram(ch, "wheel_lateness_seconds", w.Bounds, w.Counts, w.Sum)
}

// histogram gives counts of durations, each bucket by itself, of which the last has
// no bound; without buckets it gives nothing.
func (c *sourceCollector) histogram(ch chan<- prometheus.Metric, name string, bounds []time.Duration, counts []uint64, sum time.Duration) {
	if len(counts) != len(bounds)+1 {
		return
	}
	var total uint64
	buckets := make(map[float64]uint64, len(bounds))
	for i, bound := range bounds { // Prometheus counts upwards
		total += counts[i]
		buckets[bound.Seconds()] = total
	}
	total += counts[len(bounds)]
	ch <- prometheus.MustNewConstHistogram(c.descs[name], total, sum.Seconds(), buckets)
}

func (c *sourceCollector) signalling(ch chan<- prometheus.Metric, s Signalling) {
	for method, n := range s.Requests {
		c.count(ch, "sip_requests_total", n, method)
	}
	for code, n := range s.Responses {
		c.count(ch, "sip_responses_total", n, strconv.Itoa(code))
	}
	c.count(ch, "sip_malformed_messages_total", s.Malformed)
	c.count(ch, "sip_dropped_messages_total", s.Dropped)
	c.count(ch, "sip_retransmissions_total", s.Retransmitted)
	c.count(ch, "sip_overloads_total", s.Overloads)
	c.count(ch, "sip_panics_total", s.Panics)
	c.gauge(ch, "sip_dialogs", s.Dialogs)
	c.gauge(ch, "sip_transactions", s.Transactions)
	c.gauge(ch, "sip_connections", s.Connections)
}

func (c *sourceCollector) count(ch chan<- prometheus.Metric, name string, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.CounterValue, float64(n), labels...)
}

func (c *sourceCollector) gauge(ch chan<- prometheus.Metric, name string, n int, labels ...string) {
	ch <- prometheus.MustNewConstMetric(c.descs[name], prometheus.GaugeValue, float64(n), labels...)
}
