package rtp

// pairs is how many even ports with the odd one above lie in min-max.
func pairs(min, max uint16) int {
	first := int(min) + int(min)&1
	if n := (int(max) - first + 1) / 2; min > 0 && n > 0 {
		return n
	}
	return 0
}
