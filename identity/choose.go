package identity

import "strings"

// chosen is the one of a message's addresses that says who is calling.
type chosen struct {
	name   string // fit to show
	number string // E.164, or empty
	by     string
	shared bool // the number is not one person's
}

// choose finds the address that says who calls: the first P-Asserted-Identity
// with a telephone number, else the best Remote-Party-ID with one, both only of
// a trusted trunk, else From. Not ok: the caller does not want to be known.
//
// An asserted identity without a telephone number ("sip:bob@pbx") leaves From its
// say: a PBX asserts its own user names beside the number of the line.
func (n numbers) choose(s Source) (chosen, bool) {
	wish := wished(s.Privacy)
	calling := callingParties(s.RemoteParty)
	// A wish for privacy costs nothing to believe, so it is anybody's.
	if wish == withhold {
		return chosen{}, false
	}
	hideName := false
	for _, p := range calling {
		number, name := hides(p)
		if number {
			return chosen{}, false
		}
		hideName = hideName || name
	}
	from, anonymous := n.read(s.From, ByFrom)
	if anonymous {
		from = chosen{}
	}
	best, found, open := chosen{}, false, wish == disclose
	if s.Trusted {
		for _, p := range s.Asserted {
			one, nobody := n.read(p, ByAsserted)
			if nobody {
				// The network itself says that nobody is to be named.
				return chosen{}, false
			}
			if !found && one.number != "" {
				best, found = one, true
			}
		}
		for _, p := range calling {
			one, nobody := n.read(p, ByRemoteParty)
			if nobody {
				return chosen{}, false
			}
			open = open || strings.EqualFold(p.Params["privacy"], "off")
			if !found && one.number != "" {
				best, found = one, true
			}
		}
	}
	if anonymous && !(found && open) {
		// An anonymous From is a wish for privacy too (RFC 3323 section 4.1),
		// unless the trunk says in so many words that there is none.
		return chosen{}, false
	}
	if !found {
		best = from
	}
	if best.name == "" {
		best.name = from.name
	}
	if hideName {
		best.name = ""
	}
	return best, true
}

// read reads one address; anonymous says that it names nobody on purpose.
func (n numbers) read(p Party, by string) (c chosen, anonymous bool) {
	uri := p.URI
	if anonymousURI(uri) || anonymousName(p.Name) {
		return chosen{}, true
	}
	// Behind an extension of a switchboard sit many people; its number is
	// nobody's in particular.
	_, extension := uri.param("ext")
	return chosen{name: callerName(p.Name), number: n.of(uri), by: by, shared: extension}, false
}

// callingParties are those of the Remote-Party-IDs that are the caller's, the
// ones that the network checked (screen=yes) first. The party parameter is
// "calling" when it is missing.
func callingParties(all []Party) []Party {
	var screened, other []Party
	for _, p := range all {
		switch party, given := p.Params["party"]; {
		case given && !strings.EqualFold(party, "calling"):
		case strings.EqualFold(p.Params["screen"], "yes"):
			screened = append(screened, p)
		default:
			other = append(other, p)
		}
	}
	return append(screened, other...)
}

// hides reads the privacy parameter of a Remote-Party-ID or a Diversion (RFC
// 5806): "full", "name", "uri" or "off", several with commas, each with
// "-network" or the like behind it.
func hides(p Party) (number, name bool) {
	for _, v := range strings.Split(strings.Trim(p.Params["privacy"], `"`), ",") {
		v, _, _ = strings.Cut(strings.TrimSpace(v), "-")
		switch strings.ToLower(v) {
		case "full", "uri":
			number, name = true, true
		case "name":
			name = true
		}
	}
	return number, name
}
