package peers

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"parley/media/resample"
	"parley/media/wav"
)

// page is what the browser runs: the phone of examples/browser-phone, and a recorder
// for what comes.
const page = `<!doctype html><audio id=sound autoplay></audio><script src=/phone.bundle.js></script><script>
const q = new URLSearchParams(location.search), rate = 16000;
const post = (path, body) => fetch(path, { method: 'POST', body });
const tell = (event, detail) => post('/event', JSON.stringify({ event, detail: String(detail ?? '') }));
const codec = q.get('codec');
window.onerror = (m) => tell('error', m);
const call = new ParleyCall(q.get('server'), q.get('target'), {
  user: q.get('user'),
  constraints: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
  sdp: codec && ((e) => {
    if (e.originator !== 'local') return;
    const events = (/a=rtpmap:(\d+) telephone-event\/8000/.exec(e.sdp) || [])[1];
    e.sdp = e.sdp.replace(/(m=audio \d+ \S+) .*/, '$1 ' + codec + ' ' + events);
  }),
  on: (event, detail) => {
    if (event !== 'sound') return tell(event, detail);
    document.getElementById('sound').srcObject = detail;
    const ctx = new AudioContext({ sampleRate: rate }), tap = ctx.createScriptProcessor(4096, 1, 1);
    tap.onaudioprocess = (e) => post('/sound', Int16Array.from(e.inputBuffer.getChannelData(0), (v) => Math.max(-1, Math.min(1, v)) * 32767).buffer);
    ctx.createMediaStreamSource(detail).connect(tap); tap.connect(ctx.destination);
  },
});
(async () => { for (;;) { const r = await fetch('/command'); const c = await r.json();
  if (c.press) call.press(c.press); if ('hold' in c) call.hold(c.hold);
  if (c.hangUp) call.hangUp();
  if (c.stats) { const all = {}; (await call.session.connection.getStats()).forEach((r) => { all[r.type] = { ...all[r.type], ...r }; }); await tell('stats', JSON.stringify(all)); } } })();
</script>`

// Chromium is a headless Chromium with the phone of examples/browser-phone, whose
// microphone is a sound file.
type Chromium struct {
	*Process
	t        testing.TB
	commands chan map[string]any

	mu     sync.Mutex
	events []ChromiumEvent
	sound  []int16
}

// ChromiumEvent is something that the page told.
type ChromiumEvent struct{ Event, Detail string }

// StartChromium opens the page, which dials target over the WebSocket at server.
// microphone is a WAVE file; codec is a payload type to offer alone, or empty.
func StartChromium(t testing.TB, server, target, user, microphone, codec string) *Chromium {
	t.Helper()
	Need(t, "chromium", "chromium")
	bundle, err := os.ReadFile("../../examples/browser-phone/phone.bundle.js")
	if err != nil {
		t.Skip("the browser's phone is not built: deploy/browser-phone.sh (npm)")
	}
	c := &Chromium{t: t, commands: make(chan map[string]any, 8)}
	over := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	})
	mux.HandleFunc("GET /phone.bundle.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(bundle)
	})
	mux.HandleFunc("GET /command", func(w http.ResponseWriter, r *http.Request) {
		select {
		case command := <-c.commands:
			_ = json.NewEncoder(w).Encode(command)
		case <-r.Context().Done():
		case <-over:
		}
	})
	mux.HandleFunc("POST /event", func(_ http.ResponseWriter, r *http.Request) {
		var e ChromiumEvent
		if json.NewDecoder(r.Body).Decode(&e) == nil {
			c.mu.Lock()
			c.events = append(c.events, e)
			c.mu.Unlock()
		}
	})
	mux.HandleFunc("POST /sound", func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for ; len(b) > 1; b = b[2:] {
			c.sound = append(c.sound, int16(binary.LittleEndian.Uint16(b)))
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: mux}
	served := make(chan struct{})
	go func() { defer close(served); _ = web.Serve(listener) }()
	t.Cleanup(func() { close(over); _ = web.Close(); <-served })

	dir := t.TempDir()
	q := url.Values{"server": {server}, "target": {target}, "user": {user}, "codec": {codec}}
	c.Process = Start(t, dir, append(environment(), "HOME="+dir), "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
		"--use-file-for-fake-audio-capture="+microphone+"%noloop", "--autoplay-policy=no-user-gesture-required",
		"--ignore-certificate-errors", loopbackFlag(t), "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		fmt.Sprintf("http://%s/?%s", listener.Addr(), q.Encode()))
	return c
}

// Events are those of that kind so far.
func (c *Chromium) Events(kind string) []ChromiumEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []ChromiumEvent
	for _, e := range c.events {
		if e.Event == kind {
			out = append(out, e)
		}
	}
	return out
}

// Await waits until the page has told of something and returns what it said last.
func (c *Chromium) Await(kind string, d time.Duration) string {
	c.t.Helper()
	if !Eventually(d, func() bool { return len(c.Events(kind)) > 0 }) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.t.Fatalf("chromium says nothing of %s: %+v", kind, c.events)
	}
	all := c.Events(kind)
	return all[len(all)-1].Detail
}

// Do gives the page a command, such as {"press": "5"}.
func (c *Chromium) Do(command map[string]any) { c.commands <- command }

// Heard is what came in, at 16 kHz.
func (c *Chromium) Heard() []int16 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int16(nil), c.sound...)
}

// chromiumMicrophone writes a sound file for Chromium, which begins to play it when
// the page asks for the microphone. pcm is at 16 kHz.
func chromiumMicrophone(t *testing.T, pcm []int16, lead, length time.Duration) string {
	t.Helper()
	all := make([]int16, int(length.Seconds()*16000))
	copy(all[int(lead.Seconds()*16000):], pcm)
	path := filepath.Join(t.TempDir(), "microphone.wav")
	if err := os.WriteFile(path, wav.Encode(48000, 1, atRate(t, 16000, 48000, all)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// atRate is the sound at another sampling rate.
func atRate(t *testing.T, from, to int, pcm []int16) []int16 {
	t.Helper()
	out, err := resample.Convert(from, to, resample.Voice, pcm)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// loopbackFlag lets Chromium take the loopback for its sound where there is nothing
// else. On a machine in a network it is asked to be as everybody's is.
func loopbackFlag(t testing.TB) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return "--disable-default-apps"
		}
	}
	return "--allow-loopback-in-peer-connection"
}
