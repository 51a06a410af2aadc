package socket

// Lead keeps the newest audio of a caller whose turn has not begun: a voice is noticed
// only after it began. One goroutine at a time may use it.
type Lead struct {
	size int
	kept []byte
}

// NewLead keeps size bytes.
func NewLead(size int) *Lead { return &Lead{size: size, kept: make([]byte, 0, size)} }

// Keep adds audio. It does not keep the slice.
func (l *Lead) Keep(audio []byte) {
	if len(audio) >= l.size {
		l.kept = append(l.kept[:0], audio[len(audio)-l.size:]...)
		return
	}
	if over := len(l.kept) + len(audio) - l.size; over > 0 {
		l.kept = l.kept[:copy(l.kept, l.kept[over:])]
	}
	l.kept = append(l.kept, audio...)
}

// Take is what was kept, and forgets it. The result is good until the next Keep.
func (l *Lead) Take() []byte {
	kept := l.kept
	l.kept = l.kept[:0]
	return kept
}
