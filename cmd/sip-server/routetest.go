package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"parley/call"
	"parley/config"
	"parley/identity"
	"parley/sip"
)

// The exit statuses of route-test beside 0, the call would be taken, and 1, the
// configuration or the question is wrong.
const (
	exitRefused exit = 3 // not let in, or its token does not count
	exitNoRoute exit = 4 // let in, and no rule takes it
)

// routeTestCmd says what would become of a call.
type routeTestCmd struct {
	configFlag
	To     string   `required:"" help:"Who is called: a number, a name or a URI."`
	From   string   `help:"Who calls: a number, or a URI with or without a name."`
	Trunk  string   `help:"The trunk that the call comes by." xor:"way"`
	Source string   `help:"The IP address that the call comes from." xor:"way"`
	Header []string `sep:"none" placeholder:"NAME:VALUE" help:"A header of the call that tells of its caller, such as \"P-Asserted-Identity: <sip:+12025550100@h>\"; may be repeated."`
}

// Run prints how the call is let in, who calls, what each rule says of it, and what
// becomes of it.
func (c routeTestCmd) Run(s *stage) error {
	cfg, err := config.Load(c.Config, s.environ)
	if err != nil {
		fmt.Fprintln(s.out, err)
		return errReported
	}
	t := routeTest{cfg: cfg, cmd: c, w: tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)}
	err = t.run()
	if flushed := t.w.Flush(); flushed != nil {
		return flushed
	}
	return err
}

// routeTest is one question at work.
type routeTest struct {
	cfg   *config.Config
	cmd   routeTestCmd
	w     *tabwriter.Writer
	trunk *call.Trunk // that the call comes by; nil: none
}

func (t *routeTest) say(what, format string, a ...any) {
	fmt.Fprintf(t.w, "%s\t%s\n", what, fmt.Sprintf(format, a...))
}

func (t *routeTest) run() error {
	request, err := t.request()
	if err != nil {
		return err
	}
	t.say("called", "%s", request.URI)
	if err := t.admit(); err != nil {
		return err
	}
	if t.trunk != nil {
		request.Trunk = t.trunk.Name
	}
	if request.Caller, err = t.caller(); err != nil {
		return err
	}
	if err := t.route(request); err != nil {
		return err
	}
	t.limits()
	return nil
}

// request is what the INVITE would ask for.
func (t *routeTest) request() (call.Request, error) {
	to := t.cmd.To
	if !strings.Contains(to, ":") && !strings.Contains(to, "@") {
		to = "sip:" + strings.ReplaceAll(to, " ", "") + "@" + t.host()
	} else if !strings.Contains(strings.SplitN(to, "@", 2)[0], ":") {
		to = "sip:" + to
	}
	u, err := sip.ParseURI(to)
	if err != nil {
		return call.Request{}, fmt.Errorf("--to: %w", err)
	}
	return call.Request{Called: identity.CleanText(u.User, 64), URI: identity.CleanText(to, 256), Direction: "inbound"}, nil
}

// host is where calls arrive at when the question does not say.
func (t *routeTest) host() string {
	if a := t.cfg.SIP.Advertise; a != "" {
		return a
	}
	return "localhost"
}

// admit says whether and how the call is let in.
func (t *routeTest) admit() error {
	trunks := t.cfg.Trunks()
	find := func(name string) {
		if i := slices.IndexFunc(trunks, func(one call.Trunk) bool { return one.Name == name }); i >= 0 {
			t.trunk = &trunks[i]
		}
	}
	if t.cmd.Trunk != "" {
		if find(t.cmd.Trunk); t.trunk == nil {
			return fmt.Errorf("--trunk: there is no trunk %q", t.cmd.Trunk)
		}
		if t.cfg.Auth.Required == sip.RequireAlways {
			t.say("let in", "by trunk %q, once it has proved a password: auth.required is %q", t.cmd.Trunk, sip.RequireAlways)
			return nil
		}
		t.say("let in", "by trunk %q: %s", t.cmd.Trunk, t.ways())
		return nil
	}
	source := netip.MustParseAddr("127.0.0.1")
	if t.cmd.Source != "" {
		var err error
		if source, err = netip.ParseAddr(t.cmd.Source); err != nil {
			return fmt.Errorf("--source: %q is no IP address", t.cmd.Source)
		}
	}
	sources, err := t.cfg.Sources()
	if err != nil {
		return err
	}
	gate, err := sip.NewGate(t.cfg.Auth.Access, t.cfg.Passwords(), sources)
	if err != nil {
		return err
	}
	switch a, rej := gate.Foresee(source); {
	case rej != nil && rej.Code == 401:
		t.say("let in", "once a user of auth.users has proved a password: it is asked with 401 (rule %s)", rej.Rule)
	case rej != nil && t.cfg.Auth.Unknown == sip.UnknownDrop:
		t.say("refused", "%s gets no answer, by rule %s: auth.unknown is %q", source, rej.Rule, sip.UnknownDrop)
		return exitRefused
	case rej != nil:
		t.say("refused", "%d by rule %s: %s", rej.Code, rej.Rule, rej.Text)
		return exitRefused
	case a.Trunk != "":
		find(a.Trunk)
		t.say("let in", "%s is a source of trunk %q", source, a.Trunk)
	case a.By == "inside":
		t.say("let in", "%s is inside, by no trunk", source)
	default:
		t.say("let in", "everybody is: auth.required is %q", t.cfg.Auth.Required)
	}
	return nil
}

