package phone

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// eventType is the payload type that the phone offers for telephone-event.
const eventType = 101

// offer is the phone's session description. direction is an SDP attribute such as
// "sendrecv"; version grows with every change (RFC 3264 section 8).
func offer(local netip.AddrPort, codecs []codec, session uint64, version int, direction string) []byte {
	family := "IP4"
	if local.Addr().Is6() {
		family = "IP6"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "v=0\r\no=phone %d %d IN %s %s\r\ns=-\r\nc=IN %s %s\r\nt=0 0\r\n",
		session, version, family, local.Addr(), family, local.Addr())
	fmt.Fprintf(&b, "m=audio %d RTP/AVP", local.Port())
	for _, c := range codecs {
		fmt.Fprintf(&b, " %d", c.payloadType)
	}
	fmt.Fprintf(&b, " %d\r\n", eventType)
	for _, c := range codecs {
		fmt.Fprintf(&b, "a=rtpmap:%d %s\r\n", c.payloadType, c.rtpmap())
	}
	fmt.Fprintf(&b, "a=rtpmap:%d telephone-event/%d\r\na=fmtp:%d 0-15\r\na=ptime:20\r\na=%s\r\n",
		eventType, sampleRate, eventType, direction)
	return []byte(b.String())
}

// answer is what a server's session description says about its sound.
type answer struct {
	peer      netip.AddrPort
	codec     codec
	event     uint8 // payload type of telephone-event, 0 when there is none
	direction string

	proto              string
	crypto             []string
	fingerprint, setup string
	user, pass         string // of ICE
	mux                bool
}

// parseAnswer reads the first audio stream. It wants exactly what this phone can
// use: an address, a port, one of its codecs, or of coders, first in the list.
func parseAnswer(body []byte, coders ...codec) (answer, error) {
	a := answer{direction: "sendrecv"}
	var addr netip.Addr
	var port uint64
	var types []string
	inAudio, seen := false, false
	for line := range strings.Lines(string(body)) {
		line = strings.TrimRight(line, "\r\n")
		kind, value, ok := strings.Cut(line, "=")
		if !ok {
			return a, fmt.Errorf("phone: SDP line %q", line)
		}
		f := strings.Fields(value)
		switch {
		case kind == "m":
			inAudio = !seen && len(f) >= 4 && f[0] == "audio"
			if inAudio {
				seen, types, a.proto = true, f[3:], f[2]
				var err error
				if port, err = strconv.ParseUint(f[1], 10, 16); err != nil {
					return a, fmt.Errorf("phone: SDP line %q", line)
				}
			}
		case kind == "c" && len(f) == 3 && (inAudio || !seen):
			var err error
			if addr, err = netip.ParseAddr(f[2]); err != nil {
				return a, fmt.Errorf("phone: SDP line %q", line)
			}
		case kind == "a" && (inAudio || !seen):
			a.attribute(value)
		}
	}
	if !seen || len(types) == 0 || !addr.IsValid() {
		return a, fmt.Errorf("phone: SDP without audio or address")
	}
	a.peer = netip.AddrPortFrom(addr, uint16(port))
	return a, a.choose(types[0], coders...)
}

func (a *answer) attribute(value string) {
	switch value {
	case "sendrecv", "sendonly", "recvonly", "inactive":
		a.direction = value
	case "rtcp-mux":
		a.mux = true
	}
	name, rest, _ := strings.Cut(value, ":")
	switch name {
	case "crypto":
		a.crypto = append(a.crypto, rest)
	case "fingerprint":
		a.fingerprint = rest
	case "setup":
		a.setup = rest
	case "ice-ufrag":
		a.user = rest
	case "ice-pwd":
		a.pass = rest
	}
	if rest, ok := strings.CutPrefix(value, "rtpmap:"); ok {
		number, encoding, _ := strings.Cut(rest, " ")
		if strings.EqualFold(encoding, "telephone-event/8000") {
			if n, err := strconv.ParseUint(number, 10, 7); err == nil {
				a.event = uint8(n)
			}
		}
	}
}

func (a *answer) choose(payloadType string, coders ...codec) error {
	for _, c := range coders {
		if strconv.Itoa(int(c.payloadType)) == payloadType {
			a.codec = c
			return nil
		}
	}
	var err error
	switch payloadType {
	case "0":
		a.codec, err = codecNamed("PCMU")
	case "8":
		a.codec, err = codecNamed("PCMA")
	default:
		err = fmt.Errorf("phone: the answer's first payload type is %s, the phone speaks 0 and 8", payloadType)
	}
	return err
}
