package sipp

import (
	"io/fs"
	"os"
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
		for _, block := range strings.Split(string(text), "<![CDATA[\n")[1:] {
			if message, _, _ := strings.Cut(block, "]]>"); !strings.HasPrefix(message, "SIP/2.0 ") && strings.Contains(message, "[last_CSeq:]") {
				t.Errorf("%s copies the CSeq of another message into a request", f)
			}
		}
		if !strings.Contains(string(text), `<scenario name="`+name+`">`) {
			t.Errorf("%s does not bear its name", f)
		}
		if about(name) == "" {
			t.Errorf("%s does not say what it shows", f)
		}
	}
}

// The page lists every scenario, with the words of its file.
func TestThePageListsEveryScenario(t *testing.T) {
	page, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for line := range strings.Lines(string(page)) {
		name, found := strings.CutPrefix(line, "| `ua")
		if !found {
			continue
		}
		listed++
		name, what, _ := strings.Cut(name, "` | ")
		if want := about("ua" + name); strings.TrimSuffix(strings.TrimSpace(what), " |") != want {
			t.Errorf("ua%s is not %q", name, want)
		}
	}
	files, _ := fs.Glob(Scenarios, "*.xml")
	if listed != len(files) {
		t.Errorf("%d scenarios are listed, there are %d", listed, len(files))
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