// ways are how the calls of the asked trunk are known.
func (t *routeTest) ways() string {
	var ways []string
	for _, one := range t.cfg.Trunk {
		if one.Name != t.cmd.Trunk {
			continue
		}
		if one.Register {
			ways = append(ways, "its registration, while it stands")
		}
		if len(one.Sources) > 0 {
			ways = append(ways, "sources "+strings.Join(one.Sources, ", "))
		}
		if len(one.Certificates) > 0 {
			ways = append(ways, "certificates "+strings.Join(one.Certificates, ", "))
		}
	}
	if len(ways) == 0 {
		return "nothing tells its calls from those of strangers; it is for calls that go out"
	}
	return strings.Join(ways, "; ")
}

// caller says who calls.
func (t *routeTest) caller() (identity.Caller, error) {
	from := t.cmd.From
	switch {
	case from == "":
		from = "<sip:anonymous@anonymous.invalid>"
	case !strings.ContainsAny(from, ":@"):
		from = "<sip:" + strings.ReplaceAll(from, " ", "") + "@" + t.host() + ">"
	case !strings.Contains(from, "<"):
		from = "<" + from + ">" // parameters are the URI's
	}
	address, err := sip.ParseAddress(from)
	if err != nil {
		return identity.Caller{}, fmt.Errorf("--from: %w", err)
	}
	headers := map[string][]string{}
	for _, h := range t.cmd.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return identity.Caller{}, fmt.Errorf("--header: %q is not NAME: VALUE", h)
		}
		name = strings.ToLower(strings.TrimSpace(name))
		headers[name] = append(headers[name], strings.TrimSpace(value))
	}
	header := func(name string) []string { return headers[strings.ToLower(name)] }
	who, err := identity.New(t.cfg.Identity)
	if err != nil {
		return identity.Caller{}, err
	}
	if token := t.cfg.TokenConfig(); token.Enabled() {
		verifier, err := identity.NewVerifier(token)
		if err != nil {
			return identity.Caller{}, t.cfg.Complain("identity.token", err)
		}
		defer verifier.Close()
		who = who.With(verifier)
	}
	source := call.CallerSource(address, header)
	source.Bearer = who.Bearer(header)
	if t.trunk != nil {
		source.Trusted, source.Region = t.trunk.TrustIdentity, t.trunk.Region
	}
	caller, err := who.Resolve(source)
	if refused, ok := errors.AsType[*identity.TokenError](err); ok {
		t.say("refused", "its token does not count, by rule %s: %s", refused.Rule, refused.Text)
		return caller, exitRefused
	}
	if err != nil {
		return caller, err
	}
	t.tell(caller)
	return caller, nil
}

// tell says who the caller is.
func (t *routeTest) tell(c identity.Caller) {
	switch {
	case c.ResourceID == "" && c.Anonymous:
		t.say("caller", "anonymous, without a resource id")
	case c.ResourceID == "" && c.Number != "":
		t.say("caller", "%s, which is not one person's: without a resource id", c.Number)
	case c.ResourceID == "":
		t.say("caller", "nobody known: what the call says is no telephone number")
	default:
		t.say("caller", "resource id %s, by %s%s", c.ResourceID, c.By, map[bool]string{true: ", verified"}[c.Verified])
	}
	if c.Name != "" {
		t.say("name", "%q", c.Name)
	}
	if c.Original != "" {
		t.say("diverted", "from %s, %s", c.Original, c.Diverted)
	}
}

// route says what each rule says, and who takes the call.
func (t *routeTest) route(q call.Request) error {
	routes, err := t.cfg.Routes()
	if err != nil {
		return err
	}
	if routes == nil {
		t.say("taken", "by agent %s: there are no routes, it takes all calls", config.DefaultAgent)
		return nil
	}
	taken := -1
	for i, v := range routes.Explain(q) {
		mark := "no"
		switch {
		case v.Takes && taken < 0:
			mark, taken = "yes", i
		case v.Takes:
			mark = "late"
		}
		t.say("route "+v.Route.Name, "%-4s %s", mark, v.Why)
	}
	if taken < 0 {
		t.say("refused", "404: no rule takes it")
		return exitNoRoute
	}
	rule := t.cfg.Route[taken]
	t.say("taken", "by agent %s, route %q", agentName(rule.Agent), rule.Name)
	return nil
}

// limits says what may refuse the call although it would be taken.
func (t *routeTest) limits() {
	t.say("limits", "503 at %d calls of all", t.cfg.Call.MaxCalls)
	if t.trunk == nil {
		return
	}
	if n := t.trunk.MaxCalls; n > 0 {
		t.say("limits", "503 at %d calls of trunk %q", n, t.trunk.Name)
	}
	if len(t.trunk.Codecs) > 0 {
		t.say("limits", "488 without one of the codecs %s", strings.Join(t.trunk.Codecs, ", "))
	}
	if t.trunk.SRTP == "required" {
		t.say("limits", "488 without encrypted sound")
	}
}
