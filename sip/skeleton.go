package sip

import (
	"context"
	"errors"
	"net/netip"

	"go.uber.org/zap"
)

var errSkeleton = errors.New("sip: not there yet")

// Server is a SIP user agent: it owns the sockets, transactions and dialogs.
type Server struct{}

// Handler takes one new INVITE, on a goroutine of its own. The INVITE is past
// validation and 100 was sent. A panic is answered 500, and so is a return
// without a final response.
type Handler func(ctx context.Context, inv *Invite)

// Bound is an address that was bound.
type Bound struct {
	Network string
	Addr    netip.AddrPort
}

// Stats are counters since NewServer, and gauges.
type Stats struct {
	Requests     map[string]uint64
	Responses    map[int]uint64
	Malformed    uint64
	Dropped      uint64
	Dialogs      int
	Transactions int
	Connections  int
}

func NewServer(cfg Config, log *zap.Logger) (*Server, error) { return nil, errSkeleton }
func (s *Server) Listen() error                              { return errSkeleton }
func (s *Server) Addrs() []Bound                             { return nil }
func (s *Server) Serve(ctx context.Context, h Handler) error { return errSkeleton }
func (s *Server) Drain(on bool)                              {}
func (s *Server) Stats() Stats                               { return Stats{} }

// Invite is one new INVITE.
type Invite struct{}

func (i *Invite) ID() string                                           { return "" }
func (i *Invite) CallID() string                                       { return "" }
func (i *Invite) From() Address                                        { return Address{} }
func (i *Invite) To() Address                                          { return Address{} }
func (i *Invite) RequestURI() URI                                      { return URI{} }
func (i *Invite) Header(name string) []string                          { return nil }
func (i *Invite) Source() netip.AddrPort                               { return netip.AddrPort{} }
func (i *Invite) Transport() string                                    { return "" }
func (i *Invite) Local() netip.AddrPort                                { return netip.AddrPort{} }
func (i *Invite) Offer() []byte                                        { return nil }
func (i *Invite) Context() context.Context                             { return nil }
func (i *Invite) Ring() error                                          { return errSkeleton }
func (i *Invite) Answer(sdp []byte, dh DialogHandler) (*Dialog, error) { return nil, errSkeleton }
func (i *Invite) Reject(r *RejectError) error                          { return errSkeleton }

// DialogHandler is told what the peer asks inside a dialog.
type DialogHandler interface {
	Offer(sdp []byte) (answer []byte, rej *RejectError)
	MakeOffer() []byte
	Answer(sdp []byte) error
	Info(contentType string, body []byte) (handled bool)
}

// Dialog is a call that was answered.
type Dialog struct{}

func (d *Dialog) ID() string                                   { return "" }
func (d *Dialog) Context() context.Context                     { return nil }
func (d *Dialog) Confirmed() <-chan struct{}                   { return nil }
func (d *Dialog) Bye(ctx context.Context, reason Reason) error { return errSkeleton }

// Address is a name-addr or addr-spec (RFC 3261 section 20.10).
type Address struct {
	Name string
	URI  URI
	Tag  string
	Raw  string
}

// URI is a sip:, sips: or tel: URI, taken apart and unescaped.
type URI struct {
	Scheme, User, Host string
	Port               int
	Params             map[string]string
	UserParams         map[string]string
}

func ParseAddress(s string) (Address, error)   { return Address{}, errSkeleton }
func ParseAddresses(values []string) []Address { return nil }
func ParseURI(s string) (URI, error)           { return URI{}, errSkeleton }
func isHostname(s string) bool                 { return s != "" }
