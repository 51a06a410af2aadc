// Command widen turns raw 16-bit samples at 8 kHz on standard input into what the
// recogniser's model hears of them over G.711, at 16 kHz. make-mllr.sh uses it.
package main

import (
	"encoding/binary"
	"io"
	"log"
	"os"

	"github.com/zaf/g711"

	"parley/agent/stt/pocketsphinx/internal/wide"
)

func main() {
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	pcm := make([]int16, len(b)/2)
	for i := range pcm {
		x := int16(binary.LittleEndian.Uint16(b[2*i:]))
		pcm[i] = g711.DecodeUlawFrame(g711.EncodeUlawFrame(x))
	}
	var d wide.Doubler
	if err := binary.Write(os.Stdout, binary.LittleEndian, d.Process(nil, pcm)); err != nil {
		log.Fatal(err)
	}
}
