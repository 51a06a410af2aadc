package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const stream = `{"Action":"start","Package":"parley/rtp"}
{"Action":"output","Package":"parley/rtp","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"parley/rtp","Test":"TestA","Output":"    a_test.go:1: chatter\n"}
{"Action":"output","Package":"parley/rtp","Test":"TestA","Output":"    a_test.go:5: BAR P1 0.2 <= 0.3 met\n"}
{"Action":"pass","Package":"parley/rtp","Test":"TestA"}
{"Action":"output","Package":"parley/rtp","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"parley/rtp","Test":"TestB","Output":"    a_test.go:9: baresip is not installed\n"}
{"Action":"output","Package":"parley/rtp","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"parley/rtp","Test":"TestB"}
{"Action":"output","Package":"parley/rtp","Output":"ok  \tparley/rtp\t1.2s\tcoverage: 90.0% of statements\n"}
{"Action":"pass","Package":"parley/rtp"}
`

const failing = `{"Action":"output","Package":"parley/sip","Test":"TestC","Output":"    c_test.go:3: wrong\n"}
{"Action":"output","Package":"parley/sip","Test":"TestC","Output":"--- FAIL: TestC (0.00s)\n"}
{"Action":"fail","Package":"parley/sip","Test":"TestC"}
{"Action":"output","Package":"parley/sip","Output":"FAIL\tparley/sip\t0.1s\n"}
{"Action":"fail","Package":"parley/sip"}
`

const unbuilt = `{"ImportPath":"parley/api","Action":"build-output","Output":"api/api.go:1:1: syntax error\n"}
{"ImportPath":"parley/api","Action":"build-fail"}
`

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, in string
		ok       bool
		want     []string
		not      string
	}{
		{"passes quietly", stream, true, []string{"ok  \tparley/rtp", "BAR P1 0.2 <= 0.3 met\n", "1 passed, 0 failed, 1 skipped"}, "chatter"},
		{"shows what failed", stream + failing, false, []string{"c_test.go:3: wrong", "FAIL\tparley/sip", "FAILED parley/sip TestC\n    c_test.go:3: wrong\n1 passed, 1 failed"}, "chatter"},
		{"what does not build fails", stream + unbuilt, false, []string{"syntax error"}, "chatter"},
		{"passes on what is no JSON", "go: downloading x\n" + stream, true, []string{"go: downloading x"}, "chatter"},
	} {
		var out strings.Builder
		ok, err := run(strings.NewReader(c.in), &out, "", "", "")
		if err != nil || ok != c.ok {
			t.Errorf("%s: %v %v", c.name, ok, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in:\n%s", c.name, want, out.String())
			}
		}
		if strings.Contains(out.String(), c.not) {
			t.Errorf("%s: %q in:\n%s", c.name, c.not, out.String())
		}
	}
}

func TestSkipsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skips")
	if _, err := run(strings.NewReader(stream), &strings.Builder{}, "", "", file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "parley/rtp TestB: a_test.go:9: baresip is not installed\n"; string(text) != want {
		t.Errorf("%q, want %q", text, want)
	}
}

func TestFloors(t *testing.T) {
	const profile = `mode: atomic
parley/rtp/a.go:1.1,2.2 8 1
parley/rtp/a.go:3.1,4.2 2 0
parley/rtp/jitter/b.go:1.1,2.2 10 0
parley/rtp/jitter/b.go:1.1,2.2 10 3
parley/rtp/rtptest/c.go:1.1,2.2 100 0
parley/sip/d.go:1.1,2.2 4 0
`
	for floors, want := range map[string]bool{"rtp=90": true, "rtp=91": false, "rtp=90,sip=1": false, "sip=0": true} {
		var out strings.Builder
		ok, err := hold(&out, profile, floors)
		if err != nil || ok != want {
			t.Errorf("%s: %v %v\n%s", floors, ok, err, out.String())
		}
	}
}
