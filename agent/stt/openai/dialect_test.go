package openai

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/agent/stt"
)

// TestDialects: what each service is asked, strictly, and what its answers mean.
func TestDialects(t *testing.T) {
	words := func(place time.Duration, w ...any) (out []stt.Word) {
		for i := 0; i < len(w); i += 3 {
			out = append(out, stt.Word{
				Text:  w[i].(string),
				Start: place + time.Duration(w[i+1].(float64)*1e9), End: place + time.Duration(w[i+2].(float64)*1e9),
			})
		}
		return out
	}
	// 2 s are written before Begin, of which the utterance has 0.8.
	const place = 1200 * time.Millisecond
	for _, tt := range []struct {
		name, path, wantPath string
		change               func(*Config)
		fields               map[string][]string
		answer               answering
		interims             []string
		want                 stt.Result
	}{
		{
			name: "OpenAI", path: "/v1", wantPath: "/v1/audio/transcriptions",
			change: func(c *Config) { c.Model = "gpt-4o-mini-transcribe"; c.Prompt = "A booking." },
			fields: map[string][]string{
				"model": {"gpt-4o-mini-transcribe"}, "response_format": {"json"}, "language": {"en"},
				"prompt": {"A booking. Ada, Böll"}, "include[]": {"logprobs"},
			},
			answer: text(`{"text":"Table for two.","logprobs":[{"token":"Table","logprob":-0.1,"bytes":[84]},{"token":" for two.","logprob":-0.3,"bytes":[32]}],"usage":{"type":"tokens","total_tokens":45}}`),
			want:   stt.Result{Text: "Table for two.", Final: true, Confidence: math.Exp(-0.2)},
		},
		{
			name: "OpenAI, streamed", path: "/v1/", wantPath: "/v1/audio/transcriptions",
			change: func(c *Config) { c.Model = "gpt-4o-transcribe"; c.Stream = true },
			fields: map[string][]string{
				"model": {"gpt-4o-transcribe"}, "response_format": {"json"}, "language": {"en"}, "prompt": {"Ada, Böll"},
				"include[]": {"logprobs"}, "stream": {"true"},
			},
			answer: says(200, "text/event-stream; charset=utf-8", "data: {\"type\":\"transcript.text.delta\",\"delta\":\"Table\",\"logprobs\":[]}\n\n"+
				"data: {\"type\":\"transcript.text.delta\",\"delta\":\" for\"}\n\n"+"data: {\"type\":\"transcript.text.delta\",\"delta\":\" two.\"}\n\n"+
				"data: {\"type\":\"transcript.text.done\",\"text\":\"Table for two.\",\"logprobs\":[{\"token\":\"T\",\"logprob\":-0.5}]}\n\n"),
			interims: []string{"Table", "Table for", "Table for two."},
			want:     stt.Result{Text: "Table for two.", Final: true, Confidence: math.Exp(-0.5)},
		},
		{
			name: "Groq", path: "/openai/v1", wantPath: "/openai/v1/audio/transcriptions",
			change: func(c *Config) {
				c.Model = "whisper-large-v3-turbo"
				c.Words = true
				c.Temperature = new(float64)
			},
			fields: map[string][]string{
				"model": {"whisper-large-v3-turbo"}, "response_format": {"verbose_json"}, "language": {"en"}, "prompt": {"Ada, Böll"},
				"temperature": {"0"}, "timestamp_granularities[]": {"word", "segment"},
			},
			answer: text(`{"task":"transcribe","language":"English","duration":1.9,"text":" Table for two.","words":[{"word":"Table","start":0.9,"end":1.1},{"word":"for","start":1.1,"end":1.2},{"word":"two.","start":1.2,"end":1.4}],
				"segments":[{"id":0,"seek":0,"start":0,"end":1.4,"text":" Table for two.","tokens":[50365],"temperature":0,"avg_logprob":-0.25,"compression_ratio":0.8,"no_speech_prob":1.2e-10}],"x_groq":{"id":"req_1"}}`),
			want: stt.Result{Text: "Table for two.", Final: true, Confidence: math.Exp(-0.25), Words: words(place, "Table", 0.9, 1.1, "for", 1.1, 1.2, "two.", 1.2, 1.4)},
		},
		{
			name: "speaches", path: "", wantPath: "/v1/audio/transcriptions",
			change: func(c *Config) {
				c.Model = "Systran/faster-whisper-small"
				c.Extra = map[string]string{"vad_filter": "true"}
				c.APIKey = ""
			},
			fields: map[string][]string{
				"model": {"Systran/faster-whisper-small"}, "response_format": {"verbose_json"}, "language": {"en"}, "prompt": {"Ada, Böll"},
				"timestamp_granularities[]": {"segment"}, "vad_filter": {"true"},
			},
			answer: text(`{"task":"transcribe","language":"en","duration":"1.9","text":"Table for two. ","words":null,"segments":[
				{"id":1,"seek":0,"start":0.0,"end":1.0,"text":" Table","tokens":[],"temperature":0.0,"avg_logprob":-0.1,"compression_ratio":0.7,"no_speech_prob":0.1,"words":null},
				{"id":2,"seek":0,"start":1.0,"end":2.0,"text":" for two.","tokens":[],"temperature":0.0,"avg_logprob":-0.3,"compression_ratio":0.7,"no_speech_prob":0.1,"words":null}]}`),
			want: stt.Result{Text: "Table for two.", Final: true, Confidence: (math.Exp(-0.1) + math.Exp(-0.3)) / 2},
		},
		{
			name: "faster-whisper-server, streamed", path: "/v1", wantPath: "/v1/audio/transcriptions",
			change: func(c *Config) { c.Model = "small"; c.Stream = true },
			fields: map[string][]string{
				"model": {"small"}, "response_format": {"verbose_json"}, "language": {"en"}, "prompt": {"Ada, Böll"},
				"timestamp_granularities[]": {"segment"}, "stream": {"true"},
			},
			answer: says(200, "text/event-stream", "data: {\"text\":\"Table\",\"segments\":[{\"text\":\"Table\",\"start\":0,\"end\":1,\"avg_logprob\":-0.1,\"no_speech_prob\":0.1}]}\n\n"+
				"data: {\"text\":\"for two.\",\"segments\":[{\"text\":\"for two.\",\"start\":1,\"end\":2,\"avg_logprob\":-0.1,\"no_speech_prob\":0.1}]}\n\n"+
				"data: {\"text\":\"Thank you.\",\"segments\":[{\"text\":\"Thank you.\",\"start\":2,\"end\":3,\"avg_logprob\":-1.1,\"no_speech_prob\":0.7}]}\n\n"),
			interims: []string{"Table", "Table for two."},
			want:     stt.Result{Text: "Table for two.", Final: true, Confidence: math.Exp(-0.1)},
		},
		{
			name: "whisper.cpp", path: "/inference", wantPath: "/inference",
			fields: map[string][]string{
				"model": {"whisper-1"}, "response_format": {"verbose_json"}, "language": {"en"}, "prompt": {"Ada, Böll"},
				"timestamp_granularities[]": {"segment"},
			},
			answer: text(`{"task":"transcribe","language":"english","duration":1.9,"text":" Table\n for two.\n","segments":[
				{"id":0,"text":" Table","start":0.0,"end":1.0,"tokens":[1],"words":[{"word":" Table","start":0.8,"end":1.0,"t_dtw":-1,"probability":0.9}],"temperature":0.0,"avg_logprob":-0.2},
				{"id":1,"text":" for two.","start":1.0,"end":2.0,"tokens":[2],"words":[{"word":" for","start":1.0,"end":1.1,"probability":0.9},{"word":" two.","start":1.1,"end":1.5,"probability":0.9}],"temperature":0.0,"avg_logprob":-0.2}]}`),
			want: stt.Result{Text: "Table for two.", Final: true, Confidence: math.Exp(-0.2), Words: words(place, "Table", 0.8, 1.0, "for", 1.0, 1.1, "two.", 1.1, 1.5)},
		},
		{
			name: "vLLM", path: "/v1", wantPath: "/v1/audio/transcriptions",
			change: func(c *Config) { c.Model = "openai/whisper-large-v3"; c.Format = JSON },
			fields: map[string][]string{
				"model": {"openai/whisper-large-v3"}, "response_format": {"json"}, "language": {"en"}, "prompt": {"Ada, Böll"},
			},
			answer: text(`{"text":" Table for two.","usage":{"type":"duration","seconds":2}}`),
			want:   stt.Result{Text: "Table for two.", Final: true},
		},
		{
			name: "vLLM, streamed", path: "/v1", wantPath: "/v1/audio/transcriptions",
			change: func(c *Config) { c.Model = "mistralai/Voxtral-Mini-3B-2507"; c.Stream = true },
			fields: map[string][]string{
				"model": {"mistralai/Voxtral-Mini-3B-2507"}, "response_format": {"json"}, "language": {"en"}, "prompt": {"Ada, Böll"}, "stream": {"true"},
			},
			answer: says(200, "text/event-stream", "data: {\"id\":\"trsc-1\",\"object\":\"transcription.chunk\",\"choices\":[{\"delta\":{\"content\":\" Table\"}}]}\n\n"+
				"data: {\"choices\":[{\"delta\":{\"content\":\" for two.\"},\"finish_reason\":\"stop\"}]}\n\n"+
				"data: {\"choices\":[],\"usage\":{\"total_tokens\":9}}\n\ndata: [DONE]\n\n"),
			interims: []string{"Table", "Table for two."},
			want:     stt.Result{Text: "Table for two.", Final: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.answer)
			r := recognizer(t, s.server.URL+tt.path, tt.change)
			c := begin(t, r, stt.Options{Language: "en-US", Expect: stt.Expect{Grammar: "#JSGF V1.0;", Phrases: []string{"Ada", " Böll\n", ""}}})
			c.write(make([]int16, 32000))
			c.say()
			for _, want := range tt.interims {
				if got := c.next(); got.Final || got.Text != want {
					t.Errorf("%+v, want %q", got, want)
				}
			}
			if diff := cmp.Diff(tt.want, c.next(), cmp.Comparer(near)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			c.nothing()
			all := s.requests()
			if len(all) != 1 {
				t.Fatalf("%d requests", len(all))
			}
			if diff := cmp.Diff(tt.fields, all[0].fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			wantKey := "Bearer " + key
			if r.cfg.APIKey == "" {
				wantKey = ""
			}
			if all[0].path != tt.wantPath || all[0].key != wantKey || all[0].rate != 16000 || len(all[0].pcm) != 12800+len(speechOf(16000)) {
				t.Errorf("%s %q, %d samples at %d", all[0].path, all[0].key, len(all[0].pcm), all[0].rate)
			}
		})
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// The pre-roll is the audio just before Begin, whole and in order.
func TestWhatIsSent(t *testing.T) {
	s := serve(t, text(`{"text":"yes"}`))
	c := begin(t, recognizer(t, s.server.URL, func(c *Config) {
		c.Rate = 8000
		c.PreRoll = 100 * time.Millisecond
	}), stt.Options{})
	spoken := tone(8000, 200)
	c.write(make([]int16, 8000))
	c.write(spoken[:800])
	c.Begin()
	c.write(spoken[800:])
	c.Finalize()
	if got := c.next(); got.Text != "yes" {
		t.Errorf("%+v", got)
	}
	a := s.requests()[0]
	if a.rate != 8000 || len(a.pcm) != 8000*shortest/1000 || !cmp.Equal(a.pcm[:1600], spoken) {
		t.Errorf("%d samples at %d", len(a.pcm), a.rate)
	}
	for _, x := range a.pcm[1600:] {
		if x != 0 {
			t.Fatal("what is put behind a short file is no silence")
		}
	}
	if _, there := a.fields["language"]; there {
		t.Errorf("a language nobody knows: %v", a.fields)
	}
}

func TestExpectFromTheNextUtterance(t *testing.T) {
	s := serve(t, text(`{"text":"yes"}`))
	c := begin(t, recognizer(t, s.server.URL, func(c *Config) { c.Language = "de" }), stt.Options{Expect: stt.Expect{Phrases: []string{"one"}}})
	c.Begin()
	phrases := []string{"two"}
	if err := c.Expect(stt.Expect{Phrases: phrases}); err != nil {
		t.Fatal(err)
	}
	phrases[0] = "mine"
	for _, want := range []string{"one", "two"} {
		c.say()
		c.next()
		all := s.requests()
		if f := all[len(all)-1].fields; f["prompt"][0] != want || f["language"][0] != "de" {
			t.Errorf("%v, want %s", f, want)
		}
	}
}

func TestPromptIsBounded(t *testing.T) {
	for _, tt := range []struct {
		prompt  string
		phrases []string
		want    string
	}{
		{"", nil, ""},
		{"", []string{"a", "b"}, "a, b"},
		{"Hi.", []string{"a\x00\x1b[1m", "\u202eb"}, "Hi. a[1m, b"},
		{"", []string{"kept", strings.Repeat("ü", 400), "no"}, "kept"},
	} {
		if got := prompt(tt.prompt, tt.phrases); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	for tag, want := range map[string]string{"en-US": "en", "de": "de", "fil_PH": "fil", "": "", "x": "", "english": "", "../": "", "ZH-hant": "zh"} {
		if got := iso639(tag); got != want {
			t.Errorf("%q: %q", tag, got)
		}
	}
}

// What the models say of sounds that are no speech is not what the caller said.
func TestNoSpeech(t *testing.T) {
	segment := func(text, logprob, noSpeech string) string {
		return `{"text":"` + text + `","segments":[{"text":"` + text + `","start":0,"end":2,"avg_logprob":` + logprob + `,"no_speech_prob":` + noSpeech + `}]}`
	}
	for _, tt := range []struct{ name, body, want string }{
		{"sure", segment(" Yes.", "-0.2", "0.01"), "Yes."},
		{"no speech", segment(" Thank you.", "-0.9", "0.7"), ""},
		{"no speech, but sure words", segment(" Yes.", "-0.1", "0.7"), "Yes."},
		{"surely no speech", segment(" Thanks for watching!", "-0.1", "0.95"), ""},
		{"unsure words", segment(" Thank you.", "-1.9", "0.1"), ""},
		{"null", segment(" Yes.", "null", "null"), "Yes."},
		{"texts for numbers", segment(" Yes.", `"-0.1"`, `"0.9"`), ""},
		{"a mark", segment(" [BLANK_AUDIO]", "-0.1", "0.1"), ""},
		{"a sound", `{"text":" (upbeat music)"}`, ""},
		{"two sounds", `{"text":"[Music] (applause)."}`, ""},
		{"a song", `{"text":"♪ La la la ♪"}`, ""},
		{"notes", `{"text":"♪♪"}`, ""},
		{"dots", `{"text":"..."}`, ""},
		{"a word in brackets", `{"text":"[laughs] Yes (I do)."}`, "[laughs] Yes (I do)."},
		{"an open bracket", `{"text":"(yes"}`, "(yes"},
		{"nothing", `{"text":"","segments":[]}`, ""},
		{"segments only", `{"segments":[{"text":"One"},{"text":"two"},{"text":" three"}]}`, "One two three"},
		{"no spaces", `{"segments":[{"text":"你好。"},{"text":"世界"}]}`, "你好。世界"},
		{"control characters", `{"text":"Yes\u0000\u001b[2J\r\n\u202eno"}`, "Yes[2J no"},
		{"one of two", `{"text":" Yes. Bye.","segments":[{"text":" Yes.","avg_logprob":-0.1,"no_speech_prob":0.1},{"text":" Bye.","avg_logprob":-1,"no_speech_prob":0.9}]}`, "Yes."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, text(tt.body))
			c := begin(t, recognizer(t, s.server.URL, nil), stt.Options{})
			c.say()
			if got := c.next(); !got.Final || got.Text != tt.want || got.Err != nil {
				t.Errorf("%+v, want %q", got, tt.want)
			}
			c.nothing()
		})
	}
}

// Words of a segment that was left out are left out, too.
func TestWordsOfNoSpeech(t *testing.T) {
	got, err := parseAnswer([]byte(`{"text":" Yes. Bye.","words":[{"word":"Yes.","start":0.1,"end":0.4},{"word":"Bye.","start":1.2,"end":1.5},{"word":"","start":1,"end":2},{"word":"x"}],
		"segments":[{"text":" Yes.","start":0,"end":1,"avg_logprob":-0.1,"no_speech_prob":0.1},{"text":" Bye.","start":1,"end":2,"avg_logprob":-1,"no_speech_prob":0.9}]}`), 0.6)
	if err != nil || len(got.words) != 1 || got.words[0].Text != "Yes." {
		t.Errorf("%+v, %v", got, err)
	}
}

// An utterance without a voice costs no request: models find words in silence.
func TestSilenceIsNotSent(t *testing.T) {
	noise := func(amplitude int) []int16 {
		pcm, seed := make([]int16, 32000), uint32(1)
		for i := range pcm {
			seed = seed*1664525 + 1013904223
			pcm[i] = int16(int(seed>>16)%(2*amplitude+1) - amplitude)
		}
		return pcm
	}
	offset := make([]int16, 32000)
	click := make([]int16, 32000)
	for i := range offset {
		offset[i] = 3000
	}
	for i := range 640 {
		click[8000+i] = int16(20000 * (i%2*2 - 1))
	}
	for _, tt := range []struct {
		name string
		pcm  []int16
		want int
	}{
		{"nothing", nil, 0},
		{"digital silence", make([]int16, 32000), 0},
		{"the line", noise(100), 0},
		{"an offset", offset, 0},
		{"a click", click, 0},
		{"a soft voice", noise(400), 1},
		{"a short word", tone(16000, 120), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, text(`{"text":"Thank you."}`))
			c := begin(t, recognizer(t, s.server.URL, func(c *Config) { c.Interims = 200 * time.Millisecond }), stt.Options{})
			c.Begin()
			c.write(tt.pcm)
			c.Finalize()
			got := c.next()
			for !got.Final {
				got = c.next()
			}
			if (got.Text != "") != (tt.want > 0) || got.Err != nil {
				t.Errorf("%+v", got)
			}
			if n := len(s.requests()); (n > 0) != (tt.want > 0) {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// Interims: a word is known before the utterance ends (BR-153), and the final one does
// not wait for a request that is under way.
func TestInterims(t *testing.T) {
	release := make(chan struct{})
	s := serve(t,
		text(`{"text":"st"}`),
		text(`{"text":"st"}`),
		text(`{"text":"stop"}`),
		func(w http.ResponseWriter, r *http.Request, a asked) { close(release); stalls(w, r, a) },
		text(`{"text":"stop now"}`),
	)
	c := begin(t, recognizer(t, s.server.URL, func(c *Config) { c.Interims = 200 * time.Millisecond; c.PreRoll = 0 }), stt.Options{})
	c.Begin()
	wait := func(n int) {
		for len(s.requests()) < n {
			time.Sleep(time.Millisecond)
		}
	}
	c.write(tone(16000, 350))
	if got := c.next(); got.Final || got.Text != "st" {
		t.Errorf("%+v", got)
	}
	c.write(tone(16000, 200))
	wait(2)
	c.write(tone(16000, 100)) // within the step, or the request of before is under way
	c.write(tone(16000, 200))
	if got := c.next(); got.Final || got.Text != "stop" {
		t.Errorf("%+v", got)
	}
	c.write(tone(16000, 400))
	<-release
	c.Finalize()
	if got := c.next(); !got.Final || got.Text != "stop now" {
		t.Errorf("%+v", got)
	}
	c.nothing()
	if all := s.requests(); len(all) != 5 || len(all[4].pcm) != 20000 {
		t.Errorf("%d requests", len(all))
	}
}

// An interim request that fails is told once, and the final one is tried all the same.
func TestInterimsFail(t *testing.T) {
	s := serve(t, says(400, "application/json", `{"error":{"message":"no"}}`), text(`{"text":"yes"}`))
	c := begin(t, recognizer(t, s.server.URL, func(c *Config) { c.Interims = 100 * time.Millisecond }), stt.Options{})
	c.Begin()
	for range 3 {
		c.write(tone(16000, 150))
	}
	if got := c.next(); got.Err == nil {
		t.Errorf("%+v", got)
	}
	c.write(tone(16000, 300))
	c.Finalize()
	if got := c.next(); !got.Final || got.Text != "yes" {
		t.Errorf("%+v", got)
	}
	if n := len(s.requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// BR-140: an utterance that never ends is bounded, and told to have lost its beginning.
func TestLongUtterance(t *testing.T) {
	s := serve(t, text(`{"text":"la la"}`))
	c := begin(t, recognizer(t, s.server.URL, func(c *Config) { c.MaxUtterance = 2 * time.Second }), stt.Options{})
	c.Begin()
	for range 600 {
		c.write(tone(16000, 100))
	}
	c.Finalize()
	dropped := 0
	for {
		r := c.next()
		if r.Err == ErrDropped {
			dropped++
			continue
		}
		if !r.Final || r.Text != "la la" {
			t.Errorf("%+v", r)
		}
		break
	}
	if n := len(s.requests()[0].pcm); dropped == 0 || n > 32000 || n < 16000 {
		t.Errorf("told %d times, %d samples", dropped, n)
	}
}
