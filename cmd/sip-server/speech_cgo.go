//go:build cgo

package main

// embeddedSpeech says whether this build has a recogniser and a voice inside.
const embeddedSpeech = true
