package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/agent/tts"
	"parley/agent/tts/flite"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/media/opus"
	"parley/media/resample"
	"parley/media/wav"
)

// wide is the rate of the speech, in Hz.
const wide = 16000

// said is what the embedded voice speaks where there is no recording of a person:
// sentences of the Harvard list, over and over.
const said = "The birch canoe slid on the smooth planks. Glue the sheet to the dark blue background. It's easy to tell the depth of a well. " +
	"These days a chicken leg is a rare dish. Rice is often served in round bowls. The juice of lemons makes fine punch. " +
	"The box was thrown beside the parked truck. The hogs were fed chopped corn and garbage. Four hours of steady work faced us."

// loadSpeech gives wideband speech and says what it is: the file, else a person's
// recording (Debian's asterisk-core-sounds-en-g722), else the embedded voice.
func loadSpeech(file string, length time.Duration) (pcm []int16, source string, err error) {
	switch {
	case file != "":
		var f wav.Format
		if pcm, f, err = wav.ReadFile(file, 1<<27); err != nil {
			return nil, "", err
		}
		if pcm, err = convert(wav.Mono(pcm, f.Channels), f.Rate, wide); err != nil {
			return nil, "", err
		}
		source = filepath.Base(file)
	default:
		found, _ := filepath.Glob("/usr/share/asterisk/sounds/*/demo-instruct.g722")
		if len(found) > 0 {
			pcm, err = readG722(found[0])
			source = "a woman's voice (demo-instruct.g722)"
		} else {
			pcm, err = synthesize()
			source = "flite's slt"
		}
		if err != nil {
			return nil, "", err
		}
	}
	n := media.Samples(length, wide)
	if len(pcm) == 0 {
		return nil, "", fmt.Errorf("%s holds no sound", source)
	}
	for len(pcm) < n {
		pcm = append(pcm, pcm...)
	}
	return pcm[:n], source, nil
}

func readG722(path string) ([]int16, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dec, err := g722.G722().NewDecoder()
	if err != nil {
		return nil, err
	}
	return dec.Decode(nil, b)
}

func synthesize() (pcm []int16, err error) {
	voice, err := flite.New(flite.DefaultConfig())
	if err != nil {
		return nil, err
	}
	for sentence := range strings.SplitAfterSeq(said, ".") {
		if strings.TrimSpace(sentence) == "" {
			continue
		}
		if err := voice.Speak(context.Background(), sentence, func(c tts.Chunk) error { pcm = append(pcm, c.PCM...); return nil }); err != nil {
			return nil, err
		}
		pcm = append(pcm, make([]int16, wide*3/10)...)
	}
	return convert(pcm, voice.Rate(), wide)
}

func convert(pcm []int16, from, to int) ([]int16, error) {
	r, err := resample.New(from, to, resample.Voice)
	if err != nil {
		return nil, err
	}
	out := r.Process(nil, pcm)
	if d := media.Samples(r.Delay(), to); d > 0 && d < len(out) {
		out = r.Process(out, make([]int16, media.Samples(r.Delay(), from)+1))[d:]
	}
	return out, nil
}

func codecsOf(names []string) (out []media.Codec, err error) {
	for _, name := range names {
		switch strings.ToUpper(strings.TrimSpace(name)) {
		case "PCMU":
			out = append(out, g711.PCMU())
		case "PCMA":
			out = append(out, g711.PCMA())
		case "G722":
			out = append(out, g722.G722())
		case "OPUS":
			c, err := opus.Opus(opus.DefaultConfig())
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		default:
			return nil, fmt.Errorf("no codec %q", name)
		}
	}
	return out, nil
}

// encode makes packets of 20 ms as the caller's phone would, and gives what they say
// at the codec's rate.
func encode(codec media.Codec, speech []int16) (clean []int16, payloads [][]byte, err error) {
	if clean, err = convert(speech, wide, codec.SampleRate); err != nil {
		return nil, nil, err
	}
	if codec.For != nil {
		codec = codec.For("useinbandfec=1") // as our answer asks for
	}
	enc, err := codec.NewEncoder()
	if err != nil {
		return nil, nil, err
	}
	n := media.Samples(packetTime, codec.SampleRate)
	for i := 0; i+n <= len(clean); i += n {
		b, err := enc.Encode(nil, clean[i:i+n])
		if err != nil {
			return nil, nil, err
		}
		payloads = append(payloads, b)
	}
	return clean, payloads, nil
}
