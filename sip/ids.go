package sip

import (
	"crypto/rand"
	"encoding/hex"
	"hash/maphash"
	"strconv"
	"strings"
	"unicode"
)

// newID is 16 random hex digits: call ids for logs, tags, branches. RFC 3261
// section 19.3 asks for 32 random bits; a guess must also not hit a dialog.
func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// statelessTag is the To tag of answers given without state: the same for each
// copy of a request (RFC 3261 section 8.2.7).
func (s *Server) statelessTag(m *message) string {
	h := maphash.String(s.seed, m.get("call-id")+"\x00"+m.get("from")+"\x00"+m.get("cseq")+"\x00"+m.via.branch)
	return strconv.FormatUint(h, 16)
}

// clean makes what a peer wrote fit for a log line.
func clean(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, s)
}
