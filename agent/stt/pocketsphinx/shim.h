//go:build cgo

#ifndef PARLEY_POCKETSPHINX_SHIM_H
#define PARLEY_POCKETSPHINX_SHIM_H

#include <pocketsphinx.h>

#define PARLEY_CEPSTRA 13

// Makes a decoder from command-line words; NULL when the library refuses.
ps_decoder_t *parley_decoder(int argc, char **argv);

// Checks that a grammar can be parsed and made into a network; 0 when it can.
int parley_check_grammar(const char *jsgf);

// Sets the cepstral mean that the next utterance is normalised by.
void parley_set_mean(ps_decoder_t *d, const float *mean);
void parley_get_mean(ps_decoder_t *d, float *mean);

// Sums the cepstra of the speech in n samples; returns of how many frames. Not to be
// called within an utterance.
int parley_sum(ps_decoder_t *d, const int16 *samples, size_t n, float *sum);

// Sums the acoustic scores of the last hypothesis, silence included, and counts the
// frames of its words without silence and noises.
void parley_score(ps_decoder_t *d, long *score, long *frames);

// Makes a search of a grammar, with its own insertion penalty and beams. Returns 0,
// or a negative number when the library refuses it.
int parley_grammar(ps_decoder_t *d, const char *name, const char *jsgf,
	double wip, double beam, double wbeam);

#endif
