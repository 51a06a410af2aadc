package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"parley/call"
	"parley/identity"
	"parley/sip"
)

// Trunk is a peer that calls come from and go to: a [[trunk]] of the file.
type Trunk struct {
	// Register says that we register there, as User.
	Register bool
	// Password answers the trunk's challenges.
	Password Secret
	// PasswordFile names a file that holds it.
	PasswordFile string
	// Sources are the addresses, or ranges such as "192.0.2.0/24", whose calls are
	// the trunk's without a registration or a password.
	Sources []string
	// Certificates are names of verified client certificates of which the same is
	// true.
	Certificates []string
	// Codecs, SRTP, Region, TrustIdentity, MaxCalls, CallsPerSecond, AcceptRefer,
	// ReferHeaders and Advertise are those of call.Trunk.
	Codecs         []string
	SRTP           string
	Region         string
	TrustIdentity  bool
	MaxCalls       int
	CallsPerSecond float64
	AcceptRefer    bool
	ReferHeaders   bool
	Advertise      netip.Addr
	// AllowHosts is Hosts of call.Outbound.
	AllowHosts []string
	sip.Trunk
	sip.TLS       `hide:"client_auth,certificates"` // for connections to the trunk; what is empty is [tls]'s
	call.Outbound `hide:"hosts"`
}

// defaultTrunk is a [[trunk]] that says nothing.
func defaultTrunk() Trunk {
	return Trunk{Register: true, SRTP: srtpOptional, Trunk: sip.DefaultTrunk(), Outbound: defaultOutbound()}
}

// defaultOutbound are the guardrails where nothing is said of them.
func defaultOutbound() call.Outbound { return call.Outbound{MaxPerCall: 3, MaxPerHour: 60} }

// What may stand in srtp.
const (
	srtpOff      = "off"
	srtpOptional = "optional"
	srtpRequired = "required"
)

// dials says how we reach the trunk. Of TLS, what it leaves empty is as in [tls]: to
// name the server takes nothing away from the authorities.
func (t Trunk) dials(general sip.TLS) sip.Trunk {
	out := t.Trunk
	out.Password, out.TLS = t.Password.Reveal(), t.TLS
	if out.TLS.CertFile == "" && out.TLS.KeyFile == "" {
		out.TLS.CertFile, out.TLS.KeyFile = general.CertFile, general.KeyFile
	}
	out.TLS.CAFile = cmp.Or(out.TLS.CAFile, general.CAFile)
	return out
}

// Registrations are the trunks to register with.
func (c *Config) Registrations() []sip.Trunk {
	var out []sip.Trunk
	for _, t := range c.Trunk {
		if t.Register {
			out = append(out, t.dials(c.TLS.TLS))
		}
	}
	return out
}

// Trunks are all trunks, as calls see them.
func (c *Config) Trunks() []call.Trunk {
	var out []call.Trunk
	for _, t := range c.Trunk {
		guard := t.Outbound
		guard.Hosts = t.AllowHosts
		out = append(out, call.Trunk{
			Name: t.Name, SIP: t.dials(c.TLS.TLS), Codecs: t.Codecs, SRTP: t.SRTP, Region: c.region(t), TrustIdentity: t.TrustIdentity,
			MaxCalls: t.MaxCalls, CallsPerSecond: t.CallsPerSecond, Outbound: guard, AcceptRefer: t.AcceptRefer, ReferHeaders: t.ReferHeaders, Advertise: t.Advertise,
		})
	}
	return out
}

// Sources are how the calls of trunks are known that do not come by a registration.
func (c *Config) Sources() ([]sip.Source, error) {
	var out []sip.Source
	var errs []error
	for _, t := range c.Trunk {
		if len(t.Sources)+len(t.Certificates) == 0 {
			continue
		}
		s := sip.Source{Trunk: t.Name, Certificates: t.Certificates, Rate: t.CallsPerSecond, Burst: int(math.Ceil(t.CallsPerSecond))}
		for _, text := range t.Sources {
			p, err := parseSource(text)
			errs = append(errs, err)
			s.Addrs = append(s.Addrs, p)
		}
		out = append(out, s)
	}
	return out, errors.Join(errs...)
}

// region is the country whose national numbers a trunk uses.
func (c *Config) region(t Trunk) string {
	if t.Region != "" {
		return t.Region
	}
	return c.Identity.Region
}

// trunkSection is the section of the i-th trunk's keys.
func trunkSection(i int) string { return fmt.Sprintf("trunk[%d]", i) }

