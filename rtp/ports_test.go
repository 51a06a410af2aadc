package rtp

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPortsAreEvenAndAllOfTheRange(t *testing.T) {
	tests := []struct {
		min, max uint16
		first, n int
	}{
		{20000, 20019, 20000, 10},
		{20001, 20020, 20002, 9}, // an odd start; 20020 has no odd port above it
		{20000, 20001, 20000, 1},
		{65534, 65535, 65534, 1},
		{20001, 20002, 0, 0},
		{20000, 20000, 0, 0},
		{20010, 20000, 0, 0},
		{0, 100, 0, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.min, "-", tt.max), func(t *testing.T) {
			p := newPorts(tt.min, tt.max, time.Second)
			seen := map[uint16]bool{}
			for range tt.n {
				port, err := p.Take(0, func(uint16) error { return nil })
				if err != nil || port%2 != 0 || port < tt.min || port >= tt.max || seen[port] {
					t.Fatalf("port %d after %v: %v", port, seen, err)
				}
				seen[port] = true
			}
			if _, err := p.Take(0, func(uint16) error { return nil }); !errors.Is(err, ErrNoPort) {
				t.Errorf("one more: %v", err)
			}
			if cfg := (Config{PortMin: tt.min, PortMax: tt.max, Driver: "auto", Tick: time.Millisecond, LatchPackets: 1}); (cfg.Validate() == nil) != (tt.n > 0) {
				t.Errorf("validate: %v", cfg.Validate())
			}
		})
	}
}

func TestPortsRestInQuarantine(t *testing.T) {
	p := newPorts(20000, 20003, 5*time.Second)
	bind := func(uint16) error { return nil }
	a, _ := p.Take(0, bind)
	b, _ := p.Take(0, bind)
	p.Release(a, time.Second)
	if _, err := p.Take(5*time.Second, bind); err == nil || !strings.Contains(err.Error(), "no free port in 20000-20003: 1 in use, 1 in quarantine, 0 taken by others") {
		t.Errorf("during quarantine: %v", err)
	}
	if used, resting, total := p.Count(5 * time.Second); used != 1 || resting != 1 || total != 2 {
		t.Errorf("count %d %d %d", used, resting, total)
	}
	if got, err := p.Take(6*time.Second, bind); err != nil || got != a {
		t.Errorf("after quarantine: %d %v, want %d (not %d)", got, err, a, b)
	}
}

func TestPortsOfOthersArePassedOver(t *testing.T) {
	p := newPorts(20000, 20009, 0)
	taken := func(port uint16) error {
		if port != 20004 {
			return fmt.Errorf("bind: %w", syscall.EADDRINUSE)
		}
		return nil
	}
	if port, err := p.Take(0, taken); err != nil || port != 20004 {
		t.Fatalf("%d %v", port, err)
	}
	if _, err := p.Take(0, taken); !errors.Is(err, ErrNoPort) || !strings.Contains(err.Error(), "4 taken by others") {
		t.Errorf("%v", err)
	}
	p.Release(20004, 0)
	tries := 0
	full := func(uint16) error { tries++; return syscall.EMFILE }
	if _, err := p.Take(0, full); !errors.Is(err, syscall.EMFILE) || tries != 1 {
		t.Errorf("out of descriptors: %v after %d tries", err, tries)
	}
}

func TestPortsGoRound(t *testing.T) {
	p := newPorts(20000, 20019, 0)
	bind := func(uint16) error { return nil }
	last, _ := p.Take(0, bind)
	for range 25 {
		p.Release(last, 0)
		port, err := p.Take(0, bind)
		if err != nil || port == last {
			t.Fatalf("%d after %d: %v", port, last, err)
		}
		last = port
	}
}

func busy(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
