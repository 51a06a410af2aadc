package tool_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent/tool"
)

func TestEnvironmentIsFiltered(t *testing.T) {
	t.Setenv("PARLEY_API_KEY", "secret one")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret two")
	t.Setenv("WANTED", "yes")
	for _, c := range []struct {
		p    tool.Process
		want []string // beside PATH, LANG and PYTHONUNBUFFERED; nil: refused
	}{
		{tool.Process{Command: []string{"sh"}}, []string{}},
		{tool.Process{Command: []string{"sh"}, Pass: []string{"WANTED", "NOT_SET"}, Env: map[string]string{"A": "b"}}, []string{"A=b", "WANTED=yes"}},
		{tool.Process{Command: []string{"sh"}, Pass: []string{"PARLEY_API_KEY"}}, nil},
		{tool.Process{Command: []string{"sh"}, Env: map[string]string{"A=B": "c"}}, nil},
		{tool.Process{Command: []string{"sh"}, Env: map[string]string{"A": "b\x00"}}, nil},
		{tool.Process{Command: []string{"no such program"}}, nil},
		{tool.Process{Command: []string{"./no-such-program"}, Dir: t.TempDir()}, nil},
		{tool.Process{}, nil},
	} {
		cmd, err := c.p.Prepare()
		if (err == nil) != (c.want != nil) {
			t.Errorf("%+v: %v", c.p, err)
		}
		if err != nil {
			continue
		}
		var got []string
		for _, v := range cmd.Env {
			if name, _, _ := strings.Cut(v, "="); name != "PATH" && name != "LANG" && name != "PYTHONUNBUFFERED" {
				got = append(got, v)
			}
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
}

// alive says whether a process lives (a zombie does not).
func alive(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// TestKillTakesTheFamily: what a process started ends with it, if its first is gone or not.
func TestKillTakesTheFamily(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh")
	}
	for _, last := range []string{"exit 3", "sleep 1000"} {
		var mu sync.Mutex
		var said []string
		c, err := tool.Process{Command: []string{"sh", "-c", `trap "" TERM; printf 'bad\033[31m news\r\n' >&2; sleep 1000 & echo $!; ` + last}}.Start(func(line string, _ int) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, line)
		})
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(c.Out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		grandchild, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || !alive(grandchild) {
			t.Fatal(line, err)
		}
		if last == "exit 3" {
			<-c.Exited
		}
		if err := c.Kill(); err != nil {
			t.Error(err)
		}
		<-c.Exited
		c.Wait()
		for end := time.Now().Add(5 * time.Second); alive(grandchild); {
			if time.Now().After(end) {
				t.Errorf("%s: the grandchild lives", last)
				break
			}
			runtime.Gosched()
		}
		mu.Lock()
		if got := strings.Join(said, ";"); got != "bad[31m news" {
			t.Errorf("%q", got)
		}
		mu.Unlock()
		if last == "exit 3" && !strings.Contains(c.Said(), "exit status 3") {
			t.Errorf("said %q", c.Said())
		}
	}
}

// TestStandardErrorIsBounded: a process that complains without end fills no log.
func TestStandardErrorIsBounded(t *testing.T) {
	var mu sync.Mutex
	lines, longest := 0, 0
	c, err := tool.Process{Command: []string{"sh", "-c", `i=0; while [ $i -lt 5000 ]; do echo complaint $i; i=$((i+1)); done >&2; head -c 100000 /dev/zero | tr '\0' x >&2`}}.Start(func(line string, _ int) {
		mu.Lock()
		defer mu.Unlock()
		lines++
		longest = max(longest, len(line))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c.Out); err != nil {
		t.Fatal(err)
	}
	<-c.Exited
	c.Kill()
	c.Wait()
	mu.Lock()
	defer mu.Unlock()
	if lines < 50 || lines > 600 || longest > 500 || len(c.Said()) > 1000 {
		t.Errorf("%d lines, the longest %d, said %d", lines, longest, len(c.Said()))
	}
}

func TestReadLine(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"a\nb\r\n\nc", "a|b||c|"}, {"", ""}, {"\n", "|"}, {strings.Repeat("x", 100) + "\n" + strings.Repeat("y", 101) + "\nz\n", strings.Repeat("x", 100) + "|LONG|z|"},
		{strings.Repeat("y", 5000), "LONG|"},
	} {
		r := bufio.NewReaderSize(strings.NewReader(c.in), 16)
		var got strings.Builder
		for {
			line, long, err := tool.ReadLine(r, 100)
			if err != nil {
				break
			}
			if long {
				line = []byte("LONG")
			}
			got.WriteString(string(line) + "|")
		}
		if got.String() != c.want {
			t.Errorf("%.20q: %q, want %q", c.in, got.String(), c.want)
		}
	}
}
