package stream

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/coder/websocket"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
)

// mulaw is the encoding name of the sound of dialect Twilio (RFC 3551).
const mulaw = "PCMU"

// twilio is the Media Streams protocol.
//
//	to the agent: connected, start, media, dtmf, mark, stop
//	from it:      media, mark, clear
type twilio struct {
	account, call string
	parameters    map[string]string
	coder         media.Encoder
	decoder       media.Decoder

	stream   atomic.Pointer[string] // of this connection; nil before start
	sequence int64                  // of the last message
	chunk    int64
	origin   int64 // the sample at which the stream began; -1: none was sent yet
}

// newTwilio makes the dialect of a call.
func newTwilio(cfg Config, c agent.Call) (*twilio, error) {
	codec := g711.PCMU()
	enc, err := codec.NewEncoder()
	if err != nil {
		return nil, err
	}
	dec, err := codec.NewDecoder()
	if err != nil {
		return nil, err
	}
	return &twilio{
		account: cfg.AccountSID, call: "CA" + sid(c.SessionID), parameters: parameters(cfg.Parameters, c),
		coder: enc, decoder: dec,
	}, nil
}

// sid makes 32 hexadecimal digits of an id that has as many, else of none.
func sid(id string) string {
	if b, err := hex.DecodeString(id); err == nil && len(b) == 16 {
		return id
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	return hex.EncodeToString(b[:])
}

// parameters fills in what the configured ones say of a call.
func parameters(configured map[string]string, c agent.Call) map[string]string {
	known := []string{
		"{from}", c.Caller.Number, "{to}", c.Called, "{name}", c.Caller.Name, "{direction}", c.Direction,
		"{call_id}", c.ID, "{session_id}", c.SessionID, "{trunk}", c.Trunk, "{agent}", c.Agent,
	}
	for name, value := range c.Headers {
		known = append(known, "{"+name+"}", value)
	}
	fill := strings.NewReplacer(known...)
	out := make(map[string]string, len(configured)+len(c.Context))
	for name, value := range configured {
		value = fill.Replace(value)
		if strings.HasPrefix(value, "{X-") && strings.HasSuffix(value, "}") {
			value = "" // a header that this call does not have
		}
		out[name] = value
	}
	maps.Copy(out, c.Context)
	return out
}

func (d *twilio) hear(dst []byte, pcm []int16) []byte {
	dst, _ = d.coder.Encode(dst, pcm) // G.711 never fails
	return dst
}

func (d *twilio) say(dst []int16, sound []byte) []int16 {
	dst, _ = d.decoder.Decode(dst, sound)
	return dst
}

func (d *twilio) connected(dst []byte, _ *progress) []byte {
	return append(dst, `{"event":"connected","protocol":"Call","version":"1.0.0"}`...)
}

// begin is the start message: each connection is a stream of its own.
func (d *twilio) begin(dst []byte, _ bool) []byte {
	stream := "MZ" + sid("")
	d.stream.Store(&stream)
	d.sequence, d.chunk, d.origin = 0, 0, -1
	type format struct {
		Encoding   string `json:"encoding"`
		SampleRate int    `json:"sampleRate"`
		Channels   int    `json:"channels"`
	}
	type start struct {
		AccountSID       string            `json:"accountSid"`
		StreamSID        string            `json:"streamSid"`
		CallSID          string            `json:"callSid"`
		Tracks           []string          `json:"tracks"`
		MediaFormat      format            `json:"mediaFormat"`
		CustomParameters map[string]string `json:"customParameters"`
	}
	body, err := json.Marshal(start{
		d.account, stream, d.call, []string{"inbound"}, format{"audio/x-mulaw", g711.Rate, 1}, d.parameters,
	})
	if err != nil {
		return nil // strings always marshal
	}
	dst = d.head(dst, "start")
	dst = append(dst, `,"start":`...)
	return append(append(dst, body...), '}')
}

// head begins a message: all but connected have a number and name their stream.
func (d *twilio) head(dst []byte, event string) []byte {
	d.sequence++
	dst = append(dst, `{"event":"`...)
	dst = append(dst, event...)
	dst = append(dst, `","sequenceNumber":"`...)
	dst = strconv.AppendInt(dst, d.sequence, 10)
	dst = append(dst, `","streamSid":"`...)
	dst = append(dst, *d.stream.Load()...)
	return append(dst, '"')
}

// gap is nil: the frame's timestamp tells.
func (d *twilio) gap([]byte, *frame) []byte { return nil }

func (d *twilio) sound(dst []byte, f *frame) (websocket.MessageType, []byte) {
	if d.origin < 0 {
		d.origin = f.at
	}
	d.chunk++
	dst = d.head(dst, "media")
	dst = append(dst, `,"media":{"track":"inbound","chunk":"`...)
	dst = strconv.AppendInt(dst, d.chunk, 10)
	dst = append(dst, `","timestamp":"`...)
	dst = strconv.AppendInt(dst, milliseconds(f.at-d.origin, g711.Rate), 10)
	dst = append(dst, `","payload":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, f.sound)
	return websocket.MessageText, append(dst, `"}}`...)
}

func (d *twilio) tell(dst []byte, message any) []byte {
	if d.stream.Load() == nil {
		return nil // there was no start
	}
	switch m := message.(type) {
	case digitPressed:
		dst = d.head(dst, "dtmf")
		dst = append(dst, `,"dtmf":{"track":"inbound_track","digit":`...)
		return append(quote(dst, m.Digit), `}}`...)
	case markReached:
		dst = d.head(dst, "mark")
		dst = append(dst, `,"mark":{"name":`...)
		return append(quote(dst, m.Name), `}}`...)
	case stopped:
		dst = d.head(dst, "stop")
		dst = append(dst, `,"stop":{"accountSid":`...)
		dst = append(quote(dst, d.account), `,"callSid":`...)
		return append(quote(dst, d.call), `}}`...)
	}
	return nil
}

// quote appends s as a JSON string.
func quote(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return append(dst, `""`...) // strings always marshal
	}
	return append(dst, b...)
}

// maxName bounds the names of marks.
const maxName = 1024

func (d *twilio) read(kind websocket.MessageType, text []byte) (any, error) {
	if kind != websocket.MessageText {
		return nil, bad("message", "is binary; send JSON text")
	}
	var m struct {
		Event  *string `json:"event"`
		Stream string  `json:"streamSid"`
		Media  *struct {
			Payload *string `json:"payload"`
		} `json:"media"`
		Mark *struct {
			Name *string `json:"name"`
		} `json:"mark"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, bad("message", "is no JSON object as it should be")
	}
	if m.Event == nil {
		return nil, bad("event", "is missing")
	}
	switch *m.Event {
	case "media", "mark", "clear":
	default:
		return unknownCommand{*m.Event}, nil
	}
	if !d.mine(m.Stream) {
		return otherCommand{}, nil
	}
	switch *m.Event {
	case "clear":
		return clearCommand{}, nil
	case "mark":
		if m.Mark == nil || m.Mark.Name == nil {
			return nil, bad("mark.name", "is missing")
		}
		if len(*m.Mark.Name) > maxName {
			return nil, bad("mark.name", "is longer than %d bytes", maxName)
		}
		return markCommand{name: *m.Mark.Name}, nil
	}
	if m.Media == nil || m.Media.Payload == nil {
		return nil, bad("media.payload", "is missing")
	}
	sound, err := unbase64(*m.Media.Payload)
	if err != nil {
		return nil, bad("media.payload", "is no base64")
	}
	if what := disguised(sound); what != "" {
		return nil, bad("media.payload", "is %s; send raw audio/x-mulaw at 8000 Hz", what)
	}
	return sayCommand{sound}, nil
}

// mine says whether a message is for the stream of this connection. An agent of several
// streams may mix them up; one that names none means the one it has.
func (d *twilio) mine(stream string) bool {
	current := d.stream.Load()
	return stream == "" || current == nil || stream == *current
}

// unbase64 decodes with padding or without.
func unbase64(s string) ([]byte, error) {
	if strings.HasSuffix(s, "=") || len(s)%4 == 0 {
		return base64.StdEncoding.DecodeString(s)
	}
	return base64.RawStdEncoding.DecodeString(s)
}

var _ dialect = (*twilio)(nil)
