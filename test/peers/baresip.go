package peers

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/test/phone"
)

// Baresip is a headless baresip whose microphone is a sound file.
type Baresip struct {
	*Process
	t       testing.TB
	dir     string
	control net.Conn
	// Host is "127.0.0.1:port", where it takes calls.
	Host string

	mu     sync.Mutex
	events []baresipEvent
}

type baresipEvent struct {
	Event    bool   `json:"event"`
	Type     string `json:"type"`
	Param    string `json:"param"`
	Response bool   `json:"response"`
	OK       bool   `json:"ok"`
	Data     string `json:"data"`
}

// StartBaresip runs baresip until the test ends. microphone is a WAVE file at
// 8 kHz; the call ends when it ends. codec is such as "PCMU/8000/1", transport is
// "udp", "tcp" or "tls". Lines of settings come before those of its configuration and
// win; one that begins with a semicolon is a parameter of its account, such as
// ";mediaenc=srtp-mand".
func StartBaresip(t testing.TB, number, microphone, codec, transport string, settings ...string) *Baresip {
	t.Helper()
	Need(t, "baresip", "baresip-core")
	b := &Baresip{t: t, dir: t.TempDir()}
	sip, control := FreePort(t), FreePort(t)
	b.Host = fmt.Sprintf("127.0.0.1:%d", sip)
	account := fmt.Sprintf("<sip:%s@127.0.0.1:%d;transport=%s>;regint=0;answermode=auto;audio_codecs=%s;ptime=20", number, sip, transport, codec)
	settings = slices.DeleteFunc(settings, func(s string) bool {
		if strings.HasPrefix(s, ";") {
			account += s
		}
		return strings.HasPrefix(s, ";")
	})
	b.write("accounts", account+"\n")
	b.write("contacts", "")
	b.write("config", strings.Join(append(settings, b.config(sip, control, microphone)), "\n"))
	b.Process = Start(t, b.dir, append(environment(), "HOME="+b.dir), "baresip", "-f", b.dir)
	b.WaitFor("baresip is ready", 30*time.Second)
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(control))
	if err != nil {
		t.Fatal(err)
	}
	b.control = conn
	t.Cleanup(func() { _ = conn.Close() })
	go b.listen()
	return b
}

func (b *Baresip) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// config has no stdio module, which would end baresip without a terminal. The
// player is a bridge to nowhere: what was heard is in the recording.
func (b *Baresip) config(sip, control int, microphone string) string {
	lines := []string{
		"poll_method epoll", fmt.Sprintf("sip_listen 127.0.0.1:%d", sip), "net_interface 127.0.0.1",
		"call_local_timeout 60", "call_max_calls 4", "menu_bell no", "statmode_default off", "ringback_disabled yes",
		"audio_source aufile," + microphone, fmt.Sprintf("audio_player aubridge,nowhere%d", control),
		fmt.Sprintf("audio_alert aubridge,bell%d", control), "ausrc_srate 8000", "auplay_srate 8000",
		"ausrc_channels 1", "auplay_channels 1", "audio_txmode thread", "audio_buffer 20-160",
		"rtp_ports 10000-19998", "rtcp_mux no", "jitter_buffer_delay 5-10", "rtp_stats yes",
		"module_path /usr/lib/baresip/modules", "snd_path " + b.dir, fmt.Sprintf("ctrl_tcp_listen 127.0.0.1:%d", control),
	}
	for _, m := range []string{"g711", "g722", "opus", "sndfile", "aufile", "aubridge", "stun", "turn", "ice", "srtp", "dtls_srtp"} {
		lines = append(lines, "module "+m+".so")
	}
	lines = append(lines, "module_tmp uuid.so", "module_tmp account.so")
	for _, m := range []string{"contact", "debug_cmd", "menu", "ctrl_tcp"} {
		lines = append(lines, "module_app "+m+".so")
	}
	return strings.Join(lines, "\n") + "\n"
}

// listen reads netstrings of JSON from the control connection.
func (b *Baresip) listen() {
	for {
		size := 0
		for one := make([]byte, 1); ; {
			if _, err := io.ReadFull(b.control, one); err != nil {
				return
			}
			if one[0] == ':' {
				break
			}
			size = size*10 + int(one[0]-'0')
		}
		text := make([]byte, size+1)
		if _, err := io.ReadFull(b.control, text); err != nil {
			return
		}
		var e baresipEvent
		if json.Unmarshal(text[:size], &e) == nil {
			b.mu.Lock()
			b.events = append(b.events, e)
			b.mu.Unlock()
		}
	}
}

// Do gives baresip a command and waits until it has answered.
func (b *Baresip) Do(command, params string) {
	b.t.Helper()
	text, err := json.Marshal(map[string]string{"command": command, "params": params})
	if err != nil {
		b.t.Fatal(err)
	}
	before := b.count(func(e baresipEvent) bool { return e.Response })
	if _, err := fmt.Fprintf(b.control, "%d:%s,", len(text), text); err != nil {
		b.t.Fatal(err)
	}
	if !Eventually(5*time.Second, func() bool { return b.count(func(e baresipEvent) bool { return e.Response }) > before }) {
		b.t.Fatalf("baresip does not answer %s", command)
	}
}

func (b *Baresip) count(is func(baresipEvent) bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, e := range b.events {
		if is(e) {
			n++
		}
	}
	return n
}

// Saw tells how many events of that type there were, such as CALL_ESTABLISHED.
func (b *Baresip) Saw(kind string) int {
	return b.count(func(e baresipEvent) bool { return e.Event && e.Type == kind })
}

// Call dials and waits until the call is up.
func (b *Baresip) Call(uri string) {
	b.t.Helper()
	b.Do("dial", uri)
	if !Eventually(10*time.Second, func() bool { return b.Saw("CALL_ESTABLISHED") > 0 }) {
		b.t.Fatal("baresip's call was not answered")
	}
}

// Ended waits until the call is over.
func (b *Baresip) Ended() bool {
	return Eventually(5*time.Second, func() bool { return b.Saw("CALL_CLOSED") > 0 })
}

// Params is what baresip said about the events of that type, such as the keys of
// CALL_DTMF_START.
func (b *Baresip) Params(kind string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, e := range b.events {
		if e.Event && e.Type == kind {
			out = append(out, e.Param)
		}
	}
	return out
}

// Heard is the recording of what came in in its last call, at 8 kHz. Times without packets are
// missing in it.
func (b *Baresip) Heard() []int16 {
	b.t.Helper()
	pcm, rate := b.HeardAt()
	if rate != 8000 {
		b.t.Fatalf("baresip recorded at %d Hz", rate)
	}
	return pcm
}

// HeardAt is Heard at whatever rate, which it returns in Hz.
func (b *Baresip) HeardAt() (pcm []int16, rate int) { return b.HeardIn(-1) }

// HeardIn is HeardAt of a call that is over: 0 is the first, -1 the last. Calls that
// began in the same second are one.
func (b *Baresip) HeardIn(call int) (pcm []int16, rate int) {
	b.t.Helper()
	files, _ := filepath.Glob(filepath.Join(b.dir, "dump-*-dec.wav"))
	slices.Sort(files) // by the time in their names
	if call < 0 {
		call += len(files)
	}
	if call < 0 || call >= len(files) {
		b.t.Fatalf("baresip left %d recordings", len(files))
	}
	pcm, rate, err := phone.LoadSoundAt(files[call])
	if err != nil {
		b.t.Fatal(err)
	}
	return pcm, rate
}
