package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/agent/tts"
	"parley/agent/tts/flite"
	"parley/media/wav"
)

// word is one word of an utterance, from its first sample to its last.
type word struct {
	text     string
	from, to time.Duration
}

// span is a stretch of an utterance.
type span struct{ from, to time.Duration }

// utterance is what a caller says: from the first sample to the last it sounds, but for
// its gaps.
type utterance struct {
	text     string
	pcm      []int16
	words    []word
	gaps     []span
	recorded bool // of a person, not synthetic
}

func (u utterance) length() time.Duration { return lasting(u.pcm) }

// spoken is one sound and its words, whose times are in proportion to their letters.
func spoken(text string, pcm []int16, recorded bool) utterance {
	u := utterance{text: text, pcm: pcm, recorded: recorded}
	fields := strings.Fields(text)
	letters := 0
	for _, f := range fields {
		letters += len(f) + 1
	}
	at := 0
	for _, f := range fields {
		from := at
		at += len(f) + 1
		u.words = append(u.words, word{
			f, u.length() * time.Duration(from) / time.Duration(letters), u.length() * time.Duration(at) / time.Duration(letters),
		})
	}
	return u
}

// joined is a number of sounds with a pause between each two.
func joined(pause time.Duration, parts ...utterance) utterance {
	var u utterance
	var texts []string
	for i, p := range parts {
		if i > 0 {
			from := u.length()
			u.pcm = append(u.pcm, make([]int16, samples(pause))...)
			if pause > 0 {
				u.gaps = append(u.gaps, span{from, u.length()})
			}
		}
		at := u.length()
		for _, w := range p.words {
			u.words = append(u.words, word{w.text, at + w.from, at + w.to})
		}
		u.pcm = append(u.pcm, p.pcm...)
		texts = append(texts, p.text)
		u.recorded = p.recorded
	}
	u.text = strings.Join(texts, " ")
	return u
}

// callers are the people and the synthetic voices, and what they have to say.
type callers struct {
	sources []string // what was found, in words

	sentences, commands, backchannels, noises []utterance
	pausing                                   [][2]utterance // halves of a sentence
	digits                                    [][]utterance  // groups
	talk                                      [][]int16      // for babble
}

const pocketsphinxData = "/usr/share/pocketsphinx/test/data"

