package sip

import "net/netip"

// Foresee is what Admit would say of a first call over UDP from an address, by no
// registration and without a password.
func (g *Gate) Foresee(source netip.Addr) (Admission, *RejectError) {
	return g.judge(&message{flow: &flow{remote: netip.AddrPortFrom(source, 5060)}}, nil)
}
