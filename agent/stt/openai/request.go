package openai

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/agent/stt"
)

// maxPrompt bounds the prompt, in bytes: models look at the last 224 tokens, and some
// services refuse more.
const maxPrompt = 800

// shortest is what a file holds at least, in ms: whisper.cpp does not look at less than
// a second, OpenAI refuses less than a tenth.
const shortest = 1100

// request is the body of a request for pcm, and its media type.
func (c Config) request(pcm []int16, language string, e stt.Expect, stream bool) (body []byte, contentType string, err error) {
	var b bytes.Buffer
	b.Grow(2*len(pcm) + 4096)
	w := multipart.NewWriter(&b)
	fields := [][2]string{{"model", c.Model}, {"response_format", c.format()}}
	add := func(name, value string) { fields = append(fields, [2]string{name, value}) }
	if l := iso639(language); l != "" {
		add("language", l)
	}
	if p := prompt(c.Prompt, e.Phrases); p != "" {
		add("prompt", p)
	}
	if c.Temperature != nil {
		add("temperature", strconv.FormatFloat(*c.Temperature, 'g', -1, 64))
	}
	if c.format() == VerboseJSON {
		if c.Words {
			add("timestamp_granularities[]", "word")
		}
		add("timestamp_granularities[]", "segment")
	}
	if c.logprobs() {
		add("include[]", "logprobs")
	}
	if stream {
		add("stream", "true")
	}
	names := make([]string, 0, len(c.Extra))
	for name := range c.Extra {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add(name, c.Extra[name])
	}
	for _, f := range fields {
		if err := w.WriteField(f[0], f[1]); err != nil {
			return nil, "", fmt.Errorf("stt/openai: the request: %w", err)
		}
	}
	h := textproto.MIMEHeader{}
	h.Set("Content-Disposition", `form-data; name="file"; filename="speech.wav"`)
	h.Set("Content-Type", "audio/wav")
	file, err := w.CreatePart(h)
	if err == nil {
		_, err = file.Write(wav(pcm, c.Rate))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, "", fmt.Errorf("stt/openai: the request: %w", err)
	}
	return b.Bytes(), w.FormDataContentType(), nil
}

// wav is a file that holds pcm, and silence behind it when it is short.
func wav(pcm []int16, rate int) []byte {
	size := 2 * max(len(pcm), shortest*rate/1000)
	b := make([]byte, 44, 44+size)
	le := binary.LittleEndian
	copy(b, "RIFF")
	le.PutUint32(b[4:], uint32(36+size)) //nolint:gosec // two minutes at the most
	copy(b[8:], "WAVEfmt ")
	le.PutUint32(b[16:], 16)             // of the format's bytes
	le.PutUint16(b[20:], 1)              // PCM
	le.PutUint16(b[22:], 1)              // channels
	le.PutUint32(b[24:], uint32(rate))   //nolint:gosec // 8000 or 16000
	le.PutUint32(b[28:], uint32(2*rate)) //nolint:gosec // the same
	le.PutUint16(b[32:], 2)              // bytes of a sample
	le.PutUint16(b[34:], 16)             // its bits
	copy(b[36:], "data")
	le.PutUint32(b[40:], uint32(size)) //nolint:gosec // two minutes at the most
	for _, x := range pcm {
		b = le.AppendUint16(b, uint16(x)) //nolint:gosec // the bits are meant
	}
	return b[:44+size]
}

// iso639 is the language of a BCP 47 tag as services want it: "en" for "en-US".
func iso639(tag string) string {
	l, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(tag), "_", "-"), "-")
	if len(l) < 2 || len(l) > 3 || strings.ContainsFunc(l, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return ""
	}
	return l
}

// prompt is p with the phrases behind it, as far as there is room for them.
func prompt(p string, phrases []string) string {
	var b strings.Builder
	b.WriteString(p)
	between := ""
	if p != "" {
		between = " "
	}
	for _, phrase := range phrases {
		phrase = clean(phrase)
		if phrase == "" {
			continue
		}
		if b.Len()+len(between)+len(phrase) > maxPrompt {
			break
		}
		b.WriteString(between + phrase)
		between = ", "
	}
	return b.String()
}

// clean is text on one line without what cannot be printed.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.Is(unicode.Cf, r):
			return -1
		case r == '\u202a' || r == '\u202b' || r == '\u202d' || r == '\u202e' || r == '\u2066' || r == '\u2067' || r == '\u2068':
			return -1 // turns what stands behind it around
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
