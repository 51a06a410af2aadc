// Package stream is an agent that wants raw audio over a WebSocket. The gateway is the
// client: it connects to the agent's URL for each call, before the call is answered.
//
//	caller ─> Hear, payloads ─> [ heard: drop-oldest ] ─> write ─> WebSocket ─> agent
//	caller <─ Say, SayPayload <─ speak <─ [ speech: bounded ] <─ read <─ WebSocket <─┘
//	                              Run: marks, notices, connections, events
//
// There are two dialects. Twilio is the public Media Streams protocol, so that a bot
// that was written for it answers on any SIP trunk as it is; mu-law passes through
// without decoding where the call is mu-law. PCM is a protocol of our own, described in
// docs/stream.md and docs/stream.schema.json.
package stream
