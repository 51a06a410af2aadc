//go:build cgo

#include "shim.h"
#include <sphinxbase/ckd_alloc.h>
#include <sphinxbase/cmn.h>
#include <sphinxbase/err.h>
#include <sphinxbase/fe.h>
#include <sphinxbase/feat.h>
#include <sphinxbase/jsgf.h>
#include <sphinxbase/fsg_model.h>
#include <sphinxbase/logmath.h>

ps_decoder_t *parley_decoder(int argc, char **argv) {
	cmd_ln_t *c;
	ps_decoder_t *d;

	err_set_logfp(NULL);
	c = cmd_ln_parse_r(NULL, ps_args(), argc, argv, TRUE);
	if (c == NULL)
		return NULL;
	d = ps_init(c); // keeps its own reference
	cmd_ln_free_r(c);
	return d;
}

int parley_check_grammar(const char *jsgf) {
	jsgf_t *g;
	jsgf_rule_t *rule;
	fsg_model_t *fsg;
	logmath_t *lmath;
	int rc = -1;

	err_set_logfp(NULL);
	g = jsgf_parse_string(jsgf, NULL);
	if (g == NULL)
		return -1;
	rule = jsgf_get_public_rule(g);
	if (rule != NULL && (lmath = logmath_init(1.0001, 0, FALSE)) != NULL) {
		fsg = jsgf_build_fsg(g, rule, lmath, 1.0);
		if (fsg != NULL) {
			rc = 0;
			fsg_model_free(fsg);
		}
		logmath_free(lmath);
	}
	jsgf_grammar_free(g);
	return rc;
}

void parley_set_mean(ps_decoder_t *d, const float *mean) {
	cmn_t *c = ps_get_feat(d)->cmn_struct;
	int i;

	// The mean stays as it is within an utterance of less than eight seconds; the
	// sum and its weight are what longer ones go on from.
	for (i = 0; i < c->veclen && i < PARLEY_CEPSTRA; i++) {
		c->cmn_mean[i] = mean[i];
		c->sum[i] = mean[i] * CMN_WIN;
	}
	c->nframe = CMN_WIN;
}

void parley_get_mean(ps_decoder_t *d, float *mean) {
	cmn_t *c = ps_get_feat(d)->cmn_struct;
	int i;

	for (i = 0; i < PARLEY_CEPSTRA; i++)
		mean[i] = i < c->veclen ? c->cmn_mean[i] : 0;
}

int parley_sum(ps_decoder_t *d, const int16 *samples, size_t n, float *sum) {
	fe_t *fe = ps_get_fe(d);
	mfcc_t **cepstra = NULL, *last;
	int32 frames = 0, more = 0;
	int i, k;

	for (k = 0; k < PARLEY_CEPSTRA; k++)
		sum[k] = 0;
	if (fe_get_output_size(fe) != PARLEY_CEPSTRA)
		return 0;
	fe_start_stream(fe);
	fe_start_utt(fe);
	if (fe_process_utt(fe, samples, n, &cepstra, &frames) < 0)
		frames = 0;
	last = ckd_calloc(PARLEY_CEPSTRA, sizeof(*last));
	fe_end_utt(fe, last, &more);
	ckd_free(last);
	for (i = 0; i < frames; i++)
		for (k = 0; k < PARLEY_CEPSTRA; k++)
			sum[k] += cepstra[i][k];
	if (cepstra != NULL)
		fe_free_2d(cepstra);
	return frames;
}

void parley_score(ps_decoder_t *d, long *score, long *frames) {
	ps_seg_t *s;

	*score = *frames = 0;
	for (s = ps_seg_iter(d); s != NULL; s = ps_seg_next(s)) {
		const char *w = ps_seg_word(s);
		int first, last;
		int32 acoustic, language, backoff;

		ps_seg_prob(s, &acoustic, &language, &backoff);
		*score += acoustic;
		// <sil>, [noise], ++breath++ and the network's own (NULL).
		if (w == NULL || w[0] == '<' || w[0] == '[' || w[0] == '+' || w[0] == '(')
			continue;
		ps_seg_frames(s, &first, &last);
		*frames += last - first + 1;
	}
}

int parley_grammar(ps_decoder_t *d, const char *name, const char *jsgf,
	double wip, double beam, double wbeam) {
	cmd_ln_t *c = ps_get_config(d);

	// A search reads the settings once, when it is made.
	cmd_ln_set_float_r(c, "-wip", wip);
	cmd_ln_set_float_r(c, "-beam", beam);
	cmd_ln_set_float_r(c, "-pbeam", beam);
	cmd_ln_set_float_r(c, "-wbeam", wbeam);
	return ps_set_jsgf_string(d, name, jsgf);
}
