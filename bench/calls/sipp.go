package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// load is one run of SIPp.
type load struct {
	dir    string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	stats  string
	rtt    string
}

// ports writes the CSV with the farm's ports, one a call.
func ports(dir string, n, base int) (string, error) {
	var b strings.Builder
	b.WriteString("SEQUENTIAL\n")
	for i := range n {
		fmt.Fprintf(&b, "%d;\n", base+2*i)
	}
	name := filepath.Join(dir, "ports.csv")
	return name, os.WriteFile(name, []byte(b.String()), 0o600)
}

// loadOf says what calls to place.
type loadOf struct {
	scenario string
	csv      string // of the farm's ports; "" none
	addr     string
	calls    int
	rate     int           // a second
	hold     time.Duration // how long each call stands
	limit    int           // at the same time
	port     int           // of SIPp; 0: 5099
}

// startLoad starts SIPp, which ends by itself.
func startLoad(dir string, o loadOf) (*load, error) {
	ctx, cancel := context.WithTimeout(context.Background(), o.hold+time.Duration(o.calls/o.rate)*time.Second+90*time.Second)
	tag := strconv.FormatInt(time.Now().UnixNano(), 36)
	l := &load{dir: dir, cancel: cancel, stats: filepath.Join(dir, "stat-"+tag+".csv")}
	scenario, err := filepath.Abs(o.scenario)
	if err != nil {
		cancel()
		return nil, err
	}
	if o.port == 0 {
		o.port = 5099
	}
	args := []string{"-sf", scenario, o.addr, "-s", "agent", "-i", sippIP, "-p", strconv.Itoa(o.port),
		"-r", strconv.Itoa(o.rate), "-m", strconv.Itoa(o.calls), "-l", strconv.Itoa(o.limit),
		"-d", strconv.Itoa(int(o.hold / time.Millisecond)), "-nostdin",
		"-trace_stat", "-stf", l.stats, "-fd", "1", "-trace_rtt", "-rtt_freq", "1"}
	if o.csv != "" {
		args = append(args, "-inf", o.csv)
	}
	l.cmd = exec.CommandContext(ctx, "sipp", args...)
	l.cmd.Dir = dir
	log, err := os.Create(filepath.Join(dir, "sipp-"+tag+".log"))
	if err != nil {
		cancel()
		return nil, err
	}
	defer log.Close()
	l.cmd.Stdout, l.cmd.Stderr = log, log
	if err := l.cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("sipp: %w (apt-get install sip-tester)", err)
	}
	l.rtt = filepath.Join(dir, fmt.Sprintf("%s_%d_rtt.csv", strings.TrimSuffix(filepath.Base(scenario), ".xml"), l.cmd.Process.Pid))
	return l, nil
}

// wait waits for all calls to end by themselves.
func (l *load) wait() { _ = l.cmd.Wait(); l.cancel() }

// stop ends the run early.
func (l *load) stop() { l.cancel(); _ = l.cmd.Wait() }

// outcome is what SIPp counted.
type outcome struct {
	ok, failed, retransmitted int
	setupP95                  float64 // ms, INVITE to 200
}

func (l *load) outcome() (o outcome, err error) {
	rows, err := readCSV(l.stats)
	if err != nil {
		return o, fmt.Errorf("sipp statistics: %w", err)
	}
	if len(rows) < 2 {
		return o, errors.New("sipp wrote no statistics")
	}
	last := rows[len(rows)-1]
	get := func(name string) int {
		if i := slices.Index(rows[0], name); i >= 0 && i < len(last) {
			n, _ := strconv.Atoi(last[i])
			return n
		}
		return -1
	}
	o.ok, o.failed, o.retransmitted = get("SuccessfulCall(C)"), get("FailedCall(C)"), get("Retransmissions(C)")
	rtts, err := readCSV(l.rtt)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a scenario without a measured time writes none
		return o, err
	}
	var ms []float64
	for _, r := range rtts[min(1, len(rtts)):] {
		if len(r) > 1 {
			if v, err := strconv.ParseFloat(r[1], 64); err == nil {
				ms = append(ms, v)
			}
		}
	}
	slices.Sort(ms)
	if len(ms) > 0 {
		o.setupP95 = ms[min(len(ms)-1, len(ms)*95/100)]
	}
	return o, nil
}

func readCSV(name string) ([][]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.FieldsPerRecord, r.LazyQuotes = ';', -1, true
	return r.ReadAll()
}
