package tool

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nyaruka/phonenumbers"
)

// explicitDigits is how many digits behind the country code make a prefix one that means
// a range of numbers and no country: no premium range begins with fewer.
const explicitDigits = 3

// costly are ranges that no transfer goes to unless a longer prefix is allowed:
// satellites, international networks and premium rates, North American premium (ITU-T
// E.164 section 6).
func costly() []string {
	return []string{"+870", "+878", "+881", "+882", "+883", "+888", "+979", "+1900", "+1976"}
}

// allows holds a number against the lists. A prefix that means a country allows only
// what an ordinary call there costs.
func (p CallPolicy) allows(to string) bool {
	if !number().MatchString(to) {
		return false
	}
	longest := func(prefixes []string) int {
		n := 0
		for _, p := range prefixes {
			if strings.HasPrefix(to, p) {
				n = max(n, len(p))
			}
		}
		return n
	}
	fits := longest(p.Numbers)
	if fits <= max(longest(p.DenyNumbers), longest(costly())) {
		return false
	}
	n, err := phonenumbers.Parse(to, "")
	if err != nil {
		return false
	}
	country := len("+" + strconv.Itoa(int(n.GetCountryCode())))
	return fits == len(to) || fits >= country+explicitDigits || ordinary(n)
}

// ordinary says whether a number is one that a country's name alone stands for: it
// exists, in the country that the code is known for, and costs what calls there cost.
// Numbers that exist nowhere are refused as well: digits behind those of a premium number
// make it one of no kind, and are dropped by networks.
func ordinary(n *phonenumbers.PhoneNumber) bool {
	switch phonenumbers.GetNumberType(n) {
	case phonenumbers.FIXED_LINE, phonenumbers.MOBILE, phonenumbers.FIXED_LINE_OR_MOBILE, phonenumbers.TOLL_FREE, phonenumbers.VOIP:
	default: // premium, shared cost, personal, of companies, pagers, voicemail, unknown
		return false
	}
	region := phonenumbers.GetRegionCodeForNumber(n)
	// The code +1 is that of islands, too, which are dear to call and known for fraud.
	return slices.Contains(regions(int(n.GetCountryCode())), region)
}

// regions are the countries that a country code is known for, ISO 3166.
func regions(code int) []string {
	if code == 1 {
		return []string{"US", "CA"}
	}
	return []string{phonenumbers.GetRegionCodeForCountryCode(code)}
}
