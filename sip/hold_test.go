package sip

import "testing"

// A transaction lives on for 32 s after the answer, and a call for hours: neither holds
// the INVITE as it came.
func TestNothingHoldsAnAnsweredInvite(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	c := p.dial(newInvite())
	d := wait(t, h.calls, "the call")
	c.ack(1, "")
	wait(t, d.Confirmed(), "the ACK")
	b.txs.mu.Lock()
	defer b.txs.mu.Unlock()
	if len(b.txs.byKey) == 0 {
		t.Fatal("no transaction is left to look at")
	}
	for _, tx := range b.txs.byKey {
		tx.mu.Lock()
		if tx.onCancel != nil {
			t.Error("the transaction can still be cancelled, and holds the INVITE")
		}
		tx.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.invite != nil || d.prack != nil {
		t.Error("the dialog holds the INVITE")
	}
}
