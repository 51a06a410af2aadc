package call

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"parley/agent"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func TestJournalHoldsEveryEventAndTheRecordLast(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	j, err := openJournal(dir, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	for _, id := range []string{"aa", "bb"} {
		j.write(id, agent.Event{Type: agent.EventTranscript, At: at, Text: "hello " + id, Final: true})
	}
	j.end(Record{CallID: "aa", Cause: CauseCallerHungUp})
	j.write("bb", agent.Event{Type: agent.EventAgentStopped, At: at, Heard: "good"})
	j.end(Record{CallID: "bb", Cause: CauseAgentHungUp})
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string][]string{"aa": {"transcript", "call_ended"}, "bb": {"transcript", "agent_stopped", "call_ended"}} {
		f, err := os.Open(filepath.Join(dir, id+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var v struct{ Type, Text, Cause string }
			if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			got = append(got, v.Type)
		}
		f.Close()
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

func TestJournalInAPlaceThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openJournal(filepath.Join(file, "events"), zap.NewNop()); err == nil || !contains(err.Error(), "events_dir") {
		t.Errorf("error %v does not name the setting", err)
	}
}
