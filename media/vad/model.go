package vad

// Model is a neural network that tells how probably a piece of sound is a voice.
// It holds weights only; what a stream remembers lives in the state that the
// caller keeps, so one Model serves all calls at once.
type Model interface {
	// Rate is the sampling rate in Hz of the sound it was trained on.
	Rate() int
	// Frame is how many samples it takes at a time.
	Frame() int
	// State is how many values one stream remembers. All zero is a new stream.
	State() int
	// Probability takes the next Frame samples of the stream whose memory state
	// is, changes state, and returns 0 to 1. It may be called by many goroutines
	// at once for different streams.
	Probability(state []float32, frame []int16) float32
}
