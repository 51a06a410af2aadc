package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/media/wav"
)

// Linphone is a linphonec that takes commands on its input and plays and records
// files.
type Linphone struct {
	*Process
	t   testing.TB
	dir string
	// Host is "127.0.0.1:port", where it takes calls.
	Host string
}

// StartLinphone runs linphonec until the test ends. microphone is a WAVE file.
// replace are pairs of texts of its configuration and what to write instead.
func StartLinphone(t testing.TB, number, microphone string, replace ...string) *Linphone {
	t.Helper()
	Need(t, "linphonec", "linphone-cli")
	l := &Linphone{t: t, dir: t.TempDir()}
	// linphonec keeps its databases there and does not make the folder.
	if err := os.MkdirAll(filepath.Join(l.dir, ".local/share/linphone"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.dir, "linphonerc")
	port := FreePort(t)
	l.Host = fmt.Sprintf("127.0.0.1:%d", port)
	if err := os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(linphoneConfig(number, port))), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Process = Start(t, l.dir, append(environment(), "HOME="+l.dir), "linphonec", "-c", file)
	l.WaitFor("linphonec>", 30*time.Second)
	l.Tell("soundcard use files")
	l.Tell("play " + microphone)
	l.Tell("record " + l.recording())
	return l
}

// linphoneConfig binds everything to 127.0.0.1, else SDP and From carry addresses
// that lead nowhere, and leaves only G.711. A jitter buffer of a fixed length does not
// stretch time.
func linphoneConfig(number string, port int) string {
	sections := []string{
		fmt.Sprintf("[sip]\nsip_port=%d\nsip_tcp_port=-1\nsip_tls_port=-1\nverify_server_certs=0\nverify_server_cn=0\nbind_address=127.0.0.1\nuse_ipv6=0\nguess_hostname=0\n"+
			"contact=sip:%s@127.0.0.1\ndefault_proxy=-1\nregister_only_when_network_is_up=0\nauto_net_state_mon=0\n"+
			"use_rfc2833=1\nuse_info=0\nmedia_encryption=none\nipv6_migration_done=1", port, number),
		"[rtp]\naudio_rtp_port=20000-20999\nbind_address=127.0.0.1\naudio_jitt_comp=60\naudio_adaptive_jitt_comp_enabled=0\nnortp_timeout=60",
		"[sound]\nechocancellation=0\nplayback_gain_db=0.0\nmic_gain_db=0.0",
		"[video]\nenabled=0\ndisplay=0\ncapture=0\nsize=vga",
		"[net]\nmtu=1300",
	}
	for i, codec := range []struct {
		name    string
		rate    int
		channel int
		enabled int
	}{{"PCMU", 8000, 1, 1}, {"PCMA", 8000, 1, 1}, {"opus", 48000, 2, 0}, {"speex", 16000, 1, 0}, {"speex", 8000, 1, 0}, {"GSM", 8000, 1, 0}, {"G722", 8000, 1, 0}} {
		sections = append(sections, fmt.Sprintf("[audio_codec_%d]\nmime=%s\nrate=%d\nchannels=%d\nenabled=%d", i, codec.name, codec.rate, codec.channel, codec.enabled))
	}
	return strings.Join(sections, "\n\n") + "\n"
}

func (l *Linphone) recording() string { return filepath.Join(l.dir, "heard.wav") }

// Call dials and waits until the call is up.
func (l *Linphone) Call(uri string) {
	l.t.Helper()
	l.Tell("call " + uri)
	l.WaitFor("connected", 10*time.Second)
}

// Heard is the recording of what came in and its rate in Hz. Call it when the call
// is over.
func (l *Linphone) Heard() (pcm []int16, rate int) {
	l.t.Helper()
	// The length in the header is written last, if at all: what is there counts.
	var format wav.Format
	var err error
	if !Eventually(5*time.Second, func() bool {
		pcm, format, err = wav.ReadFile(l.recording(), 60*48000)
		return len(pcm) > 0
	}) {
		l.t.Fatalf("linphone recorded nothing: %v", err)
	}
	return wav.Mono(pcm, format.Channels), format.Rate
}

// writeMono writes a sound file at 8 kHz.
func writeMono(path string, pcm []int16) error {
	return os.WriteFile(path, wav.Encode(8000, 1, pcm), 0o600)
}
