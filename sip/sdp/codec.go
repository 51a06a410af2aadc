package sdp

import (
	"strconv"
	"strings"
)

// eventName is the encoding name of RFC 4733.
const eventName = "telephone-event"

// format is one payload type of a stream.
type format struct {
	pt       uint8
	name     string
	clock    int
	channels int
	params   string
}

// static are the payload types of RFC 3551 that need no rtpmap and that somebody
// still offers.
func static(pt uint8) (format, bool) {
	switch pt {
	case 0:
		return format{pt: 0, name: "PCMU", clock: 8000}, true
	case 3:
		return format{pt: 3, name: "GSM", clock: 8000}, true
	case 4:
		return format{pt: 4, name: "G723", clock: 8000}, true
	case 8:
		return format{pt: 8, name: "PCMA", clock: 8000}, true
	case 9:
		return format{pt: 9, name: "G722", clock: 8000}, true
	case 13:
		return format{pt: 13, name: "CN", clock: 8000}, true
	case 18:
		return format{pt: 18, name: "G729", clock: 8000}, true
	}
	return format{}, false
}

// formatsOf returns the payload types of the m= line, in order. One that is
// dynamic and has no rtpmap means nothing, and is left out.
func (m *media) formatsOf() []format {
	var all []format
	for _, text := range m.formats {
		n, err := strconv.ParseUint(text, 10, 7)
		if err != nil {
			continue
		}
		f, ok := m.rtpmap(uint8(n))
		if !ok {
			if f, ok = static(uint8(n)); !ok {
				continue
			}
		}
		f.params = m.fmtp(text)
		all = append(all, f)
	}
	return all
}

func (m *media) rtpmap(pt uint8) (format, bool) {
	for _, a := range m.attrs {
		if a.name != "rtpmap" {
			continue
		}
		number, rest, _ := strings.Cut(a.value, " ")
		if n, err := strconv.ParseUint(number, 10, 7); err != nil || uint8(n) != pt {
			continue
		}
		parts := strings.Split(strings.TrimSpace(rest), "/")
		if len(parts) < 2 || parts[0] == "" {
			continue
		}
		clock, err := strconv.ParseUint(strings.TrimSpace(parts[1]), 10, 31)
		if err != nil || clock == 0 {
			continue
		}
		f := format{pt: pt, name: parts[0], clock: int(clock)}
		if len(parts) > 2 {
			if n, err := strconv.ParseUint(strings.TrimSpace(parts[2]), 10, 8); err == nil {
				f.channels = int(n)
			}
		}
		return f, true
	}
	return format{}, false
}

func (m *media) fmtp(pt string) string {
	for _, a := range m.attrs {
		if number, params, ok := strings.Cut(a.value, " "); a.name == "fmtp" && ok && number == pt {
			return strings.TrimSpace(params)
		}
	}
	return ""
}

// is says whether a format is a codec of ours. Opus is opus/48000/2 always (RFC
// 7587 section 7); peers that leave the channels out mean the same.
func (f format) is(c Codec) bool {
	if !strings.EqualFold(f.name, c.Name) || f.clock != c.ClockRate {
		return false
	}
	return max(f.channels, 1) == max(c.Channels, 1) || strings.EqualFold(f.name, "opus")
}

// events finds the telephone-event whose clock is that of the audio: they share
// one timestamp line (RFC 4733 section 2.1). Phones are about (baresip 1) that offer
// Opus with events at 8 kHz alone and then send those; better than no keys at all.
func events(formats []format, clock int) (found format, ok bool) {
	for _, f := range formats {
		switch {
		case !strings.EqualFold(f.name, eventName):
		case f.clock == clock:
			return f, true
		case !ok:
			found, ok = f, true
		}
	}
	return found, ok
}

// otherEvents is a telephone-event beside the one that was chosen; 0: there is none.
func otherEvents(formats []format, chosen uint8) uint8 {
	for _, f := range formats {
		if strings.EqualFold(f.name, eventName) && f.pt != chosen {
			return f.pt
		}
	}
	return 0
}

// with is c as the peer numbers and parametrises it.
func (c Codec) with(f format) Codec {
	c.PayloadType, c.Params = f.pt, f.params
	return c
}
