package stream

import (
	"errors"
	"fmt"

	"github.com/coder/websocket"

	"parley/agent"
)

// dialect is the language of an agent, in one call. hear belongs to the goroutine that
// moves packets, say to the one that speaks, read to the one that reads from the agent;
// the others to the one that writes to it.
type dialect interface {
	// hear appends the caller's sound as the agent gets it.
	hear(dst []byte, pcm []int16) []byte
	// say appends the samples of the agent's sound.
	say(dst []int16, sound []byte) []int16

	// connected is the first message on a connection. p is nil on the first one.
	connected(dst []byte, p *progress) []byte
	// begin is the first message when the call is up; nil: none on this connection.
	begin(dst []byte, again bool) []byte
	// gap is what goes before a frame when sound between is missing; nil: nothing.
	gap(dst []byte, f *frame) []byte
	// sound is the message with a frame of the caller's.
	sound(dst []byte, f *frame) (websocket.MessageType, []byte)
	// tell is one of the messages of messages.go; nil: the agent is not told.
	tell(dst []byte, message any) []byte

	// read understands a message of the agent's: one of the commands, or a *wrong. It
	// may keep text.
	read(kind websocket.MessageType, text []byte) (any, error)
}

// What an agent may want.
type (
	sayCommand   struct{ sound []byte }
	markCommand  struct{ name, text string }
	clearCommand struct{}
	// pauseCommand keeps the speech back, or lets it go on.
	pauseCommand  struct{ on bool }
	hangupCommand struct{}
	// actCommand is something that the peer is waited for.
	actCommand struct {
		action, id string
		transfer   agent.Transfer
		digits     string
		hold       bool
	}
	configCommand struct {
		statistics *int // in ms
		hear       *bool
	}
	wordsCommand struct {
		text  string
		final bool
	}
	memoryCommand struct {
		key   string
		value any
	}
	// unknownCommand is of a type that is not known: a later version's.
	unknownCommand struct{ name string }
	// otherCommand is for another stream of the same agent.
	otherCommand struct{}
)

// wrong says which field of a message is wrong, and how.
type wrong struct{ field, text string }

func (w *wrong) Error() string { return fmt.Sprintf("%s: %s", w.field, w.text) }

// bad is a *wrong.
func bad(field, format string, a ...any) error { return &wrong{field, fmt.Sprintf(format, a...)} }

// disguised says which kind of file sound is the beginning of, "" for none. Headers and
// compressed sound would be a noise in the caller's ear.
func disguised(sound []byte) string {
	begins := func(at int, magic string) bool {
		return len(sound) >= at+len(magic) && string(sound[at:at+len(magic)]) == magic
	}
	switch {
	case begins(0, "RIFF") && begins(8, "WAVE"):
		return "a WAV file"
	case begins(0, "ID3\x02\x00"), begins(0, "ID3\x03\x00"), begins(0, "ID3\x04\x00"):
		return "an MP3 file"
	case begins(0, "OggS\x00"):
		return "an Ogg file"
	case begins(0, "fLaC\x00\x00\x00\x22"):
		return "a FLAC file"
	}
	return ""
}

// errEnded says that the session is over.
var errEnded = errors.New("stream: the call is over")
