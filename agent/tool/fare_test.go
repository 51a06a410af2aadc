package tool_test

import (
	"strings"
	"testing"

	"parley/agent/tool"
)

// TestNumbersByCountry: a policy that names a country does not reach what costs more than
// a call to that country.
func TestNumbersByCountry(t *testing.T) {
	for _, c := range []struct {
		allow   string // prefixes
		numbers string
		want    bool
	}{
		// Germany: geographic, mobile, freephone, national; then premium (0900, 0137),
		// shared cost (0180), personal (0700), inquiries (118).
		{"+49", "+4930123456 +498912345678 +4915112345678 +498001234567 +4932123456789", true},
		{"+49", "+499001123456 +491371234567 +491801234567 +49180512345678 +4970012345678 +4911833", false},
		{"+491", "+4915112345678", true},
		{"+491 +4990", "+491801234567 +491371234567 +499001123456", false},
		{"+49180", "+491801234567", true},
		{"+49900", "+499001123456", true},
		{"+49 +491801234567", "+491801234567", true}, // this very number
		{"+49 +491801234567", "+491801234568", false},
		// Digits behind a premium number change nothing for a network that drops them.
		{"+49", "+49900112345678 +49180512345678901 +493012345678901234", false},

		// United Kingdom: 09, 0843, 0871, 070, 03 of companies; islands with the same code.
		{"+44", "+442079460958 +447400123456 +448081570123", true},
		{"+44", "+449061234567 +448431234567 +448712345678 +447012345678 +443001234567 +447624312345 +441481234567", false},
		{"+4484 +4490", "+448431234567 +449061234567", false},
		{"+44843 +44906 +441481", "+448431234567 +449061234567 +441481234567", true},

		// North America: 900 and 976, personal 500, and islands: 809 Dominican Republic,
		// 876 Jamaica, 787 Puerto Rico, 242 Bahamas.
		{"+1", "+12025550123 +14165550123 +18005550123", true},
		{"+1", "+19002345678 +19762345678 +15005550123 +18095550123 +18765550123 +17875550123 +12423225555 +190023456789", false},
		{"+18 +19", "+18095550123 +19002345678", false},
		{"+1809", "+18095550123", true},
		{"+1 +1900", "+19002345678", false}, // a tie with what is never meant
		{"+1 +19002", "+19002345678", true},

		// France: 089 premium, 082 shared cost, 118 inquiries.
		{"+33", "+33123456789 +33612345678 +33800123456 +33912345678", true},
		{"+33", "+33899123456 +33891234567 +33825123456 +33118712", false},
		{"+338", "+33800123456", true},
		{"+338 +3389", "+33899123456 +33825123456", false},
		{"+33899", "+33899123456", true},

		// Italy: 899, 892 premium, 199 universal, and the Vatican under the same code.
		{"+39", "+390612345678 +393123456789 +39800123456", true},
		{"+39", "+39899123456 +39892123456 +39199123456 +390669812345", false},
		{"+39 +39899", "+39899123456", true},

		// Satellites, international networks and premium; codes that are shared.
		{"+8 +9", "+881612345678 +88216123456 +97912345678 +870773111632", false},
		{"+881 +8816", "+881612345678", true},
		{"+7", "+79161234567", true},
		{"+7", "+77011234567", false},
		{"+7701", "+77011234567", true},
	} {
		p := &phone{}
		r := callTools(t, p, tool.CallPolicy{Numbers: strings.Fields(c.allow), Transfers: 1000})
		one, _ := r.Lookup("transfer_to_number")
		for _, to := range strings.Fields(c.numbers) {
			_, err := one.Invoke(t.Context(), map[string]any{"number": to})
			if (err == nil) != c.want {
				t.Errorf("%s under %q: %v, want it allowed: %v", to, c.allow, err, c.want)
			}
			if _, err := one.(tool.Prompter).ConfirmationPrompt(t.Context(), map[string]any{"number": to}); (err == nil) != c.want {
				t.Errorf("%s under %q: the caller is asked: %v, want %v", to, c.allow, err == nil, c.want)
			}
		}
	}
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"+4930123456", "+49900", "+", "+1900 234", "+88161", "４９", "+49301234567890123"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, to string) {
		p := &phone{}
		tools, err := tool.CallTools(tool.NewLine(p, func() {}), tool.CallPolicy{Numbers: []string{"+49", "+8", "+9"}, Transfers: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range tools {
			if one.Name() != "transfer_to_number" {
				continue
			}
			_, err := one.Invoke(t.Context(), map[string]any{"number": to})
			if err == nil && (strings.HasPrefix(to, "+49900") || strings.HasPrefix(to, "+49180") || strings.HasPrefix(to, "+881") || strings.Trim(to, "+0123456789") != "") {
				t.Errorf("transferred to %q", to)
			}
		}
	})
}
