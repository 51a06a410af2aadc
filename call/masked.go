package call

import (
	"strings"

	"parley/identity"
	"parley/sip"
)

// maskedURI is somebody's address for a log: of the user part enough to tell people
// apart, and the host. text is as in a header, with or without a name before it.
func maskedURI(text string) string {
	if i := strings.LastIndexByte(text, '<'); i >= 0 {
		text, _, _ = strings.Cut(text[i+1:], ">")
	}
	u, err := sip.ParseURI(strings.TrimSpace(text))
	if err != nil {
		return identity.Mask(text)
	}
	if u.User == "" || u.Host == "" {
		return u.Scheme + ":" + identity.Mask(u.User+u.Host)
	}
	return u.Scheme + ":" + identity.Mask(u.User) + "@" + u.Host
}
