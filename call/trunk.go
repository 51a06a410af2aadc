package call

import (
	"net/netip"

	"parley/sip"
)

// Trunk is a peer that calls come from and go to, as calls see it. It is a plain
// value.
type Trunk struct {
	// Name is the trunk's name in routes, records and the API.
	Name string
	// SIP is how it is reached. A trunk that only sends calls needs no Hosts.
	SIP sip.Trunk
	// Codecs are the names of the codecs to use with it, a subset of those of
	// Config.Codecs, in order of preference. Empty: all of them.
	Codecs []string
	// SRTP is "off", "optional" (as the peer wishes; offers of ours are plain) or
	// "required"; empty is "optional".
	SRTP string
	// Region is the ISO 3166 country whose national numbers it uses, and the one
	// that calls may go to unless Outbound.International.
	Region string
	// TrustIdentity believes what it says of callers: P-Asserted-Identity,
	// Remote-Party-ID, Diversion, History-Info and X- headers.
	TrustIdentity bool
	// MaxCalls is how many calls of both directions may be up or being set up; more
	// are refused with 503 and Retry-After. 0: no limit of its own.
	MaxCalls int
	// CallsPerSecond bounds how fast calls go out. 0: no limit.
	CallsPerSecond float64
	// Outbound are the guardrails for calls that go out.
	Outbound Outbound
	// AcceptRefer lets the peer transfer us (RFC 3515), to where Outbound allows
	// agents to call. Otherwise REFER is answered 403.
	AcceptRefer bool
	// ReferHeaders lets a transfer that is not attended carry X- headers in Refer-To,
	// for the INVITE that the peer sends. Not every peer takes such a URI; without it
	// a transfer with headers is refused.
	ReferHeaders bool
	// Advertise is the address written into session descriptions for it. The zero
	// value is that of Config.
	Advertise netip.Addr
}

// TransferConfig says where callers may be sent whose calls came by no trunk, by
// REFER to their telephones. The zero value is nowhere; what is said of agents in
// Outbound is true of operators too.
type TransferConfig struct {
	// Domain is the host of the addresses that numbers become. Empty: the caller's own.
	Domain string
	// Region is as in Trunk.
	Region string
	// ReferHeaders is as in Trunk.
	ReferHeaders bool
	Outbound
}

// Outbound says who may be called through a trunk. The zero value is the most
// careful: people may place calls within the trunk's country, agents none.
//
// Premium-rate numbers and those of satellites are refused unless Allow holds the
// whole number.
type Outbound struct {
	// Allow and Deny are prefixes: of numbers in E.164 form when they begin with a
	// plus sign ("+1415"), else of what is dialled (an extension: "2"). The longest
	// that fits decides, of two alike Deny. When Allow is not empty only what fits
	// it may be called. Agents may call only what fits it, ever.
	Allow, Deny []string
	// Hosts are the hosts of sip URIs that may be called, whatever their user part;
	// "*.example.com" is any below. Other URIs count as the number that their user
	// part is, and only at the trunk's own domain.
	Hosts []string
	// International allows countries other than that of the trunk's Region.
	International bool
	// MaxPerCall is how many calls and transfers an agent may begin in one call, and
	// MaxPerHour how many all agents together may through this trunk. 0 is 3 and 60.
	MaxPerCall, MaxPerHour int
	// CallerIDs are the numbers that may be shown as ours, the first when none is
	// asked for. Empty: only the trunk's user.
	CallerIDs []string
}
