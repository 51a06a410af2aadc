package call

import "testing"

func TestMaskedURI(t *testing.T) {
	for text, want := range map[string]string{
		"<sip:+12025550143@example.com;user=phone>": "sip:+120******43@example.com",
		`"Ann <3" <sip:+12025550143@example.com>`:   "sip:+120******43@example.com",
		"Ann <sips:ann@example.com>;cid=x":          "sips:***@example.com",
		"sip:+12025550143@example.com":              "sip:+120******43@example.com",
		"tel:+12025550143":                          "tel:+120******43",
		"<sip:example.com>":                         "sip:exam*****om",
		"nothing of the kind":                       "noth*************nd",
		"":                                          "",
	} {
		if got := maskedURI(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
