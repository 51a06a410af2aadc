package sound

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/media/resample"
)

// MaxText is the longest text, in characters, that voices of services take: the least that
// any of them does. A conversation hands over sentences.
const MaxText = 2000

// ErrTooLong is the error for a text of more than MaxText characters.
var ErrTooLong = errors.New("text is longer than 2000 characters")

// Text makes a text fit to be sent: valid UTF-8 without control characters. It is empty
// when there is nothing in it to pronounce.
func Text(s string) (string, error) {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\ufeff' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd")))
	if utf8.RuneCountInString(s) > MaxText {
		return "", ErrTooLong
	}
	if !strings.ContainsFunc(s, pronounced) {
		return "", nil
	}
	return s, nil
}

// pronounced is whether a sign may have a sound of its own.
func pronounced(r rune) bool {
	return isKey(r) || unicode.In(r, unicode.Sc, unicode.Sm) && r != '|' && r != '~' && r != '<' && r != '>' || strings.ContainsRune("%&@#°§", r)
}

// isKey is whether a sign is one by which words are found: punctuation and spaces are not.
func isKey(r rune) bool { return unicode.In(r, unicode.L, unicode.N) }

// Style makes a style fit to be sent: lower case letters, spaces and hyphens, not many. Else
// it is empty.
func Style(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 40 || strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && r != ' ' && r != '-' }) {
		return ""
	}
	return s
}

// Rates are the sampling rates in Hz that are read and made.
func Rates() []int { return resample.Rates() }

// Address takes the address of a service that is spoken to over HTTP. Its path has no slash
// at the end. like is one for errors, which never repeat s: it may hold a secret.
func Address(s, like string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return nil, fmt.Errorf("base_url: must be set, such as %q", like)
	case err != nil:
		return nil, fmt.Errorf("base_url: is no address, must be such as %q", like)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("base_url: must begin with http:// or https:// and name a host")
	case u.User != nil:
		return nil, errors.New("base_url: must not hold a user or password; set api_key instead")
	}
	u.Fragment, u.RawFragment = "", ""
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}
