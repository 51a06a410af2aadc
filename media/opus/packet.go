package opus

import (
	"strconv"
	"strings"
)

// Duration is how long a payload lasts in units of ClockRate, 0 for what is no
// packet: by its first byte, and the second when that says that it is there (RFC
// 6716 section 3.1).
func Duration(payload []byte) int {
	if len(payload) == 0 {
		return 0
	}
	frames := 1
	switch payload[0] & 3 {
	case 1, 2:
		frames = 2
	case 3:
		if len(payload) < 2 {
			return 0
		}
		frames = int(payload[1] & 63)
	}
	if n := frames * frameSamples(payload[0]); n <= ClockRate*120/1000 {
		return n
	}
	return 0
}

// frameSamples is the length of one frame in units of ClockRate, by the first byte
// of its packet (table 2 of RFC 6716).
func frameSamples(toc byte) int {
	const ms = ClockRate / 1000
	config := toc >> 3
	switch {
	case config >= 16: // CELT: 2.5, 5, 10, 20 ms
		return ms * 5 / 2 << (config & 3)
	case config >= 12: // hybrid: 10, 20 ms
		return ms * 10 << (config & 1)
	case config&3 == 3: // SILK: 10, 20, 40, 60 ms
		return ms * 60
	}
	return ms * 10 << (config & 3)
}

// bandwidth is a bound on what is encoded.
type bandwidth uint8

const (
	narrowband bandwidth = iota // 4 kHz
	mediumband                  // 6 kHz
	wideband                    // 8 kHz
)

// wishes are what a peer's fmtp asks of those who send to it (RFC 7587 section
// 6.1).
type wishes struct {
	fec, dtx, constant bool
	bitrate            int // 0: none given
	bandwidth          bandwidth
}

// parseWishes reads an fmtp: parameters that are not known, or that hold nonsense,
// are ignored.
func parseWishes(params string) wishes {
	w := wishes{bandwidth: wideband}
	for part := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < 0 {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "useinbandfec":
			w.fec = n == 1
		case "usedtx":
			w.dtx = n == 1
		case "cbr":
			w.constant = n == 1
		case "maxaveragebitrate":
			w.bitrate = n
		case "maxplaybackrate":
			switch {
			case n <= 8000:
				w.bandwidth = narrowband
			case n <= 12000:
				w.bandwidth = mediumband
			}
		}
	}
	return w
}