// asterisk is where Debian puts the recordings of a woman, or "".
func asterisk() string {
	for _, dir := range []string{"/usr/share/asterisk/sounds/en_US_f_Allison", "/usr/share/asterisk/sounds/en"} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

// load reads a sound file: WAVE, or raw 16 bits at 16 kHz.
func load(path string) ([]int16, error) {
	if filepath.Ext(path) == ".raw" {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		pcm := make([]int16, len(b)/2)
		for i := range pcm {
			pcm[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
		}
		return narrow(pcm, 16000)
	}
	pcm, f, err := wav.ReadFile(path, 1<<27)
	if err != nil {
		return nil, err
	}
	return narrow(wav.Mono(pcm, f.Channels), f.Rate)
}

// recording is what a person says in a file.
func recording(dir, name, text string) (utterance, error) {
	pcm, err := load(filepath.Join(dir, name))
	if err != nil {
		return utterance{}, err
	}
	return spoken(text, leveled(trimmed(pcm), callerLevel), true), nil
}

// voices are the synthetic callers.
type voices []tts.Voice

func newVoices() (voices, error) {
	var out voices
	for _, name := range []string{"rms", "kal"} {
		c := flite.DefaultConfig()
		c.Voice = name
		v, err := flite.New(c)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// say is a text as the i-th of the voices says it.
func (v voices) say(i int, text string) (utterance, error) {
	voice := v[i%len(v)]
	pcm, err := synthesize(voice, text)
	if err != nil {
		return utterance{}, err
	}
	if pcm, err = narrow(pcm, voice.Rate()); err != nil {
		return utterance{}, err
	}
	return spoken(text, leveled(trimmed(pcm), callerLevel), false), nil
}

func synthesize(v tts.Voice, text string) (pcm []int16, err error) {
	err = v.Speak(context.Background(), text, func(c tts.Chunk) error { pcm = append(pcm, c.PCM...); return nil })
	return pcm, err
}

// newCallers finds and makes all that is said.
func newCallers(seed uint64) (*callers, error) {
	c := &callers{}
	v, err := newVoices()
	if err != nil {
		return nil, fmt.Errorf("the synthetic callers: %w", err)
	}
	c.sources = append(c.sources, "flite's rms and kal")
	if err := c.record(); err != nil {
		return nil, err
	}
	if err := c.synthesize(v); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(seed, 9))
	for i := range 9 {
		make := []func(*rand.Rand) []int16{cough, click, breath}[i%3]
		c.noises = append(c.noises, utterance{text: []string{"cough", "click", "breath"}[i%3], pcm: make(random)})
	}
	for _, u := range c.sentences {
		c.talk = append(c.talk, u.pcm)
	}
	return c, nil
}

// record gathers the recordings of people.
func (c *callers) record() error {
	if dir := asterisk(); dir != "" {
		c.sources = append(c.sources, "a woman (asterisk-core-sounds-en-wav)")
		if err := c.prompts(dir); err != nil {
			return err
		}
	}
	if _, err := os.Stat(pocketsphinxData); err == nil {
		c.sources = append(c.sources, "readers and speakers (pocketsphinx-testdata)")
		for _, file := range slices.Sorted(maps.Keys(readers)) {
			u, err := recording(pocketsphinxData, file, readers[file])
			if err != nil {
				return err
			}
			c.sentences = append(c.sentences, u)
		}
	}
	if path := opusTestdata(); path != "" {
		pcm, err := load(path)
		if err != nil {
			return err
		}
		c.sources = append(c.sources, "a man in the babble (hraban/opus)")
		for pcm = trimmed(pcm); len(pcm) > samples(2*time.Second); pcm = pcm[samples(2*time.Second):] {
			c.talk = append(c.talk, pcm[:samples(2*time.Second)])
		}
	}
	return nil
}

// opusTestdata is the recording that comes with the binding of Opus, or "".
func opusTestdata() string {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/hraban/opus").Output()
	if err != nil {
		return ""
	}
	path := filepath.Join(strings.TrimSpace(string(dir)), "testdata", "speech_8.wav")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// prompts are the woman's.
func (c *callers) prompts(dir string) error {
	all := func(into *[]utterance, list map[string]string) error {
		for _, file := range slices.Sorted(maps.Keys(list)) {
			u, err := recording(dir, file+".wav", list[file])
			if err != nil {
				return err
			}
			*into = append(*into, u)
		}
		return nil
	}
	if err := all(&c.sentences, prompts); err != nil {
		return err
	}
	if err := all(&c.commands, promptCommands); err != nil {
		return err
	}
	for _, half := range promptHalves {
		var two []utterance
		for _, file := range half {
			u, err := recording(dir, file[0]+".wav", file[1])
			if err != nil {
				return err
			}
			two = append(two, u)
		}
		c.pausing = append(c.pausing, [2]utterance{two[0], two[1]})
	}
	for _, groups := range promptDigits {
		var said []utterance
		for _, group := range groups {
			var one []utterance
			for _, d := range strings.Fields(group) {
				folder := "digits"
				if d[0] > '9' {
					folder = "letters"
				}
				u, err := recording(dir, filepath.Join(folder, d+".wav"), names(d))
				if err != nil {
					return err
				}
				one = append(one, u)
			}
			said = append(said, joined(80*time.Millisecond, one...).without())
		}
		c.digits = append(c.digits, said)
	}
	return nil
}

// without is u with its pauses counted as sound.
func (u utterance) without() utterance {
	u.gaps = nil
	return u
}

// synthesize gathers what the synthetic callers say.
func (c *callers) synthesize(v voices) error {
	all := func(into *[]utterance, texts []string) error {
		for i, text := range texts {
			u, err := v.say(i, text)
			if err != nil {
				return err
			}
			*into = append(*into, u)
		}
		return nil
	}
	var first, second []utterance
	for i, half := range halves {
		for j, text := range half {
			u, err := v.say(i, text)
			if err != nil {
				return err
			}
			if j == 0 {
				first = append(first, u)
			} else {
				second = append(second, u)
			}
		}
	}
	for i := range first {
		c.pausing = append(c.pausing, [2]utterance{first[i], second[i]})
	}
	for i, groups := range digitGroups {
		var said []utterance
		for _, g := range groups {
			u, err := v.say(i, g)
			if err != nil {
				return err
			}
			said = append(said, u)
		}
		c.digits = append(c.digits, said)
	}
	for _, list := range []struct {
		into  *[]utterance
		texts []string
	}{{&c.sentences, sentences}, {&c.commands, commands}, {&c.backchannels, backchannels}} {
		if err := all(list.into, list.texts); err != nil {
			return err
		}
	}
	return nil
}
