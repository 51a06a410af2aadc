// Command farm is the media side of many calls that SIPp has set up: one locked
// thread over raw sockets, so that neither Go's scheduler nor its netpoller is in
// the figures. Every millisecond it drains the sockets whose turn it is and sends
// one packet on each; arrivals are stamped by the kernel.
//
// It prints MEASURE-START and MEASURE-END around the measured window, for whoever
// reads the CPU time of the system under test, and then one line of JSON.
package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	header  = 12
	payload = 160
	period  = 20 // ms
)

// stream is one call's media.
type stream struct {
	fd      int
	peer    unix.RawSockaddrInet4
	started bool
	seq     uint16
	ts      uint32
	arrived []arrival
	tally   tally
}

// arrival is one packet of the system under test.
type arrival struct {
	at  int64 // ns, kernel clock
	ts  uint32
	seq uint16
}

func main() {
	n := flag.Int("n", 100, "calls")
	base := flag.Int("base", 30000, "first port; every second one is used")
	ip := flag.String("ip", "127.77.0.9", "own address")
	warm := flag.Duration("warm", 3*time.Second, "time between the last call's first packet and the window")
	window := flag.Duration("d", 10*time.Second, "length of the measured window")
	wait := flag.Duration("wait", 40*time.Second, "longest wait for all calls to be up")
	count := flag.Bool("count", false, "count the packets and keep none: for long windows")
	flag.Parse()

	runtime.LockOSThread()
	streams, err := open(*n, *base, *ip)
	if err != nil {
		fmt.Fprintln(os.Stderr, "farm:", err)
		os.Exit(1)
	}
	f := &farm{streams: streams, packet: loud(), counting: *count}
	f.run(*warm, *window, *wait)
	if err := json.NewEncoder(os.Stdout).Encode(verdictOf(streams, *count)); err != nil {
		os.Exit(1)
	}
}

func open(n, base int, ip string) ([]*stream, error) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return nil, err
	}
	streams := make([]*stream, n)
	for i := range streams {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Port: base + 2*i, Addr: addr.As4()}); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", ip, base+2*i, err)
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
			return nil, err
		}
		streams[i] = &stream{fd: fd}
	}
	return streams, nil
}

// loud is a packet of a 400 Hz square wave: a voice detector must work on it.
func loud() []byte {
	p := make([]byte, header+payload)
	p[0] = 0x80
	for i := range payload {
		p[header+i] = 0x10
		if (i/10)%2 == 1 {
			p[header+i] = 0x90
		}
	}
	return p
}

type farm struct {
	streams   []*stream
	packet    []byte
	recording bool
	counting  bool
	buf       [1500]byte
	oob       [128]byte
	from      unix.RawSockaddrInet4
}

// run turns until the window is over.
func (f *farm) run(warm, window, wait time.Duration) {
	start := time.Now()
	var up, began time.Time
	for tick := 0; ; tick++ {
		if d := time.Until(start.Add(time.Duration(tick) * time.Millisecond)); d > 0 {
			ts := unix.NsecToTimespec(int64(d))
			_, _, _ = syscall.RawSyscall6(syscall.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		}
		for i := tick % period; i < len(f.streams); i += period {
			f.drain(f.streams[i])
			f.send(f.streams[i], uint32(i)+1)
		}
		switch now := time.Now(); {
		case up.IsZero():
			if tick%100 == 0 && (f.started() == len(f.streams) || now.Sub(start) > wait) {
				up = now
			}
		case began.IsZero():
			if now.Sub(up) > warm {
				f.record(window)
				began = now
				fmt.Println("MEASURE-START")
			}
		case now.Sub(began) > window:
			fmt.Println("MEASURE-END")
			return
		}
	}
}

func (f *farm) started() (n int) {
	for _, s := range f.streams {
		if s.started {
			n++
		}
	}
	return n
}

// record empties the sockets and makes room, so that the window allocates nothing.
func (f *farm) record(window time.Duration) {
	for _, s := range f.streams {
		f.drain(s)
		if !f.counting {
			s.arrived = make([]arrival, 0, int(window/time.Second+2)*60)
		}
	}
	f.recording = true
}

func (f *farm) drain(s *stream) {
	iov := unix.Iovec{Base: &f.buf[0], Len: uint64(len(f.buf))}
	for {
		h := unix.Msghdr{Name: (*byte)(unsafe.Pointer(&f.from)), Namelen: uint32(unsafe.Sizeof(f.from)), Iov: &iov, Iovlen: 1, Control: &f.oob[0]}
		h.SetControllen(len(f.oob))
		n, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&h)), 0)
		if errno != 0 {
			return
		}
		// Version 2, and not RTCP.
		if n < header || f.buf[0]>>6 != 2 || (f.buf[1] >= 192 && f.buf[1] < 224) {
			continue
		}
		s.peer, s.started = f.from, true
		if f.recording {
			stamp := (*unix.Timespec)(unsafe.Pointer(&f.oob[unix.CmsgLen(0)]))
			a := arrival{stamp.Nano(), binary.BigEndian.Uint32(f.buf[4:]), binary.BigEndian.Uint16(f.buf[2:])}
			if f.counting {
				s.tally.add(a)
			} else {
				s.arrived = append(s.arrived, a)
			}
		}
	}
}

func (f *farm) send(s *stream, ssrc uint32) {
	if !s.started {
		return
	}
	s.seq++
	s.ts += payload
	binary.BigEndian.PutUint16(f.packet[2:], s.seq)
	binary.BigEndian.PutUint32(f.packet[4:], s.ts)
	binary.BigEndian.PutUint32(f.packet[8:], ssrc)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&f.packet[0])), uintptr(len(f.packet)),
		unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&s.peer)), unsafe.Sizeof(s.peer))
}