// readTrunks reads all [[trunk]].
func (l *loader) readTrunks(raw any) {
	l.readList("trunk", raw, func() reflect.Value {
		l.config.Trunk = append(l.config.Trunk, defaultTrunk())
		return reflect.ValueOf(&l.config.Trunk).Elem()
	})
	l.nameTrunks()
}

// readList reads all [[name]]; add makes room for one more and gives the slice.
func (l *loader) readList(name string, raw any, add func() reflect.Value) {
	list, ok := raw.([]any)
	if !ok {
		l.wrong(name, "must be written [["+name+"]], once for each")
		return
	}
	var all reflect.Value
	for range list { // keys point into the slice, which must not move any more
		all = add()
	}
	for i, one := range list {
		section := fmt.Sprintf("%s[%d]", name, i)
		keys := appendKeys(nil, section, all.Index(i), nil)
		for j := range keys {
			keys[j].env = "" // there is no name that stays: see nameTrunks
		}
		l.keys = append(l.keys, keys...)
		table, ok := one.(map[string]any)
		if !ok {
			l.wrong(name, "must be written [["+name+"]], once for each")
			return
		}
		l.readTable(section, table)
	}
}

// nameTrunks gives every trunk's password its variable,
// PARLEY_TRUNK_NAME_PASSWORD, and sees that it is one trunk's alone.
func (l *loader) nameTrunks() {
	taken := map[string]string{}
	for i := range l.config.Trunk {
		name := l.config.Trunk[i].Name
		env := "PARLEY_TRUNK_" + variable(name) + "_PASSWORD"
		switch other, ok := taken[env]; {
		case ok && name != "" && other == name:
			l.wrong(trunkSection(i)+".name", fmt.Sprintf("%q is the name of another trunk too", name))
			continue
		case ok && name != "":
			l.wrong(trunkSection(i)+".name", fmt.Sprintf("%q is too much like %q: both have the variable %s", name, other, env))
			continue
		}
		taken[env] = name
		for j := range l.keys {
			if l.keys[j].path() == trunkSection(i)+".password" {
				l.keys[j].env = env
			}
		}
	}
}

// variable is a name as part of an environment variable's.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return '_'
		}
		return unicode.ToUpper(r)
	}, name)
}

// validateTrunks asks the room about each trunk.
func (l *loader) validateTrunks() {
	for i, t := range l.config.Trunk {
		l.validateTrunk(trunkSection(i), t)
	}
	l.validateSources()
	if len(l.config.Trunk) > 0 && l.config.Auth.Required == sip.RequireAlways {
		l.warn("auth.required", `"always" asks trunks for passwords too: calls of trunks that cannot answer are refused`)
	}
}

func (l *loader) validateTrunk(section string, t Trunk) {
	dials := t.Register || len(t.Trunk.Hosts) > 0
	for _, err := range leaves(t.dials(l.config.TLS.TLS).Validate()) {
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "sip: trunk."), "tls: ")
		if strings.HasPrefix(text, "hosts: ") && !dials {
			continue // it only sends us calls
		}
		l.room(section, errors.New(text))
	}
	if t.Register && t.User == "" && !l.complained(section+".user") {
		l.wrong(section+".user", "must be set: who is registered; or register = false, for a trunk that knows us by our address")
	}
	if !dials && len(t.Sources)+len(t.Certificates) == 0 {
		l.wrong(section, "nothing says how calls come or go: give it sources, certificates or hosts")
	}
	udp := slices.ContainsFunc(l.config.SIP.Listen, func(s string) bool { return strings.HasPrefix(s, "udp://") })
	if dials && t.Transport == "udp" && !udp {
		l.wrong(section+".transport", "udp needs a udp:// address in sip.listen")
	}
	l.codecs(section+".codecs", t.Codecs, l.config.Call.Codecs)
	if err := identity.ValidateRegion(t.Region); err != nil {
		l.room(section, err)
	}
	l.choice(section+".srtp", t.SRTP, []string{srtpOff, srtpOptional, srtpRequired})
	if t.SRTP == srtpRequired && t.Transport != "tls" && dials {
		l.warn(section+".srtp", fmt.Sprintf("over transport %q whoever reads the signalling reads the keys of the sound too", t.Transport))
	}
	if t.MaxCalls < 0 || t.CallsPerSecond < 0 {
		name := map[bool]string{true: "max_calls", false: "calls_per_second"}[t.MaxCalls < 0]
		l.wrong(section+"."+name, "must not be negative; 0 is no limit")
	}
	if limit := l.config.Call.MaxCalls; t.MaxCalls > limit {
		l.warn(section+".max_calls", fmt.Sprintf("%d, of which call.max_calls lets %d be up", t.MaxCalls, limit))
	}
	l.validateOutbound(section, t.Outbound)
	if guarded := len(t.Allow)+len(t.Deny)+len(t.AllowHosts)+len(t.CallerIDs) > 0 || t.International; guarded && !dials {
		l.wrong(section+".hosts", "must be set: there are rules for calls through this trunk")
	}
}

