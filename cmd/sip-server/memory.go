package main

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"go.uber.org/zap"
)

// gcPercent lets the heap grow to five times what is live before it is collected:
// the collector takes processor time from the wheel, and its work was measured to
// hurt the pacing of packets more than its pauses do.
const gcPercent = 400

// tuneMemory sets the collector's targets unless the environment has. The memory
// limit is what keeps the generous percentage from ending in an out-of-memory
// kill: near it the collector works harder.
func tuneMemory(environ []string, log *zap.Logger) {
	set := func(name string) bool {
		for _, e := range environ {
			if strings.HasPrefix(e, name+"=") && len(e) > len(name)+1 {
				return true
			}
		}
		return false
	}
	if !set("GOGC") {
		debug.SetGCPercent(gcPercent)
	}
	if set("GOMEMLIMIT") {
		return
	}
	if total := memory("/proc/meminfo", "/sys/fs/cgroup/memory.max"); total > 0 {
		limit := total / 4 * 3
		debug.SetMemoryLimit(limit)
		log.Debug("memory limit", zap.Int64("bytes", limit), zap.Int("gc_percent", gcPercent))
	}
}

// memory is how many bytes the machine, or the group that we run in, has; 0 when
// the system does not tell.
func memory(meminfo, cgroup string) int64 {
	total := int64(math.MaxInt64)
	if text, err := os.ReadFile(meminfo); err == nil {
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			f := strings.Fields(lines.Text())
			if len(f) >= 2 && f[0] == "MemTotal:" {
				if kB, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					total = kB * 1024
				}
			}
		}
	}
	if text, err := os.ReadFile(cgroup); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // "max" is no number
			total = min(total, n)
		}
	}
	if total == math.MaxInt64 {
		return 0
	}
	return total
}
