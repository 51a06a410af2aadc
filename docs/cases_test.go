package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	caseRow  = regexp.MustCompile(`(?m)^\| (BR-[0-9]{3}) \| ([^|]+) \| ([^|]+) \|$`)
	caseTest = regexp.MustCompile("`([a-z0-9/-]+)` (Test[A-Za-z0-9_]+)")
)

// TestCasesAreShown: every case names tests that are there.
func TestCasesAreShown(t *testing.T) {
	text, err := os.ReadFile("cases.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{} // of the tests of a folder
	tests := func(dir string) string {
		if s, ok := sources[dir]; ok {
			return s
		}
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
		sources[dir] = all.String()
		return all.String()
	}
	seen := map[string]bool{}
	for _, row := range caseRow.FindAllStringSubmatch(string(text), -1) {
		if seen[row[1]] {
			t.Errorf("%s is there twice", row[1])
		}
		seen[row[1]] = true
		named := caseTest.FindAllStringSubmatch(row[3], -1)
		if len(named) == 0 || len(named) != strings.Count(row[3], ",")+1 {
			t.Errorf("%s: %q names no tests", row[1], row[3])
		}
		for _, n := range named {
			if !strings.Contains(tests(n[1]), "\nfunc "+n[2]+"(t *testing.T)") {
				t.Errorf("%s: there is no test %s in %s", row[1], n[2], n[1])
			}
		}
	}
	if rows := strings.Count(string(text), "\n| BR-"); len(seen) < 90 || len(seen) != rows {
		t.Errorf("%d of %d rows are read", len(seen), rows)
	}
}
