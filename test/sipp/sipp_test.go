package sipp

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEveryFileIsPlayed(t *testing.T) {
	files, err := fs.Glob(Scenarios, "*.xml")
	if err != nil {
		t.Fatal(err)
	}
	list := slices.Concat(callers, callees())
	for _, f := range files {
		name := strings.TrimSuffix(f, ".xml")
		if !slices.ContainsFunc(list, func(s scenario) bool { return s.file == name }) {
			t.Errorf("%s is in no run", f)
		}
		text, _ := Scenarios.ReadFile(f)
		if strings.Contains(string(text), "ACK [") && strings.Contains(string(text), "[last_CSeq:]\nContent-Length: 0\n\n  ]]></send>\n  <recv") {
			t.Errorf("%s copies the CSeq of another message into a request", f)
		}
		if !strings.Contains(string(text), `<scenario name="`+name+`">`) {
			t.Errorf("%s does not bear its name", f)
		}
		if about(name) == "" {
			t.Errorf("%s does not say what it shows", f)
		}
	}
}

func TestParseMessages(t *testing.T) {
	const log = "----------------------------------------------- 2026-01-01 00:00:00.000000\nUDP message sent (12 bytes):\n\nINVITE sip:a\r\nTo: x\r\n" +
		"\n----------------------------------------------- 2026-01-01 00:00:00.000001\nUDP message received [9] bytes :\n\nSIP/2.0 200 OK\r\n"
	got := parseMessages(log)
	if len(got) != 2 || !got[0].Sent || got[0].Header("to") != "x" || got[1].First() != "SIP/2.0 200 OK" || got[1].At.Sub(got[0].At) != time.Microsecond {
		t.Errorf("%+v", got)
	}
	if n := (Run{Messages: got}).Count(false, "SIP/2.0 2"); n != 1 {
		t.Errorf("%d responses", n)
	}
}

func TestCapture(t *testing.T) {
	const head, frame = 24, 16 + 14 + 20 + 8 + 12 + 160
	for name, want := range map[string]int{"lossy.pcap": captured - captured/lostOf, "reordered.pcap": captured + captured/10} {
		if n := len(sounds[name]()); n != head+want*frame {
			t.Errorf("%s has %d bytes, want %d packets", name, n, want)
		}
	}
}
