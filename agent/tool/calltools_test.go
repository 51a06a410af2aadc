package tool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/tool"
)

// phone is an agent.Control that notes what is done with the call.
type phone struct {
	agent.NoControl
	did  []string
	fail error
}

func (p *phone) Transfer(_ context.Context, t agent.Transfer) error {
	p.did = append(p.did, fmt.Sprintf("transfer %s %v", t.To, t.Attended))
	return p.fail
}

func (p *phone) SendDigits(_ context.Context, digits string) error {
	p.did = append(p.did, "digits "+digits)
	return p.fail
}

func (p *phone) Hold(context.Context) error { p.did = append(p.did, "hold"); return p.fail }

func (p *phone) Resume(context.Context) error { p.did = append(p.did, "resume"); return p.fail }

// callTools puts the tools of a call over p into a registry.
func callTools(t *testing.T, p *phone, policy tool.CallPolicy) *tool.ToolRegistry {
	t.Helper()
	var control agent.Control = p
	tools, err := tool.CallTools(tool.NewLine(control, func() { p.did = append(p.did, "hang up") }), policy)
	if err != nil {
		t.Fatal(err)
	}
	r := tool.NewRegistry()
	for _, one := range tools {
		if err := r.Register(one); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func names(r *tool.ToolRegistry) string {
	var out []string
	for _, one := range r.All() {
		out = append(out, one.Name())
	}
	return strings.Join(out, " ")
}

func TestCallToolsByPolicy(t *testing.T) {
	for _, c := range []struct {
		policy tool.CallPolicy
		want   string
	}{
		{tool.CallPolicy{}, "hang_up"},
		{tool.CallPolicy{NoHangUp: true}, ""},
		{tool.CallPolicy{Hold: true}, "hang_up hold_call resume_call"},
		{tool.CallPolicy{Digits: 10}, "hang_up send_digits"},
		{tool.CallPolicy{Destinations: []tool.Destination{{Name: "a", To: "1"}, {Name: "b", To: "2", Confirm: true}}}, "hang_up transfer_call transfer_call_confirmed"},
		{tool.CallPolicy{Numbers: []string{"+49"}}, "hang_up transfer_to_number"},
	} {
		if got := names(callTools(t, &phone{}, c.policy)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.policy, got, c.want)
		}
	}
	for _, bad := range []tool.CallPolicy{
		{Numbers: []string{"49"}}, {DenyNumbers: []string{"+49x"}}, {Destinations: []tool.Destination{{Name: "a"}}},
		{Destinations: []tool.Destination{{To: "1"}}}, {Destinations: []tool.Destination{{Name: "a", To: "1"}, {Name: "a", To: "2"}}},
		{Destinations: []tool.Destination{{Name: "a", To: "1\r\nRoute: x"}}},
	} {
		if _, err := tool.CallTools(nil, bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestFraud: what a caller can make a model say does not reach the line (BR-159).
func TestFraud(t *testing.T) {
	policy := tool.CallPolicy{
		Destinations: []tool.Destination{{Name: "sales", To: "sip:sales@pbx"}},
		Numbers:      []string{"+1", "+4930", "+7", "+8", "+9"}, DenyNumbers: []string{"+4930666", "+7"},
		Transfers: 1000, Digits: 1000,
	}
	p := &phone{}
	r := callTools(t, p, policy)
	number, ok := r.Lookup("transfer_to_number")
	if !ok {
		t.Fatal("no transfer_to_number")
	}
	for _, to := range []string{
		"sip:x@evil.example", "tel:+881123456789", "sip:+1555@host?Replaces=..", "+15550100\r\nRoute: <sip:evil>", "+15550100;phone-context=x",
		"+8811234567", "+19005550100", "+97912345678", "+4930666123", "+79161234567", "015550100", "", "+", "+1555", "+155501001234567890", "*72", "+1555010 0", "＋15550100",
	} {
		// The tool itself refuses, whatever stands before it.
		if _, err := number.Invoke(t.Context(), map[string]any{"number": to}); err == nil {
			t.Errorf("transferred to %q", to)
		}
	}
	for _, to := range []string{"+15550199900", "sip:x@evil.example", "sip:sales@pbx", "Sales", "sales\r\n", ""} {
		if _, err := r.Call(t.Context(), "transfer_call", map[string]any{"destination": to}); err == nil {
			t.Errorf("transferred to %q", to)
		}
	}
	for _, digits := range []string{"*72", "**21*0190#", "A", "12w34", "1\r\n", "", strings.Repeat("1", 33), "１"} {
		if _, err := r.Call(t.Context(), "send_digits", map[string]any{"digits": digits}); err == nil {
			t.Errorf("pressed %q", digits)
		}
	}
	if len(p.did) != 0 {
		t.Fatalf("done: %v", p.did)
	}
	if _, err := r.Call(t.Context(), "transfer_to_number", map[string]any{"number": "+12025550100"}); err == nil {
		t.Error("to a number without the caller's yes")
	}
	for _, to := range []string{"+12025550100", "+4930123456"} {
		if _, err := number.Invoke(t.Context(), map[string]any{"number": to}); err != nil {
			t.Errorf("%s: %v", to, err)
		}
	}
	if _, err := r.Call(t.Context(), "transfer_call", map[string]any{"destination": "sales"}); err != nil {
		t.Error(err)
	}
	want := []string{"transfer +12025550100 false", "transfer +4930123456 false", "transfer sip:sales@pbx false"}
	if !slices.Equal(p.did, want) {
		t.Errorf("%v, want %v", p.did, want)
	}
	// The model never learns where a name leads.
	for _, d := range r.Definitions() {
		if strings.Contains(fmt.Sprint(d), "pbx") {
			t.Errorf("%s tells the target", d.Name)
		}
	}
}

func TestTransfersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quota := tool.NewQuota(3)
		policy := tool.CallPolicy{Destinations: []tool.Destination{{Name: "a", To: "1", Attended: true}}, Numbers: []string{"+49"}, Transfers: 2, Quota: quota}
		transfer := func(r *tool.ToolRegistry) string {
			_, err := r.Call(t.Context(), "transfer_call", map[string]any{"destination": "a"})
			return fmt.Sprint(err)
		}
		busy := &phone{fail: errors.New("486 Busy\r\nHere \x1b[31m" + strings.Repeat("x", 500))}
		r := callTools(t, busy, policy)
		for i, want := range []string{"transfer failed: 486 Busy Here", "transfer failed", "no more transfers in this call", "no more transfers in this call"} {
			if got := transfer(r); !strings.Contains(got, want) || strings.ContainsAny(got, "\r\n\x1b") || len(got) > 200 {
				t.Errorf("%d: %q, want %q", i, got, want)
			}
		}
		// Probing uses the call's share up, too.
		r = callTools(t, &phone{}, policy)
		number, _ := r.Lookup("transfer_to_number")
		for range 2 {
			number.Invoke(t.Context(), map[string]any{"number": "+19005550100"})
		}
		if got := transfer(r); !strings.Contains(got, "in this call") {
			t.Error(got)
		}
		// And over all calls no more than the hour's.
		p := &phone{}
		for i, want := range []string{"<nil>", "at this time", "<nil>"} {
			if i == 2 {
				time.Sleep(time.Hour)
			}
			if got := transfer(callTools(t, p, policy)); !strings.Contains(got, want) {
				t.Errorf("%d: %s, want %s", i, got, want)
			}
		}
		if !slices.Equal(p.did, []string{"transfer 1 true", "transfer 1 true"}) {
			t.Error(p.did)
		}
	})
}

func TestDigitsAndHold(t *testing.T) {
	p := &phone{}
	r := callTools(t, p, tool.CallPolicy{Digits: 6, StarKeys: true, Hold: true})
	for _, c := range []struct {
		name, digits string
		ok           bool
	}{
		{"send_digits", "1,2#", true}, {"send_digits", "*A", true}, {"send_digits", "12", false}, {"send_digits", "7", true}, {"send_digits", "8", false},
		{"hold_call", "", true}, {"resume_call", "", true}, {"hang_up", "", true},
	} {
		args := map[string]any{}
		if c.digits != "" {
			args["digits"] = c.digits
		}
		if _, err := r.Call(t.Context(), c.name, args); (err == nil) != c.ok {
			t.Errorf("%s %s: %v", c.name, c.digits, err)
		}
	}
	if got := strings.Join(p.did, "; "); got != "digits 1,2#; digits *A; digits 7; hold; resume; hang up" {
		t.Error(got)
	}
	p.fail = agent.ErrClosed
	if _, err := r.Call(t.Context(), "hold_call", nil); err == nil || !strings.Contains(err.Error(), "over") {
		t.Error(err)
	}
}

// TestConfirmedTransfer: the question names what is confirmed, and numbers that are not
// allowed are refused before the caller is asked.
func TestConfirmedTransfer(t *testing.T) {
	p := &phone{}
	r := callTools(t, p, tool.CallPolicy{Destinations: []tool.Destination{{Name: "the doctor on duty", To: "116117", Confirm: true}}, Numbers: []string{"+49"}})
	prompt := func(name string, args map[string]any) (string, error) {
		one, _ := r.Lookup(name)
		return one.(tool.Prompter).ConfirmationPrompt(t.Context(), args)
	}
	if got, err := prompt("transfer_call_confirmed", map[string]any{"destination": "the doctor on duty"}); err != nil || !strings.Contains(got, "the doctor on duty") {
		t.Error(got, err)
	}
	if got, err := prompt("transfer_to_number", map[string]any{"number": "+49301"}); err == nil {
		t.Error("asks for a number that is too short:", got)
	}
	if got, err := prompt("transfer_to_number", map[string]any{"number": "+49301234"}); err != nil || !strings.Contains(got, "+ 4 9 3 0") {
		t.Error(got, err)
	}
	if got, err := prompt("transfer_to_number", map[string]any{"number": "+881301234"}); err == nil {
		t.Error("asks for", got)
	}
}

func TestFarewell(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(f *tool.Farewell)
		want time.Duration // after which the call ended; 0: it did not
	}{
		{"nothing to hear", func(f *tool.Farewell) { f.Arm() }, 500 * time.Millisecond},
		{"after the last words", func(f *tool.Farewell) {
			f.Busy(true)
			f.Arm()
			time.Sleep(3 * time.Second)
			f.Busy(false)
		}, 3500 * time.Millisecond},
		{"words that come after", func(f *tool.Farewell) {
			f.Arm()
			time.Sleep(400 * time.Millisecond)
			f.Busy(true)
			time.Sleep(2 * time.Second)
			f.Busy(false)
		}, 2900 * time.Millisecond},
		{"the caller speaks", func(f *tool.Farewell) {
			f.Busy(true)
			f.Arm()
			time.Sleep(time.Second)
			if !f.CallerSpoke() {
				panic("no goodbye")
			}
			f.Busy(false)
		}, 0},
		{"the caller spoke, and then again goodbye", func(f *tool.Farewell) {
			f.Arm()
			f.CallerSpoke()
			time.Sleep(time.Second)
			f.Arm()
			f.Arm()
		}, 1500 * time.Millisecond},
		{"not armed", func(f *tool.Farewell) { f.Busy(true); f.Busy(false) }, 0},
		{"an endless goodbye", func(f *tool.Farewell) { f.Busy(true); f.Arm() }, 30 * time.Second},
		{"closed", func(f *tool.Farewell) { f.Arm(); f.Close(); f.Arm() }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var ended []time.Duration
				f := tool.NewFarewell(tool.FarewellConfig{HangUp: func() { ended = append(ended, time.Since(began)) }})
				c.do(f)
				time.Sleep(time.Hour)
				synctest.Wait()
				if want := []time.Duration{c.want}; c.want == 0 && len(ended) != 0 || c.want != 0 && !slices.Equal(ended, want) {
					t.Errorf("%v, want %v", ended, c.want)
				}
			})
		})
	}
}
