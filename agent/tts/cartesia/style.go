package cartesia

import (
	"slices"

	"parley/agent/tts/sound"
)

const minSpeed, maxSpeed = 0.6, 1.5

// control is how a text is spoken.
type control struct {
	Speed   float64 `json:"speed,omitempty"`
	Volume  float64 `json:"volume,omitempty"`
	Emotion string  `json:"emotion,omitempty"`
}

// emotions are those that the service knows.
func emotions() []string {
	return []string{
		"neutral", "happy", "excited", "enthusiastic", "elated", "euphoric", "triumphant", "amazed", "surprised",
		"flirtatious", "curious", "content", "peaceful", "serene", "calm", "grateful", "affectionate", "trust",
		"sympathetic", "anticipation", "mysterious", "angry", "mad", "outraged", "frustrated", "agitated", "threatened",
		"disgusted", "contempt", "envious", "sarcastic", "ironic", "sad", "dejected", "melancholic", "disappointed",
		"hurt", "guilty", "bored", "tired", "rejected", "nostalgic", "wistful", "apologetic", "hesitant", "insecure",
		"confused", "resigned", "anxious", "panicked", "alarmed", "scared", "proud", "confident", "distant",
		"skeptical", "contemplative", "determined",
	}
}

// styled is c in a style: an emotion of the service, or a word for one, or for the speed or
// the volume. A style that is none of them changes nothing.
func (c control) styled(style string) control {
	const slower, faster, softer, louder = 0.85, 1.15, 0.7, 1.4
	by := func(v, factor, low, high float64) float64 {
		if v == 0 {
			v = 1
		}
		return min(max(v*factor, low), high)
	}
	style = sound.Style(style)
	switch style {
	case "slow", "slowly":
		c.Speed = by(c.Speed, slower, minSpeed, maxSpeed)
	case "fast", "quick", "quickly":
		c.Speed = by(c.Speed, faster, minSpeed, maxSpeed)
	case "whisper", "whispering", "soft", "softly", "quiet":
		c.Volume = by(c.Volume, softer, 0.5, 2)
	case "loud", "loudly":
		c.Volume = by(c.Volume, louder, 0.5, 2)
	case "warm", "friendly", "kind":
		c.Emotion = "affectionate"
	case "cheerful", "joyful":
		c.Emotion = "happy"
	case "empathetic", "concerned", "caring":
		c.Emotion = "sympathetic"
	case "sorry":
		c.Emotion = "apologetic"
	case "serious", "firm":
		c.Emotion = "determined"
	case "relaxed", "soothing":
		c.Emotion = "calm"
	default:
		if slices.Contains(emotions(), style) {
			c.Emotion = style
		}
	}
	return c
}
