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
)

// telephoneAdaptation moves the model's means to where G.711 puts them;
// make-mllr.sh makes it.
//
//go:embed telephone.mllr
var telephoneAdaptation []byte

// telephoneMean is the mean of the cepstra of telephone speech at the usual level.
// Every utterance is normalised by a mean that the one before has updated; the
// first by this. With the model's own, which is for a microphone, the first
// utterance of a call was misunderstood two times out of three.
var telephoneMean = [C.PARLEY_CEPSTRA]float32{
	39.76, 15.85, -23.79, 37.74, -20.87, 9.27, 0.43, -11.97, 7.70, -11.03, 6.81, -1.24, 0.28,
}

// meanFrames is how many frames the mean so far counts for when an utterance
// updates it.
const meanFrames = 200

// grammarName is what the decoder calls its one search.
const grammarName = "expect"

// decoder is one of the library's. It belongs to one goroutine.
type decoder struct {
	ps      *C.ps_decoder_t
	grammar string
	words   map[string]bool
	mean    [C.PARLEY_CEPSTRA]float32 // what the call's next utterance begins with
}

// newDecoder makes a decoder for grammars, or for dictation.
func newDecoder(cfg Config, dictation bool) (*decoder, error) {
	args := []string{"pocketsphinx", "-hmm", cfg.Model, "-fwdflat", "no", "-bestpath", "no"}
	if dictation {
		args = append(args, "-lm", cfg.LanguageModel, "-dict", cfg.Dictionary)
	} else {
		// The words' scores are only comparable from one utterance to the next when
		// all of the model's states are computed. The insertion penalty keeps loops
		// such as <digit>+ from stuttering.
		args = append(args, "-compallsen", "yes", "-wip", "0.0001", "-beam", "1e-80", "-pbeam", "1e-80", "-wbeam", "1e-60")
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
	d := &decoder{ps: ps, words: map[string]bool{}}
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
	name, g := C.CString(grammarName), C.CString(jsgf)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(g))
	if C.ps_set_jsgf_string(d.ps, name, g) != 0 || C.ps_set_search(d.ps, name) != 0 {
		return errors.New("pocketsphinx: the library refuses the grammar")
	}
	d.grammar = jsgf
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
	for i, a := range add {
		w, p := C.CString(a[0]), C.CString(a[1])
		update := C.int(0)
		if i == len(add)-1 { // rebuilds the searches, once
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

// start begins a decoding that is normalised by the call's mean.
func (d *decoder) start() error {
	C.ps_start_stream(d.ps)
	C.parley_set_mean(d.ps, (*C.float)(&d.mean[0]), meanFrames)
	if C.ps_start_utt(d.ps) != 0 {
		return errors.New("pocketsphinx: the library cannot begin an utterance")
	}
	return nil
}

func (d *decoder) feed(pcm []int16) {
	if len(pcm) > 0 {
		C.ps_process_raw(d.ps, (*C.int16)(&pcm[0]), C.size_t(len(pcm)), 0, 0)
	}
}

// end ends the decoding and keeps the mean that it has made of the utterance.
func (d *decoder) end() {
	C.ps_end_utt(d.ps)
	C.parley_get_mean(d.ps, (*C.float)(&d.mean[0]))
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

// confidence tells from the score how well the words fit their sound. The score of
// a frame is relative to the best state of the whole model, so speech of other words
// and noises score worse than the words of the grammar do.
func (d *decoder) confidence() float64 {
	var score, frames C.long
	C.parley_score(d.ps, &score, &frames)
	if frames <= 0 {
		return 0
	}
	return confidence(float64(score) / float64(frames))
}
