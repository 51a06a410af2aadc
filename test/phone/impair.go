package phone

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Impairment is what a bad line does to packets. The same seed does it to the
// same packets of a call. The zero value is a perfect line.
type Impairment struct {
	// Loss is the share of packets lost, 0 to 1.
	Loss float64
	// Jitter is the longest extra delay; every packet gets an even share of it by
	// chance. Only for sent packets.
	Jitter time.Duration
	// Reorder is the share of packets that are held back until after the next one,
	// 0 to 1. Only for sent packets.
	Reorder float64
	Seed    uint64
}

type impairment struct {
	Impairment
	mu     sync.Mutex
	random *rand.Rand
}

func newImpairment(i Impairment, stream uint64) *impairment {
	return &impairment{Impairment: i, random: rand.New(rand.NewPCG(i.Seed, stream))}
}

// judge tells the fate of the next packet. Three numbers are drawn each time, so
// that changing one setting does not move the others' victims.
func (i *impairment) judge() (lost bool, delay time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	loss, jitter, order := i.random.Float64(), i.random.Float64(), i.random.Float64()
	delay = time.Duration(jitter * float64(i.Jitter))
	if order < i.Reorder {
		delay += packetTime * 3 / 2
	}
	return loss < i.Loss, delay
}

// delayLine holds packets back until they are due.
type delayLine struct {
	waiting []delayed
}

type delayed struct {
	packet Packet
	due    time.Duration
}

func (l *delayLine) push(p Packet, due time.Duration) {
	at, _ := slices.BinarySearchFunc(l.waiting, due, func(d delayed, due time.Duration) int {
		if d.due <= due {
			return -1
		}
		return 1
	})
	l.waiting = slices.Insert(l.waiting, at, delayed{p, due})
}

func (l *delayLine) next() (due time.Duration, ok bool) {
	if len(l.waiting) == 0 {
		return 0, false
	}
	return l.waiting[0].due, true
}

func (l *delayLine) pop() Packet {
	p := l.waiting[0].packet
	l.waiting = slices.Delete(l.waiting, 0, 1)
	return p
}
