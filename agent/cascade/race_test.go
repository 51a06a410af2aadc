//go:build race

package cascade

const raceDetector = true
