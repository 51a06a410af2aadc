//go:build !race

package cascade

const raceDetector = false
