// Package ttstest tests voices: Run is the suite that every tts.Voice passes, and
// Tone is a voice without a synthesiser for the tests of other rooms.
package ttstest