// validateTransfer checks the guardrails of calls without a trunk.
func (l *loader) validateTransfer() {
	t := l.config.Transfer
	l.validateOutbound("transfer", t.Outbound)
	if err := identity.ValidateRegion(t.Region); err != nil {
		l.room("transfer", err)
	}
	if strings.ContainsAny(t.Domain, " @/<>;?") {
		l.wrong("transfer.domain", fmt.Sprintf("%q is no host", t.Domain))
	}
	if none := len(t.Allow)+len(t.AllowHosts) == 0; none && (len(t.Deny) > 0 || t.International || t.Domain != "" || t.ReferHeaders) {
		l.warn("transfer", "without allow or allow_hosts calls that come by no trunk are sent nowhere")
	}
}

// validateOutbound checks guardrails.
func (l *loader) validateOutbound(section string, t call.Outbound) {
	for name, list := range map[string][]string{"allow": t.Allow, "deny": t.Deny} {
		for _, prefix := range list {
			switch rest := strings.TrimPrefix(prefix, "+"); {
			case len(rest) > 1 && strings.HasSuffix(rest, "*") && strings.Trim(rest[:len(rest)-1], "0123456789") == "":
				l.wrong(section+"."+name, fmt.Sprintf("%q, must be %q: it is the beginning of a number already, and the star is a key", prefix, strings.TrimSuffix(prefix, "*")))
				continue
			case rest == "" || strings.Trim(rest, "0123456789*#") != "":
				l.wrong(section+"."+name, fmt.Sprintf(`%q is not the beginning of a number, such as "+1415" or "2"`, prefix))
			}
			if name == "allow" && slices.Contains(t.Deny, prefix) {
				l.wrong(section+".allow", fmt.Sprintf("%q is denied too, and deny wins", prefix))
			}
		}
	}
	if t.MaxPerCall < 1 || t.MaxPerHour < 1 {
		name := map[bool]string{true: "max_per_call", false: "max_per_hour"}[t.MaxPerCall < 1]
		l.wrong(section+"."+name, "must be at least 1; without allow agents may call nobody")
	}
}

// validateSources sees that each source is one trunk's. Where ranges overlap the
// smaller one's trunk has the call.
func (l *loader) validateSources() {
	type owner struct {
		trunk  int
		prefix netip.Prefix
	}
	var seen []owner
	certificates := map[string]int{}
	for i, t := range l.config.Trunk {
		path := trunkSection(i) + ".sources"
		for _, s := range t.Sources {
			p, err := parseSource(s)
			if err != nil {
				l.wrong(path, err.Error())
				continue
			}
			for _, o := range seen {
				other := l.config.Trunk[o.trunk].Name
				switch {
				case o.trunk == i || !o.prefix.Overlaps(p):
				case o.prefix == p:
					l.wrong(path, fmt.Sprintf("%s is a source of trunk %q already", p, other))
				default:
					l.warn(path, fmt.Sprintf("%s and %s of trunk %q overlap: the smaller one decides", p, o.prefix, other))
				}
			}
			seen = append(seen, owner{i, p})
		}
		for _, name := range t.Certificates {
			name = strings.ToLower(name)
			if other, ok := certificates[name]; ok && other != i {
				l.wrong(trunkSection(i)+".certificates", fmt.Sprintf("%q is a certificate of trunk %q already", name, l.config.Trunk[other].Name))
			}
			certificates[name] = i
		}
		if len(t.Certificates) > 0 && l.config.TLS.ClientAuth == sip.ClientAuthNone {
			l.wrong(trunkSection(i)+".certificates", `nobody is asked for one: set tls.client_auth to "optional"`)
		}
	}
}

// parseSource reads an address or a range of them.
func parseSource(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf(`%q is no address and no range such as "192.0.2.0/24"`, s)
	}
	if p.Masked() != p {
		return netip.Prefix{}, fmt.Errorf("%q has bits beyond its length: %s", s, p.Masked())
	}
	return p, nil
}

// complained says that there is a mistake at path or below.
func (l *loader) complained(path string) bool {
	return slices.ContainsFunc(l.mistakes, func(m Mistake) bool {
		return m.Path == path || strings.HasPrefix(m.Path, path+".")
	})
}
