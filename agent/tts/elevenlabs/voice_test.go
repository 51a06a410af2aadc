package elevenlabs_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/tts"
	"parley/agent/tts/elevenlabs"
	"parley/agent/tts/ttstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "el-secret-0123456789"

func voice(t *testing.T, base string, change func(*elevenlabs.Config)) *elevenlabs.Voice {
	t.Helper()
	cfg := elevenlabs.DefaultConfig()
	cfg.BaseURL, cfg.APIKey, cfg.Timeout = base, key, ttstest.Silence
	if change != nil {
		change(&cfg)
	}
	v, err := elevenlabs.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

const usual = "/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM/stream/with-timestamps?output_format=pcm_16000"

// check checks a request, and is what it asks for.
func check(t *testing.T, r *http.Request, want string) map[string]any {
	t.Helper()
	if r.Method != http.MethodPost || r.URL.String() != want {
		t.Errorf("%s %s, want POST %s", r.Method, r.URL, want)
	}
	for name, want := range map[string]string{"Xi-Api-Key": key, "Authorization": "", "Content-Type": "application/json", "User-Agent": "parley"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	var asked map[string]any
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		t.Errorf("the request: %v", err)
	}
	text, _ := asked["text"].(string)
	if strings.TrimSpace(text) == "" {
		t.Error("asked for the sound of nothing")
	}
	return asked
}

// stretch is one message of the service.
type stretch struct {
	Audio     string     `json:"audio_base64"`
	Alignment *alignment `json:"alignment"`
	Normal    *alignment `json:"normalized_alignment"`
}

type alignment struct {
	Characters []string  `json:"characters"`
	Starts     []float64 `json:"character_start_times_seconds"`
	Ends       []float64 `json:"character_end_times_seconds"`
}

// stretches is the sound of a text in stretches of a length, with where its letters lie:
// those of a word share its tone, what is between words the silence. own: each stretch
// counts from its own beginning. An odd byte is carried from one to the next.
func stretches(text string, rate int, each time.Duration, own bool) []string {
	pcm, words := ttstest.Sound(text, rate)
	type letter struct {
		s          string
		start, end time.Duration
	}
	var letters []letter
	at, prev := 0, time.Duration(0)
	for _, w := range words {
		i := at + strings.Index(text[at:], w.Text)
		if i > at {
			letters = append(letters, letter{text[at:i], prev, w.Start})
		}
		runes := strings.Split(w.Text, "")
		step := (w.End - w.Start) / time.Duration(len(runes))
		for k, r := range runes {
			end := w.Start + time.Duration(k+1)*step
			if k == len(runes)-1 {
				end = w.End
			}
			letters = append(letters, letter{r, w.Start + time.Duration(k)*step, end})
		}
		at, prev = i+len(w.Text), w.End
	}
	b := ttstest.S16LE(pcm)
	var out []string
	for from := time.Duration(0); len(b) > 0; from += each {
		n := min(int(each*time.Duration(rate)/time.Second)*2, len(b))
		if len(out) == 0 && n < len(b) {
			n++
		}
		var a *alignment
		for len(letters) > 0 && (letters[0].start < from+each || n == len(b)) {
			l, shift := letters[0], time.Duration(0)
			letters = letters[1:]
			if own {
				shift = from
			}
			if a == nil {
				a = &alignment{}
			}
			a.Characters = append(a.Characters, l.s)
			a.Starts = append(a.Starts, (l.start - shift).Seconds())
			a.Ends = append(a.Ends, (l.end - shift).Seconds())
		}
		line, err := json.Marshal(stretch{base64.StdEncoding.EncodeToString([]byte(b[:n])), a, &alignment{Characters: []string{"x"}, Starts: []float64{0}, Ends: []float64{99}}})
		if err != nil {
			return nil
		}
		out = append(out, string(line)+"\n\n")
		b = b[n:]
	}
	return out
}

func answer(t *testing.T, r *http.Request) (string, []string) {
	asked := check(t, r, usual)
	text := asked["text"].(string)
	if want := map[string]any{"text": text, "model_id": "eleven_flash_v2_5"}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	return "application/json", stretches(text, 16000, 330*time.Millisecond, false)
}

func serve(t *testing.T, answer func(*testing.T, *http.Request) (string, []string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, pieces := answer(t, r)
		w.Header().Set("Content-Type", kind)
		for _, p := range pieces {
			_, _ = w.Write([]byte(p))
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestVoice(t *testing.T) {
	ttstest.Run(t, ttstest.Subject{Words: true, New: func(t *testing.T) tts.Voice { return voice(t, serve(t, answer), nil) }})
}

func TestService(t *testing.T) {
	ttstest.RunService(t, ttstest.Service{
		Room: "tts/elevenlabs", Key: key, Answer: answer,
		New: func(t *testing.T, base string) tts.Voice { return voice(t, base, nil) },
	})
}

// TestWordsAreWhereTheyAre, to 20 ms of a sound whose words are known, however it is cut
// into stretches and whichever way times are counted.
func TestWordsAreWhereTheyAre(t *testing.T) {
	const text = "Good morning — we're open today, from 9:30 to five."
	pcm, want := ttstest.Sound(text, 16000)
	for _, own := range []bool{false, true} {
		for _, each := range []time.Duration{20 * time.Millisecond, 90 * time.Millisecond, 330 * time.Millisecond, 1100 * time.Millisecond, time.Minute} {
			t.Run(fmt.Sprint(each, own), func(t *testing.T) {
				v := voice(t, serve(t, func(t *testing.T, r *http.Request) (string, []string) {
					check(t, r, usual)
					return "application/json", stretches(text, 16000, each, own)
				}), nil)
				var words []tts.Word
				samples := 0
				if err := v.Speak(t.Context(), text, func(c tts.Chunk) error {
					for _, w := range c.Words {
						if begin := time.Duration(samples) * time.Second / 16000; w.Start < begin {
							t.Errorf("%q begins at %v and came at %v", w.Text, w.Start, begin)
						}
					}
					samples += len(c.PCM)
					words = append(words, c.Words...)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if samples != len(pcm) || len(words) != len(want) {
					t.Fatalf("%d samples of %d, %d words of %d", samples, len(pcm), len(words), len(want))
				}
				for i, w := range words {
					x := want[i]
					if x.Text == "—" { // it has no sound of its own
						x.Start, x.End = words[i-1].End, words[i-1].End
					}
					if n := len(x.Text); strings.ContainsAny(x.Text[n-1:], ",.") { // its silence is not the word's
						x.End -= (x.End - x.Start) / time.Duration(n)
					}
					if w.Text != x.Text || (w.Start-x.Start).Abs() > 20*time.Millisecond || (w.End-x.End).Abs() > 20*time.Millisecond {
						t.Errorf("%+v, want %+v", w, x)
					}
				}
			})
		}
	}
}

func TestWhatItAsksFor(t *testing.T) {
	half, yes := 0.5, true
	for _, c := range []struct {
		path   string
		change func(*elevenlabs.Config)
		want   string
		asked  map[string]any
	}{
		{"", nil, usual, map[string]any{"text": "hello", "model_id": "eleven_flash_v2_5"}},
		{"/v1", nil, usual, map[string]any{"text": "hello", "model_id": "eleven_flash_v2_5"}},
		{"/el?region=eu", func(c *elevenlabs.Config) {
			c.Voice, c.Model, c.Language, c.SampleRate, c.ZeroRetention = "abc", "eleven_turbo_v2_5", "de", 24000, true
		}, "/el/v1/text-to-speech/abc/stream/with-timestamps?enable_logging=false&output_format=pcm_24000&region=eu",
			map[string]any{"text": "hello", "model_id": "eleven_turbo_v2_5", "language_code": "de"}},
		{"", func(c *elevenlabs.Config) {
			c.Settings, c.TextNormalization = elevenlabs.Settings{Stability: &half, SpeakerBoost: &yes, Speed: 1.1}, "on"
		}, usual, map[string]any{"text": "hello", "model_id": "eleven_flash_v2_5", "apply_text_normalization": "on",
			"voice_settings": map[string]any{"stability": 0.5, "use_speaker_boost": true, "speed": 1.1}}},
	} {
		v := voice(t, serve(t, func(t *testing.T, r *http.Request) (string, []string) {
			if asked := check(t, r, c.want); !reflect.DeepEqual(asked, c.asked) {
				t.Errorf("asked for %v, want %v", asked, c.asked)
			}
			return "application/json", stretches("hello", 16000, time.Second, false)
		})+c.path, c.change)
		if err := v.Speak(t.Context(), "hello", func(tts.Chunk) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

func TestMessages(t *testing.T) {
	good := stretches("one two", 16000, 250*time.Millisecond, false)
	for _, c := range []struct {
		name, body string
		want       string // of the error
		words      int
		heard      bool
	}{
		{"no alignment", strings.ReplaceAll(strings.Join(good, ""), `"alignment":{`, `"other":{`), "", 0, true},
		{"as events", "data: " + good[0] + "data: " + good[1], "", 2, true},
		{"lists of different lengths", strings.Replace(strings.Join(good, ""), `_start_times_seconds":[0,`, `_start_times_seconds":[`, 1), "", 2, true},
		{"an empty message", "{}\n" + strings.Join(good, ""), "", 2, true},
		{"no error", `{"audio_base64":null,"detail":null,"error":null}` + "\n" + strings.Join(good, ""), "", 2, true},
		{"half a message", good[0] + good[1][:len(good[1])/2], "no JSON", 1, true},
		{"no base64", `{"audio_base64":"***"}`, "sound that is no base64", 0, false},
		{"an error in mid-stream", good[0] + `{"detail":{"status":"quota_exceeded","message":"no credit for ` + key + `"}}`, "it broke off: ", 1, true},
		{"MP3 in JSON", `{"audio_base64":"` + base64.StdEncoding.EncodeToString([]byte("ID3"+strings.Repeat("x", 100))) + `"}`, "MP3 is not read", 0, false},
		{"a list", "[1,2]", "no JSON", 0, false},
		{"times that are none", strings.ReplaceAll(strings.Join(good, ""), `"character_end_times_seconds":[`, `"character_end_times_seconds":[-1e300,1e300,`), "", 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := voice(t, serve(t, func(*testing.T, *http.Request) (string, []string) { return "application/json", []string{c.body} }), nil)
			words, samples := 0, 0
			err := v.Speak(t.Context(), "one two", func(c tts.Chunk) error { words += len(c.Words); samples += len(c.PCM); return nil })
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if words != c.words || samples > 0 != c.heard {
				t.Errorf("%d words, %d samples; want %d words", words, samples, c.words)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	if err := elevenlabs.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	two := 2.0
	for _, c := range []struct {
		change func(*elevenlabs.Config)
		want   string
	}{
		{func(c *elevenlabs.Config) { c.BaseURL = "" }, "base_url: "},
		{func(c *elevenlabs.Config) { c.APIKey = "a b" }, "api_key: "},
		{func(c *elevenlabs.Config) { c.Voice = "../v1/models" }, "voice: "},
		{func(c *elevenlabs.Config) { c.Model = "" }, "model: "},
		{func(c *elevenlabs.Config) { c.SampleRate = 11025 }, "sample_rate: "},
		{func(c *elevenlabs.Config) { c.TextNormalization = "yes" }, "text_normalization: "},
		{func(c *elevenlabs.Config) { c.Settings.Stability = &two }, "stability: "},
		{func(c *elevenlabs.Config) { c.Settings.SimilarityBoost = &two }, "similarity_boost: "},
		{func(c *elevenlabs.Config) { c.Settings.Style = &two }, "style: "},
		{func(c *elevenlabs.Config) { c.Settings.Speed = 2 }, "speed: "},
		{func(c *elevenlabs.Config) { c.Timeout = 0 }, "timeout: "},
	} {
		cfg := elevenlabs.DefaultConfig()
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s…", err, c.want)
		}
		if _, err := elevenlabs.New(cfg); err == nil {
			t.Errorf("%s: a voice was made", c.want)
		}
	}
}
