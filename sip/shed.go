package sip

import "maps"

// roomy is how many entries a map must have had before it is worth the work to give
// its room back.
const roomy = 4096

// tide is the most entries that a map has had since it was last made anew.
type tide int

// ebb deletes key from m and returns the map to use from now on: m, or once few are
// left of many, a new one with those. Go's maps keep the room of their fullest for
// ever, and a gateway that had an hour of many calls shall not pay for it for weeks.
// What is copied is an eighth of what was put in, so that a deletion costs the same
// on average.
func ebb[K comparable, V any](m map[K]V, key K, most *tide) map[K]V {
	*most = max(*most, tide(len(m)))
	delete(m, key)
	if *most < roomy || tide(len(m)) > *most/8 {
		return m
	}
	*most = tide(len(m))
	fewer := make(map[K]V, len(m))
	maps.Copy(fewer, m)
	return fewer
}
