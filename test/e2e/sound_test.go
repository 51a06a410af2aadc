package e2e

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"parley/test/phone"
)

// recordings is where Debian puts human speech at 8 kHz, or "".
func recordings() string {
	for _, dir := range []string{"/usr/share/asterisk/sounds/en", "/usr/share/asterisk/sounds/en_US_f_Allison"} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

// human is the recording of that name, or noise in the rhythm of speech where no
// recordings are installed.
func human(t *testing.T, name string) []int16 {
	t.Helper()
	dir := recordings()
	if dir == "" {
		return speechLike(900*time.Millisecond, uint64(len(name)))
	}
	pcm, err := phone.LoadSound(filepath.Join(dir, name+".wav"))
	if err != nil {
		t.Fatal(err)
	}
	return pcm
}

// speechLike is noise at 8 kHz, loud from the first to the last sample, in
// syllables of 250 ms.
func speechLike(length time.Duration, seed uint64) []int16 {
	random := rand.New(rand.NewPCG(seed, 8000))
	pcm := make([]int16, int(length.Seconds()*8000))
	low := 0.0
	for i := range pcm {
		low += 0.3 * (random.Float64()*2 - 1 - low)
		syllable := 0.6 + 0.4*math.Cos(2*math.Pi*float64(i)/2000)
		pcm[i] = int16(20000 * low * syllable)
	}
	return pcm
}
