package turn

import "context"

// Detector is a turn-detection model: it says from the sound and the words of an
// utterance whether its speaker is done. A Controller never calls one, since that would
// take time: whoever gets a Judge decision does, and gives what it says to Step as a
// Verdict. No verdict is needed: when it is late or fails, silence decides.
type Detector interface {
	// Judge gives the probability, 0 to 1, that the speaker is done. It may be called by
	// several goroutines.
	Judge(ctx context.Context, u Utterance) (probability float64, err error)
}

// Utterance is what a Detector judges.
type Utterance struct {
	// Text is what the recogniser made of it so far.
	Text string
	// PCM is the sound, mono at Rate Hz, up to the silence behind it; nil when it was not
	// kept.
	PCM  []int16
	Rate int
	// Language is a BCP 47 tag, or empty.
	Language string
}
