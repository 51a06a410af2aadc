package rtp

import (
	"encoding/hex"
	"strings"
	"testing"
)

// datagrams are shared by the table test and the fuzzer's corpus. Hex, blanks
// ignored; payload is what is left of an RTP packet.
var datagrams = []struct {
	name, in string
	kind     kind
	payload  string
}{
	{"plain", "80 00 0001 000000a0 00000001 d5d5", kindRTP, "d5d5"},
	{"marker and a dynamic type", "80 e5 0001 000000a0 00000001 05", kindRTP, "05"},
	{"header only", "80 00 0001 000000a0 00000001", kindRTP, ""},
	{"four octets of padding", "a0 00 0001 000000a0 00000001 d5d5 00000004", kindRTP, "d5d5"},
	{"all padding", "a0 00 0001 000000a0 00000001 00000004", kindRTP, ""},
	{"a padding count of 0", "a0 00 0001 000000a0 00000001 d5d500", kindMalformed, ""},
	{"a padding count beyond the payload", "a0 00 0001 000000a0 00000001 d5d505", kindMalformed, ""},
	{"padding without payload", "a0 00 0001 000000a0 00000001", kindMalformed, ""},
	{"three CSRC", "83 00 0001 000000a0 00000001 00000002 00000003 00000004 d5", kindRTP, "d5"},
	{"CSRC beyond the packet", "8f 00 0001 000000a0 00000001 00000002", kindMalformed, ""},
	{"an extension without data", "90 00 0001 000000a0 00000001 bede0000 d5", kindRTP, "d5"},
	{"an extension", "90 00 0001 000000a0 00000001 bede0001 10aa0000 d5", kindRTP, "d5"},
	{"a one-byte extension id 15", "90 00 0001 000000a0 00000001 bede0001 f0aa0000 d5", kindRTP, "d5"},
	{"an extension of 65535 words", "90 00 0001 000000a0 00000001 bedeffff d5", kindMalformed, ""},
	{"an extension cut short", "90 00 0001 000000a0 00000001 bede", kindMalformed, ""},
	{"CSRC, extension and padding", "b1 00 0001 000000a0 00000001 00000002 bede0001 10aa0000 d5d5d5 0002", kindRTP, "d5d5d5"},
	{"a keep-alive of version 0", "10 64 0001 000000a0 00000001 bede0001 02da5843", kindMalformed, ""},
	{"version 1", "40 00 0001 000000a0 00000001 d5", kindMalformed, ""},
	{"version 3", "c0 00 0001 000000a0 00000001 d5", kindMalformed, ""},
	{"eleven octets", "80 00 0001 000000a0 000000", kindMalformed, ""},
	{"one octet", "80", kindMalformed, ""},
	{"nothing", "", kindMalformed, ""},
	{"a sender report", "80 c8 0006 00000001", kindRTCP, ""},
	{"a receiver report", "81 c9 0007 00000001 00000002", kindRTCP, ""},
	{"type 72 without marker", "80 48 0001 000000a0 00000001 d5", kindRTCP, ""},
	{"a binding request", "0001 0000 2112a442 000102030405060708090a0b", kindSTUN, ""},
	{"like STUN, with another cookie", "0001 0000 2112a443 000102030405060708090a0b", kindMalformed, ""},
	{"STUN cut short", "0001 0000 2112a442 0001", kindMalformed, ""},
}

func bytesOf(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseTellsWhatADatagramIs(t *testing.T) {
	for _, tt := range datagrams {
		t.Run(tt.name, func(t *testing.T) {
			var p Packet
			if k := parse(bytesOf(t, tt.in), &p); k != tt.kind {
				t.Fatalf("kind %d, want %d", k, tt.kind)
			}
			if got := hex.EncodeToString(p.Payload); got != tt.payload {
				t.Errorf("payload %q, want %q", got, tt.payload)
			}
		})
	}
}

func TestHeaderIsReadAsWritten(t *testing.T) {
	b := make([]byte, headerSize+1)
	writeHeader(b, 101, true, 65535, 1<<32-1, 0xDEADBEEF)
	var p Packet
	if parse(b, &p) != kindRTP || p.PayloadType != 101 || !p.Marker || p.Sequence != 65535 || p.Timestamp != 1<<32-1 || p.SSRC != 0xDEADBEEF || len(p.Payload) != 1 {
		t.Errorf("%+v", p)
	}
}

func TestPayloadTypesIsASet(t *testing.T) {
	set := Types(0, 63, 64, 127, 128, 255)
	for i := range 256 {
		if want := i == 0 || i == 63 || i == 64 || i == 127; set.Has(uint8(i)) != want {
			t.Errorf("%d: %v", i, !want)
		}
	}
}
