// Package rtp carries the sound of many calls: RTP sessions (RFC 3550) and the
// wheel that turns them.
//
//	       every 5 ms, one goroutine for all calls
//	┌──────────────────────────────────────────────────────────┐
//	│ drain ─> open ─> parse ─> latch ─> sequence ─> Packet    │
//	│ Turn                                                     │
//	│ slot due?  Slot ─> header ─> seal ─> sendto              │
//	│ report due?  SR or RR, SDES ─> seal ─> sendto     (RTCP) │
//	└──────────────────────────────────────────────────────────┘
//
// A Session is one UDP port with one stream in and one stream out. It has no
// goroutine of its own (the goroutine driver has one reader a socket): the Wheel
// drains its socket, hands valid packets of the latched source to a Handler and
// asks the Handler for a payload whenever the session's packet time is due. A
// socket whose packets come on time is left alone until shortly before the next.
// The Handler never blocks and never allocates, so one wheel turns a thousand
// calls.
//
// What is implemented: RFC 3550 sections 5.1 and 5.3.1 (header, padding, CSRC,
// extension), 6 (RTCP: SR, RR, SDES CNAME, BYE), 8.2 and A.1, A.2, A.3, A.8
// (validation, new sequence spaces);
// RFC 3551 section 4.1 (marker); RFC 7362 (latching, with the cautions of its
// section 5); RFC 5761 (RTCP on the RTP port) and RFC 7983 (telling STUN, DTLS and
// RTP apart); RFC 3711, 6188 and 7714 (SRTP and SRTCP, with replay lists); RFC 5763
// and 5764 (keys by DTLS); RFC 8445 (ICE, as a lite agent) and RFC 7675 (consent);
// RFC 3611 section 4.7 (VoIP metrics); ITU-T G.107 (the MOS). The
// sub-packages put packets back in order (jitter), read and write
// telephone-events (dtmf) and give tests a network in memory (rtptest).
package rtp
