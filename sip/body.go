package sip

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// maxParts bounds how many parts of a multipart body are looked at, and
// maxDepth how deep they may be nested.
const (
	maxParts = 16
	maxDepth = 3
)

// findSDP finds the session description in a body. ok is false when the body has
// to be understood (RFC 3261 section 20.11, RFC 5621) and holds none; with ok and
// nil every part may be ignored.
func findSDP(contentType string, body []byte) (sdp []byte, ok bool) {
	return findPart(contentType, body, maxDepth)
}

func findPart(contentType string, body []byte, depth int) (sdp []byte, ok bool) {
	kind, params := mediaType(contentType)
	if kind == "application/sdp" {
		return body, true
	}
	if !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" || depth == 0 {
		return nil, false
	}
	r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	parts, needed := 0, false
	for range maxParts {
		p, err := r.NextRawPart()
		if err != nil {
			break
		}
		text, err := io.ReadAll(p)
		if err != nil {
			break
		}
		partType := p.Header.Get("Content-Type")
		if partType == "" {
			partType = "text/plain"
		}
		// A description for later use, such as disposition "early-session"
		// (RFC 3959), is not the offer.
		disposition, _ := mediaType(p.Header.Get("Content-Disposition"))
		if found, ok := findPart(partType, text, depth-1); ok && found != nil && (disposition == "" || disposition == "session") {
			return found, true
		}
		if !optionalBody(p.Header.Get("Content-Disposition")) {
			needed = true // but the description may be behind it
		}
		parts++
	}
	return nil, parts > 0 && !needed
}

// mediaType reads a type and its parameters, leniently: what is behind a broken
// parameter is lost, the type is not.
func mediaType(s string) (kind string, params map[string]string) {
	kind, params, err := mime.ParseMediaType(s)
	if err != nil {
		kind, rest, _ := strings.Cut(s, ";")
		return strings.ToLower(strings.TrimSpace(kind)), parseParams(rest)
	}
	return kind, params
}

// optionalBody reads handling=optional out of a Content-Disposition (RFC 3261
// section 20.11), also where no disposition type stands before it.
func optionalBody(disposition string) bool {
	_, rest, _ := strings.Cut(disposition, ";")
	return strings.EqualFold(strings.Trim(parseParams(rest)["handling"], `"`), "optional")
}
