// Package livetest helps to test realtime providers and what uses them: Run is the
// suite that every provider passes against a scripted service, and Script is such a
// service in memory.
package livetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"parley/agent/live"
)

// Suite plugs a provider into Run.
type Suite struct {
	// Open starts a scripted service for one part of the suite, on loopback or in
	// memory, and returns it with a maker of providers that connect to it. What it
	// starts ends with the test. The service holds every message of the provider
	// against the service's documentation, and tells t of what is wrong.
	Open func(t *testing.T) (Service, func() live.LiveProvider)
	// Config is what sessions are set up with besides what a part needs, such as a
	// model's name.
	Config live.LiveConfig
	// Without are parts that make no sense with this service, each with the reason, by
	// the names of Parts.
	Without map[string]string
	// Closing bounds how long Close may take; 0: 1 s.
	Closing time.Duration
}

// ErrCannot is returned by Conn.Tell and Conn.Garble for what the service has no words
// for. The part is passed over.
var ErrCannot = errors.New("livetest: the service cannot say this")

// Service is the far side of a provider, scripted. Its methods are called from any
// goroutine.
type Service interface {
	// Accept waits for the provider's next connection and sets its session up, with
	// whatever the protocol asks for. It returns when the provider's Connect may return.
	Accept(ctx context.Context) (Conn, error)
	// Refuse makes connections fail from now on, the way in which the service tells of
	// live.ErrAuth, live.ErrBusy or live.ErrRejected; nil: they succeed again. It
	// returns ErrCannot for what the service never says.
	Refuse(err error) error
}

// Conn is one connection, seen from the service. Tell, Garble and Drop are called from
// one goroutine, Next from another.
type Conn interface {
	// Setup is what the provider set the session up with.
	Setup() Setup
	// Tell sends what m says, in the service's words and as many messages as it takes.
	// Audio is S16LE at live.OutputRate, or of the session's encoding: a service that
	// speaks at another rate converts it. A reply begins with the first Audio, Agent or
	// ToolCalls after a TurnDone or Interrupted, and ends with TurnDone. ErrCannot: the
	// service has no such words.
	Tell(m live.Message) error
	// Garble sends something that no documentation knows: a message of an unknown kind,
	// or with fields of a wrong type.
	Garble() error
	// Next waits for what the provider sends next, in the words of Sent. Messages that
	// belong to the protocol only (asking for a reply after a text) are taken by the
	// service itself. io.EOF: the provider has closed the connection.
	Next(ctx context.Context) (Sent, error)
	// Drop ends the connection without a word, as networks do.
	Drop()
}

// Setup is a session as a service sees it.
type Setup struct {
	Model, Voice, Instructions, Language string

	Tools []live.ToolDefinition
	// LocalTurns: the service's turn detection is off. LocalCuts: it stops no reply.
	LocalTurns, LocalCuts bool
	Transcribe            bool
	Temperature           *float64
	// Wire is the encoding of the audio; empty: PCM of any rate.
	Wire live.Encoding
	// History is what was said before, as far as it came with the set-up; what comes as
	// messages of its own is given by Conn.Next. Resumed: the service was asked to go on
	// with a session that it has kept.
	History []live.Said
	Resumed bool
}

// Kind tells what was Sent.
type Kind string

// The kinds of Sent.
const (
	SentAudio         Kind = "audio"
	SentAudioEnd      Kind = "audio end"
	SentText          Kind = "text"
	SentInstruct      Kind = "instruct"
	SentToolResponse  Kind = "tool response"
	SentTruncate      Kind = "truncate"
	SentActivityStart Kind = "activity start"
	SentActivityEnd   Kind = "activity end"
	SentHistory       Kind = "history"
)

// Sent is what a provider sent to its service.
type Sent struct {
	Kind Kind
	// At is when, for services in memory.
	At time.Time
	// PCM is decoded audio at Rate Hz; Payload is audio in the session's encoding where
	// that is not PCM.
	PCM     []int16
	Rate    int
	Payload []byte
	// Text is the words of SentText, or the instructions of SentInstruct.
	Text string
	// Response is a tool's answer.
	Response live.ToolResponse
	// ItemID and Played are those of a SentTruncate; Played 0: the item was deleted.
	ItemID string
	Played time.Duration
	// Said is an entry of the conversation before.
	Said live.Said
}

// patience bounds what must come at once, on a machine that is busy.
const patience = 10 * time.Second

// part is one part of the suite.
type part struct {
	name string
	run  func(*rig)
}

func parts() []part {
	return []part{
		{"not connected", notConnected},
		{"connect refused: auth", func(r *rig) { refused(r, live.ErrAuth) }},
		{"connect refused: busy", func(r *rig) { refused(r, live.ErrBusy) }},
		{"connect refused: rejected", func(r *rig) { refused(r, live.ErrRejected) }},
		{"connect cancelled", connectCancelled},
		{"set-up", setUp},
		{"set-up: local turns", setUpLocal},
		{"audio up", audioUp},
		{"audio down", audioDown},
		{"audio down: odd pieces", audioOdd},
		{"pass-through", passThrough},
		{"speech edges", speechEdges},
		{"transcripts", transcripts},
		{"text", text},
		{"tools", tools},
		{"tools: two at once", twoTools},
		{"tools: cancelled", cancelledTools},
		{"interrupted", interrupted},
		{"truncate", truncate},
		{"truncate: nothing heard", truncateNothing},
		{"truncate: unknown item", truncateUnknown},
		{"local turns", localTurns},
		{"instruct", instruct},
		{"go away", goAway},
		{"warning", warning},
		{"garbage", garbage},
		{"lost", lost},
		{"reconnect", reconnect},
		{"reconnect: tool answered after", reconnectTool},
		{"receive cancelled", receiveCancelled},
		{"close", closes},
		{"close while receiving", closeReceiving},
	}
}

// Parts are the names of the parts of the suite.
func Parts() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// Run holds a provider against the contract of agent/live.
func Run(t *testing.T, s Suite) {
	t.Helper()
	known := map[string]bool{}
	for _, p := range parts() {
		known[p.name] = true
		t.Run(p.name, func(t *testing.T) {
			if why := s.Without[p.name]; why != "" {
				t.Skip(why)
			}
			p.run(newRig(t, s))
		})
	}
	for name := range s.Without {
		if !known[name] {
			t.Errorf("there is no part %q to be without", name)
		}
	}
}
