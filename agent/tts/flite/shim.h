//go:build cgo

#ifndef PARLEY_FLITE_SHIM_H
#define PARLEY_FLITE_SHIM_H

#include <stdint.h>
#include <flite.h>

// A token of the text with the place of its sound, in seconds. end_pos is the
// offset in the text just behind the token and the white space after it.
typedef struct {
	int end_pos;
	float start, end;
} parley_token;

// The library's own static voices, registered on first use; NULL: unknown name.
cst_voice *parley_voice(const char *name);
int parley_voice_rate(cst_voice *v);

// Synthesises text. The sound goes to parleySound (Go) with the handle; the voice
// must not be used by two threads at once. Returns 0, or -1 when out of memory.
int parley_speak(cst_voice *v, const char *text, float stretch, uintptr_t handle);

// The utterance's sounding tokens, at most max of them; returns how many.
int parley_tokens(cst_utterance *u, parley_token *out, int max);

#endif
