package peers

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/media/opus"
)

//go:embed uac-plays.xml
var playsScenario string

// codecNamed is the codec of that name.
func codecNamed(t *testing.T, name string) media.Codec {
	t.Helper()
	wide, err := opus.Opus(opus.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []media.Codec{wide, g722.G722(), g711.PCMU(), g711.PCMA()} {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no codec %s", name)
	return media.Codec{}
}

// capture is a capture of Ethernet with a stream of RTP that says pcm, which is at 16
// kHz.
func capture(t *testing.T, c media.Codec, pcm []int16) []byte {
	t.Helper()
	encoder, err := c.NewEncoder()
	if err != nil {
		t.Fatal(err)
	}
	pcm = atRate(t, 16000, c.SampleRate, pcm)
	out := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	out = append(out, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0) // version 2.4, 64 KiB, Ethernet
	size, step := c.SampleRate/50, uint32(c.ClockRate/50)
	for i := 0; (i+1)*size <= len(pcm); i++ {
		rtp := []byte{0x80, c.PayloadType}
		rtp = binary.BigEndian.AppendUint16(rtp, uint16(i))
		rtp = binary.BigEndian.AppendUint32(rtp, uint32(i)*step)
		rtp = binary.BigEndian.AppendUint32(rtp, 0x5eed)
		if rtp, err = encoder.Encode(rtp, pcm[i*size:(i+1)*size]); err != nil {
			t.Fatal(err)
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(i/50))
		out = binary.LittleEndian.AppendUint32(out, uint32(i%50*20000))
		for range 2 {
			out = binary.LittleEndian.AppendUint32(out, uint32(14+20+8+len(rtp)))
		}
		out = append(out, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0) // Ethernet
		out = append(out, 0x45, 0)
		out = binary.BigEndian.AppendUint16(out, uint16(20+8+len(rtp)))
		out = append(out, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1, 0x1b, 0x58, 0x1b, 0x58)
		out = binary.BigEndian.AppendUint16(out, uint16(8+len(rtp)))
		out = append(append(out, 0, 0), rtp...)
	}
	return out
}

// playing runs SIPp for one call to g, and returns when it has gone by the scenario. play
// is what SIPp does in it.
func (c cell) playing(t *testing.T, g *Gateway, codec media.Codec, play string, file []byte, args ...string) {
	t.Helper()
	Need(t, "sipp", "sip-tester")
	dir := t.TempDir()
	name := fmt.Sprintf("%s/%d", codec.Name, codec.ClockRate)
	if codec.Channels > 1 {
		name += fmt.Sprintf("/%d", codec.Channels)
	}
	scenario := strings.NewReplacer("@TYPE@", fmt.Sprint(codec.PayloadType), "@CODEC@", name, "@PLAY@", play).Replace(playsScenario)
	for path, content := range map[string][]byte{"scenario.xml": []byte(scenario), "sound.pcap": file} {
		if err := os.WriteFile(filepath.Join(dir, path), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all := append([]string{"-sf", "scenario.xml", "-i", "127.0.0.1", "-mi", "127.0.0.1", "-p", fmt.Sprint(FreePort(t)), "-mp", fmt.Sprint(FreePort(t)),
		"-t", map[string]string{"udp": "u1", "tcp": "t1"}[c.transport], "-m", "1", "-nostdin", "-timeout", "20s", "-timeout_error",
		"-trace_err", "-error_file", "errors.log", "-s", "agent"}, args...)
	p := Start(t, dir, append(os.Environ(), "TERM=xterm"), "sipp", append(all, g.Host)...)
	if status, err := p.Wait(25 * time.Second); err != nil || status != 0 {
		text, _ := os.ReadFile(filepath.Join(dir, "errors.log"))
		t.Errorf("SIPp: status %d, %v\n%s", status, err, text)
	}
}
