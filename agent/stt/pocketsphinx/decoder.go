//go:build cgo

package pocketsphinx

/*
#cgo pkg-config: pocketsphinx sphinxbase
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"parley/agent/stt/pocketsphinx/internal/wide"
)

// telephoneAdaptation moves the model's means to where G.711 puts them;
// make-mllr.sh makes it.
//
//go:embed telephone.mllr
var telephoneAdaptation []byte

// telephoneMean is the mean of the cepstra of telephone speech at the usual level,
// where a call begins. With the model's own, which is for a microphone, the first
// utterance of a call was misunderstood two times out of three.
var telephoneMean = [C.PARLEY_CEPSTRA]float32{
	43.60, 2.15, -4.33, 17.76, -0.91, -5.27, 8.06, -12.27, 2.25, -2.26, -1.10, 7.13, -4.50,
}

// meanFrames is how many frames the call's mean counts for against those of the
// utterance.
const meanFrames = 500

// The names of the decoder's searches.
const (
	grammarSearch = "expect"
	loopSearch    = "loop"
)

// phones are those of the model, without silence.
const phones = "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH"

// decoder is one of the library's. It belongs to one goroutine.
type decoder struct {
	ps      *C.ps_decoder_t
	grammar string
	words   map[string]bool
	mean    [C.PARLEY_CEPSTRA]float32 // what the call's next utterance begins with

	telephone bool // audio comes at 8 kHz
	doubler   wide.Doubler
	doubled   []int16
}

// newDecoder makes a decoder for grammars, or for dictation.
func newDecoder(cfg Config, dictation bool) (*decoder, error) {
	args := []string{"pocketsphinx", "-hmm", cfg.Model, "-fwdflat", "no", "-bestpath", "no"}
	if dictation {
		args = append(args, "-lm", cfg.LanguageModel, "-dict", cfg.Dictionary)
	} else {
		// Scores are relative to the best of the states that were computed, so two
		// searches can only be compared when all are.
		args = append(args, "-compallsen", "yes")
	}
	if cfg.Telephone {
		f, err := adaptationFile()
		if err != nil {
			return nil, err
		}
		defer os.Remove(f)
		args = append(args, "-mllr", f)
	}
	argv := (*[64]*C.char)(C.calloc(64, C.size_t(unsafe.Sizeof(uintptr(0)))))
	defer C.free(unsafe.Pointer(argv))
	for i, a := range args {
		argv[i] = C.CString(a)
		defer C.free(unsafe.Pointer(argv[i]))
	}
	ps := C.parley_decoder(C.int(len(args)), &argv[0])
	if ps == nil {
		return nil, fmt.Errorf("pocketsphinx: the library refuses the model %s", cfg.Model)
	}
	d := &decoder{ps: ps, words: map[string]bool{}, telephone: cfg.Telephone}
	if !dictation {
		if err := d.makeLoop(); err != nil {
			d.free()
			return nil, err
		}
	}
	if cfg.Telephone {
		d.mean = telephoneMean
	} else {
		C.parley_get_mean(ps, (*C.float)(&d.mean[0]))
	}
	return d, nil
}

// adaptationFile writes the adaptation where the library can read it: it takes
// nothing but the name of a file.
func adaptationFile() (string, error) {
	f, err := os.CreateTemp("", "parley-*.mllr")
	if err != nil {
		return "", fmt.Errorf("pocketsphinx: telephone adaptation: %w", err)
	}
	_, err = f.Write(telephoneAdaptation)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("pocketsphinx: telephone adaptation: %w", err)
	}
	return f.Name(), nil
}

func (d *decoder) free() { C.ps_free(d.ps) }

// checkGrammar tells whether the library can use a grammar whose words are known.
func checkGrammar(jsgf string) error {
	g := C.CString(jsgf)
	defer C.free(unsafe.Pointer(g))
	if C.parley_check_grammar(g) != 0 {
		return errors.New("pocketsphinx: the grammar cannot be parsed, or has no public rule")
	}
	return nil
}

// use makes a grammar, whose words are in the dictionary, the one to decode with.
func (d *decoder) use(jsgf string, words []string, dict *dictionary) error {
	if d.grammar == jsgf {
		return nil
	}
	if err := d.learn(words, dict); err != nil {
		return err
	}
	// The insertion penalty keeps loops such as <digit>+ from stuttering.
	if err := d.search(grammarSearch, jsgf, 1e-4, 1e-80, 1e-60); err != nil {
		return err
	}
	d.grammar = jsgf
	return nil
}

// makeLoop makes the search that accepts any sound of the language.
func (d *decoder) makeLoop() error {
	var names []string
	var words [][2]string
	for _, p := range strings.Fields(phones) {
		n := "_" + strings.ToLower(p)
		names = append(names, n)
		words = append(words, [2]string{n, p})
	}
	if err := d.add(words); err != nil {
		return err
	}
	jsgf := "#JSGF V1.0; grammar loop; public <loop> = ( " + strings.Join(names, " | ") + " )+ ;"
	return d.search(loopSearch, jsgf, 1e-2, 1e-20, 1e-10)
}

// search makes or replaces one of the decoder's searches.
func (d *decoder) search(name, jsgf string, penalty, beam, wordBeam float64) error {
	n, g := C.CString(name), C.CString(jsgf)
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(g))
	if C.parley_grammar(d.ps, n, g, C.double(penalty), C.double(beam), C.double(wordBeam)) != 0 {
		return errors.New("pocketsphinx: the library refuses the grammar")
	}
	return nil
}

// learn adds the words that the decoder does not know yet.
func (d *decoder) learn(words []string, dict *dictionary) error {
	var add [][2]string
	for _, w := range words {
		if d.words[w] {
			continue
		}
		d.words[w] = true
		for i, phones := range dict.pronunciations(w) {
			name := w
			if i > 0 {
				name = fmt.Sprintf("%s(%d)", w, i+1)
			}
			add = append(add, [2]string{name, phones})
		}
	}
	return d.add(add)
}

// add adds words with their phones.
func (d *decoder) add(words [][2]string) error {
	for i, a := range words {
		w, p := C.CString(a[0]), C.CString(a[1])
		update := C.int(0)
		if i == len(words)-1 { // rebuilds the searches, once
			update = 1
		}
		rc := C.ps_add_word(d.ps, w, p, update)
		C.free(unsafe.Pointer(w))
		C.free(unsafe.Pointer(p))
		if rc < 0 {
			return fmt.Errorf("pocketsphinx: the library refuses the word %q", a[0])
		}
	}
	return nil
}

// start begins a decoding with one of the searches, or with the only one when none
// is named. It is normalised by the call's mean.
func (d *decoder) start(search string) error {
	if search != "" {
		n := C.CString(search)
		defer C.free(unsafe.Pointer(n))
		if C.ps_set_search(d.ps, n) != 0 {
			return errors.New("pocketsphinx: the library has lost the grammar")
		}
	}
	d.doubler.Reset()
	C.ps_start_stream(d.ps)
	C.parley_set_mean(d.ps, (*C.float)(&d.mean[0]))
	if C.ps_start_utt(d.ps) != 0 {
		return errors.New("pocketsphinx: the library cannot begin an utterance")
	}
	return nil
}

func (d *decoder) feed(pcm []int16) {
	if pcm = d.widen(pcm); len(pcm) > 0 {
		C.ps_process_raw(d.ps, (*C.int16)(&pcm[0]), C.size_t(len(pcm)), 0, 0)
	}
}

// widen brings audio to the model's rate.
func (d *decoder) widen(pcm []int16) []int16 {
	if !d.telephone {
		return pcm
	}
	d.doubled = d.doubler.Process(d.doubled[:0], pcm)
	return d.doubled
}

func (d *decoder) end() { C.ps_end_utt(d.ps) }

// adapt moves the call's mean towards that of an utterance.
func (d *decoder) adapt(pcm []int16) {
	d.doubler.Reset()
	if pcm = d.widen(pcm); len(pcm) == 0 {
		return
	}
	var sum [C.PARLEY_CEPSTRA]float32
	n := C.parley_sum(d.ps, (*C.int16)(&pcm[0]), C.size_t(len(pcm)), (*C.float)(&sum[0]))
	for i := range d.mean {
		d.mean[i] = (d.mean[i]*meanFrames + sum[i]) / (meanFrames + float32(n))
	}
	d.doubled = nil // it was as long as the utterance
}

// text is the hypothesis so far.
func (d *decoder) text() string {
	h := C.ps_get_hyp(d.ps, nil)
	if h == nil {
		return ""
	}
	words := strings.Fields(C.GoString(h))
	for i, w := range words {
		if k := strings.IndexByte(w, '('); k > 0 { // a variant, "the(2)"
			words[i] = w[:k]
		}
	}
	return strings.Join(words, " ")
}

// score is how well the whole of the last utterance fits the hypothesis, and how
// many frames of it are words.
func (d *decoder) score() (total, frames int) {
	var t, f C.long
	C.parley_score(d.ps, &t, &f)
	return int(t), int(f)
}
