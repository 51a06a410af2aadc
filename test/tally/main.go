// Command tally reads the output of go test -json and shows what matters of it:
// a line per package, all of a test that failed, figures with their bars (lines
// that begin with BAR), and which tests were skipped and why. It fails when a test did, or when a tree of packages is covered less than
// a floor.
//
//	go test -json -coverprofile=cover.out ./... | tally -cover cover.out -floor call=80
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

func main() {
	cover := flag.String("cover", "", "coverage profile to hold against the floors")
	floors := flag.String("floor", "", "least coverage of trees in percent, as call=80,rtp=80")
	skips := flag.String("skips", "", "file to append skipped tests to")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, *cover, *floors, *skips)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run does it all; ok is whether nothing failed.
func run(in io.Reader, out io.Writer, cover, floors, skips string) (ok bool, err error) {
	t := tally{out: out, output: map[string][]string{}}
	if err := t.read(in); err != nil {
		return false, err
	}
	for _, line := range t.said {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", t.passed, t.failed, len(t.skipped))
	if skips != "" && len(t.skipped) > 0 {
		f, err := os.OpenFile(skips, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return false, err
		}
		if _, err := fmt.Fprintln(f, strings.Join(t.skipped, "\n")); err != nil {
			return false, err
		}
		if err := f.Close(); err != nil {
			return false, err
		}
	}
	ok = t.failed == 0 && !t.broken
	if cover != "" && ok {
		profile, err := os.ReadFile(cover)
		if err != nil {
			return false, err
		}
		held, err := hold(out, string(profile), floors)
		if err != nil {
			return false, err
		}
		ok = held
	}
	return ok, nil
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// tally counts events.
type tally struct {
	out            io.Writer
	output         map[string][]string // of tests that run, by package and name
	passed, failed int
	broken         bool // a package did not build or died
	skipped        []string
	said           []string // by the tests that failed, to be read at the end
}

func (t *tally) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(t.out, lines.Text()) // what go says by itself
			continue
		}
		t.take(e)
	}
	return lines.Err()
}

func (t *tally) take(e event) {
	id := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		t.output[id] = append(t.output[id], e.Output)
		if i := strings.Index(e.Output, "BAR "); i == 0 || i > 0 && strings.HasSuffix(e.Output[:i], ": ") {
			fmt.Fprint(t.out, e.Output[i:])
		}
	case "build-output":
		fmt.Fprint(t.out, e.Output)
	case "build-fail":
		t.broken = true
	case "pass", "skip", "fail":
		t.end(e, t.output[id])
		delete(t.output, id)
	}
}

// end notes the end of a test, or of a package when e has no Test.
func (t *tally) end(e event, output []string) {
	if e.Test == "" {
		if e.Action == "fail" {
			t.broken = true
			fmt.Fprint(t.out, strings.Join(output, ""))
		}
		for _, line := range output {
			if e.Action != "fail" && (strings.HasPrefix(line, "ok") || strings.Contains(line, "[no test files]")) {
				fmt.Fprint(t.out, line)
			}
		}
		return
	}
	switch e.Action {
	case "pass":
		t.passed++
	case "skip":
		t.skipped = append(t.skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(output)))
	case "fail":
		t.failed++
		t.said = append(t.said, gist(e, output)...)
		fmt.Fprint(t.out, strings.Join(output, ""))
	}
}

// said matches a line that a test reported by itself, with the place.
var said = regexp.MustCompile(`^ +\w+\.go:\d+: `)

// gist is what a test that failed reported: the first lines that name a place. All of
// its output can be long, a server's whole log, and who sees just the end of a run
// sees these.
func gist(e event, output []string) []string {
	const most, width = 4, 500
	lines := []string{fmt.Sprintf("FAILED %s %s", e.Package, e.Test)}
	for _, line := range output {
		if len(lines) <= most && said.MatchString(line) {
			line = strings.TrimRight(line, "\n")
			lines = append(lines, line[:min(width, len(line))])
		}
	}
	return lines
}

// reason is why a test was skipped: what it said last.
func reason(output []string) string {
	for i := len(output) - 1; i >= 0; i-- {
		line := strings.TrimSpace(output[i])
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			return line
		}
	}
	return "no reason given"
}

// hold prints the coverage of each tree with a floor and says whether all hold.
func hold(out io.Writer, profile, floors string) (bool, error) {
	covered, total, err := statements(profile)
	if err != nil {
		return false, err
	}
	ok := true
	for one := range strings.SplitSeq(floors, ",") {
		tree, floor, _ := strings.Cut(one, "=")
		least, err := strconv.ParseFloat(floor, 64)
		if err != nil {
			return false, fmt.Errorf("floor %q: must be TREE=PERCENT", one)
		}
		have, all := 0, 0
		for folder := range total {
			if folder == tree || strings.HasPrefix(folder, tree+"/") {
				have, all = have+covered[folder], all+total[folder]
			}
		}
		percent := 100 * float64(have) / float64(max(1, all))
		verdict := "holds"
		if percent < least {
			verdict, ok = "MISSED", false
		}
		fmt.Fprintf(out, "coverage %-8s %5.1f%% of %d statements, floor %g%%: %s\n", tree, percent, all, least, verdict)
	}
	return ok, nil
}

// statements counts the statements of a profile, and the covered ones, by folder
// below the module. Suites that exist for other tests do not count.
func statements(profile string) (covered, total map[string]int, err error) {
	type block struct {
		n   int
		hit bool
	}
	blocks := map[string]block{}
	for i, line := range strings.Split(strings.TrimSpace(profile), "\n") {
		f := strings.Fields(line)
		if i == 0 || len(f) != 3 {
			continue // the mode
		}
		n, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, nil, fmt.Errorf("coverage profile, line %d: %w", i+1, err)
		}
		b := blocks[f[0]]
		blocks[f[0]] = block{n, b.hit || f[2] != "0"}
	}
	covered, total = map[string]int{}, map[string]int{}
	places := make([]string, 0, len(blocks))
	for place := range blocks {
		places = append(places, place)
	}
	sort.Strings(places)
	for _, place := range places {
		file, _, _ := strings.Cut(place, ":")
		_, file, _ = strings.Cut(file, "/") // the module's name
		folder := file[:max(0, strings.LastIndexByte(file, '/'))]
		if strings.HasSuffix(folder, "test") {
			continue
		}
		total[folder] += blocks[place].n
		if blocks[place].hit {
			covered[folder] += blocks[place].n
		}
	}
	return covered, total, nil
}
