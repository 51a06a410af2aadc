//go:build cgo

#include "shim.h"
#include <string.h>

cst_voice *register_cmu_us_rms(const char *dir);
cst_voice *register_cmu_us_slt(const char *dir);
cst_voice *register_cmu_us_kal(const char *dir);

extern int parleySound(short *samples, int n, cst_utterance *u, uintptr_t handle);

cst_voice *parley_voice(const char *name) {
	if (strcmp(name, "rms") == 0)
		return register_cmu_us_rms(NULL);
	if (strcmp(name, "slt") == 0)
		return register_cmu_us_slt(NULL);
	if (strcmp(name, "kal") == 0)
		return register_cmu_us_kal(NULL);
	return NULL;
}

int parley_voice_rate(cst_voice *v) {
	return flite_get_param_int(v->features, "sample_rate", 16000);
}

static int sound(const cst_wave *w, int start, int size, int last, cst_audio_streaming_info *asi) {
	(void)last;
	return parleySound(w->samples + start, size, (cst_utterance *)asi->utt, (uintptr_t)asi->userdata)
		? CST_AUDIO_STREAM_CONT : CST_AUDIO_STREAM_STOP;
}

int parley_speak(cst_voice *v, const char *text, float stretch, uintptr_t handle) {
	cst_audio_streaming_info *asi = new_audio_streaming_info();
	cst_utterance *u;

	if (asi == NULL)
		return -1;
	asi->asc = sound;
	asi->min_buffsize = 256;
	asi->userdata = (void *)handle;
	flite_feat_set(v->features, "streaming_info", audio_streaming_info_val(asi));
	flite_feat_set_float(v->features, "duration_stretch", stretch);
	u = flite_synth_text(text, v);
	// Removing the feature frees the streaming information.
	flite_feat_remove(v->features, "streaming_info");
	if (u == NULL)
		return -1;
	delete_utterance(u);
	return 0;
}

// The first and the last segment of a word tell where its sound begins and ends:
// a segment's "end" is its own, its beginning is the end of the one before.
static int place(const cst_item *w, float *start, float *end) {
	const cst_item *word = item_as(w, "SylStructure"), *syl, *first, *last, *before;

	if (word == NULL || (syl = item_daughter(word)) == NULL || item_daughter(syl) == NULL)
		return 0;
	first = item_as(item_daughter(syl), "Segment");
	syl = item_last_daughter(word);
	last = item_last_daughter(syl) ? item_as(item_last_daughter(syl), "Segment") : NULL;
	if (first == NULL || last == NULL)
		return 0;
	before = item_prev(first);
	*start = before ? item_feat_float(before, "end") : 0;
	*end = item_feat_float(last, "end");
	return 1;
}

int parley_tokens(cst_utterance *u, parley_token *out, int max) {
	const cst_item *t, *w;
	int n = 0;

	if (u == NULL || !utt_relation_present(u, "Token") || !utt_relation_present(u, "Segment"))
		return 0;
	for (t = relation_head(utt_relation(u, "Token")); t != NULL && n < max; t = item_next(t)) {
		int sounds = 0;
		float start, end;

		for (w = item_daughter(t); w != NULL; w = item_next(w)) {
			if (!place(w, &start, &end))
				continue;
			if (!sounds)
				out[n].start = start;
			out[n].end = end;
			sounds = 1;
		}
		if (!sounds)
			continue;
		out[n].end_pos = item_feat_present(t, "file_pos") ? item_feat_int(t, "file_pos") : -1;
		n++;
	}
	return n;
}
