package sdp

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// defaultPacketTime is used when Local leaves it open.
const defaultPacketTime = 20 * time.Millisecond

// Offer writes an offer of all our codecs, sendrecv, or sendonly with Local.Hold: the
// offer for an INVITE or re-INVITE without one says what we can and wish, whatever
// the peer wanted before (RFC 6337 section 5.3). telephone-event is there once for every clock among the
// codecs.
func Offer(l Local) []byte {
	var b bytes.Buffer
	head(&b, l, "")
	mid, proto := "", "RTP/AVP"
	switch l.Offer {
	case BySDES:
		proto = "RTP/SAVP"
	case ByDTLS:
		proto, l.RTCPMux = "UDP/TLS/RTP/SAVPF", true
		if mid = l.Mid; mid == "" {
			mid = "0"
		}
		sessionAttributes(&b, mid, true)
	}
	formats := make([]format, 0, len(l.Codecs)+2)
	for _, c := range l.Codecs {
		formats = append(formats, format{pt: c.PayloadType, name: c.Name, clock: c.ClockRate, channels: c.Channels, params: c.Params})
	}
	if l.Events {
		formats = append(formats, offeredEvents(l)...)
	}
	stream(&b, l, proto, formats, direction{true, !l.Hold}, l.RTCPMux, 0)
	switch l.Offer {
	case BySDES:
		for i, c := range l.Crypto {
			writeCrypto(&b, i+1, c.Suite, c.Key, "")
		}
	case ByDTLS:
		dtlsAttributes(&b, l, "actpass", mid, true)
	}
	return b.Bytes()
}

// offeredEvents numbers a telephone-event for each clock, from 101 up, around the
// codecs' numbers.
func offeredEvents(l Local) []format {
	used := make(map[uint8]bool)
	for _, c := range l.Codecs {
		used[c.PayloadType] = true
	}
	var all []format
	clocks := make(map[int]bool)
	pt := uint8(101)
	for _, c := range l.Codecs {
		if clocks[c.ClockRate] {
			continue
		}
		clocks[c.ClockRate] = true
		for used[pt] && pt < 127 {
			pt++
		}
		used[pt] = true
		all = append(all, format{pt: pt, name: eventName, clock: c.ClockRate, params: "0-15"})
	}
	return all
}

// usual is the length in bytes that a plain answer does not exceed.
const usual = 384

func writeAnswer(offer *Session, m Media, sec security, l Local) []byte {
	var b bytes.Buffer
	b.Grow(usual)
	head(&b, l, offer.time)
	mid := ""
	if m.Protection == ByDTLS {
		mid = m.Mid
		bundle := mid
		if !offer.bundled(mid) {
			bundle = ""
		}
		sessionAttributes(&b, bundle, m.ICE != nil)
	}
	for i := range offer.media {
		line := &offer.media[i]
		if i != m.Index {
			formats := line.formats
			if len(formats) == 0 {
				formats = []string{"0"}
			}
			fmt.Fprintf(&b, "m=%s 0 %s %s\r\n", line.kind, line.proto, strings.Join(formats, " "))
			if other := line.mid(); other != "" && mid != "" {
				fmt.Fprintf(&b, "a=mid:%s\r\n", other)
			}
			continue
		}
		params := ""
		for _, c := range l.Codecs { // fmtp is ours: it is declared by each side (RFC 7587 section 7)
			if strings.EqualFold(c.Name, m.Codec.Name) && c.ClockRate == m.Codec.ClockRate {
				params = c.Params
			}
		}
		formats := []format{{pt: m.RecvPT, name: m.Codec.Name, clock: m.Codec.ClockRate, channels: m.Codec.Channels, params: params}}
		if m.Events {
			formats = append(formats, format{pt: m.RecvEventPT, name: eventName, clock: m.EventClock, params: "0-15"})
		}
		if m.RTCPMux {
			l.RTCPPort = 0
		}
		stream(&b, l, line.proto, formats, direction{m.Send, m.Recv}, m.RTCPMux, m.MaxPacketTime)
		if m.VoIPMetrics {
			b.WriteString("a=rtcp-xr:voip-metrics\r\n")
		}
		switch m.Protection {
		case BySDES:
			writeCrypto(&b, sec.theirs.tag, sec.theirs.spelling, m.SDES.Send.Key, sec.theirs.mki)
		case ByDTLS:
			setup := "passive"
			if m.DTLS.Client {
				setup = "active"
			}
			dtlsAttributes(&b, l, setup, mid, m.ICE != nil)
		}
	}
	return b.Bytes()
}

// head writes the session part. The time of an answer is that of the offer (RFC
// 3264 section 6), which is 0 0 for every call.
func head(b *bytes.Buffer, l Local, times string) {
	user := l.User
	if user == "" {
		user = "parley"
	}
	if !isTimes(times) {
		times = "0 0"
	}
	family, addr := familyName(l.Addr), l.Addr.Unmap().WithZone("")
	fmt.Fprintf(b, "v=0\r\no=%s %d %d IN %s %s\r\ns=-\r\nc=IN %s %s\r\nt=%s\r\n",
		user, l.SessionID, l.Version, family, addr, family, addr, times)
}

func isTimes(s string) bool {
	start, stop, ok := strings.Cut(s, " ")
	return ok && isNumber(start) && isNumber(stop)
}

func isNumber(s string) bool {
	return s != "" && len(s) <= 20 && strings.Trim(s, "0123456789") == ""
}

func stream(b *bytes.Buffer, l Local, proto string, formats []format, d direction, mux bool, longest time.Duration) {
	fmt.Fprintf(b, "m=audio %d %s", l.Port, proto)
	for _, f := range formats {
		fmt.Fprintf(b, " %d", f.pt)
	}
	b.WriteString("\r\n")
	for _, f := range formats {
		fmt.Fprintf(b, "a=rtpmap:%d %s/%d", f.pt, f.name, f.clock)
		if f.channels > 1 {
			fmt.Fprintf(b, "/%d", f.channels)
		}
		b.WriteString("\r\n")
		if f.params != "" {
			fmt.Fprintf(b, "a=fmtp:%d %s\r\n", f.pt, f.params)
		}
	}
	packet := l.PacketTime
	if packet == 0 {
		packet = defaultPacketTime
	}
	if longest > 0 && packet > longest {
		packet = longest
	}
	fmt.Fprintf(b, "a=ptime:%d\r\na=%s\r\n", packet.Milliseconds(), d)
	if l.RTCPPort != 0 && l.RTCPPort != l.Port+1 { // RFC 3605; with rtcp-mux it is for a peer that does not share
		fmt.Fprintf(b, "a=rtcp:%d\r\n", l.RTCPPort)
	}
	if mux {
		b.WriteString("a=rtcp-mux\r\n")
	}
}

// Changed says whether two descriptions differ in anything but the o= line: then
// the second needs a Version above that of the first (RFC 3264 section 8).
func Changed(a, b []byte) bool {
	return !bytes.Equal(withoutOrigin(a), withoutOrigin(b))
}

func withoutOrigin(b []byte) []byte {
	i := bytes.Index(b, []byte("\no="))
	if i < 0 {
		return b
	}
	rest := b[i+1:]
	j := bytes.IndexByte(rest, '\n')
	if j < 0 {
		return b[:i]
	}
	return append(append([]byte{}, b[:i+1]...), rest[j+1:]...)
}
