package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// findWeights is the file with silero's weights: the named one, or where
// deploy/weights/fetch-silero.sh puts it, seen from the working folder and from
// the program.
func findWeights(named string) (string, error) {
	if named != "" {
		_, err := os.Stat(named)
		return named, err
	}
	const file = "silero_vad.onnx"
	places := []string{filepath.Join(".cache", file)}
	if cache, err := os.UserCacheDir(); err == nil {
		places = append(places, filepath.Join(cache, "parley", file))
	}
	if self, err := os.Executable(); err == nil {
		places = append(places, filepath.Join(filepath.Dir(self), "..", ".cache", file))
	}
	places = append(places, filepath.Join("/usr/local/share/parley", file), filepath.Join("/usr/share/parley", file))
	for _, place := range places {
		if _, err := os.Stat(place); err == nil {
			return place, nil
		}
	}
	return "", fmt.Errorf("%s is in none of %s", file, strings.Join(places, ", "))
}
