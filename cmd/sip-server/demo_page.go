package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"github.com/zaf/g711"
)

//go:embed demo.html
var demoHTML string

//go:embed demo.js
var demoScript string

// pageCall is one call on the page. All times are in seconds since the INVITE.
type pageCall struct {
	Name   string  `json:"name"`
	Length float64 `json:"length"`
	// Offset is where the sound begins.
	Offset  float64      `json:"offset"`
	Sound   pageSound    `json:"sound"`
	Turns   []pageTurn   `json:"turns"`
	Voice   pageSpans    `json:"voice"`
	Lost    pageTimes    `json:"lost"`
	Waits   []pageWait   `json:"waits"`
	Marks   []pageMark   `json:"marks"`
	Figures []pageFigure `json:"figures"`
	Events  []pageEvent  `json:"events"`
}

// pageSound is both directions as u-law at 8 kHz, gzipped, in base64.
type pageSound struct {
	Caller string `json:"caller"`
	Agent  string `json:"agent"`
}

// pageTurn is a block of words, or a key.
type pageTurn struct {
	Who  string  `json:"who"` // "caller" or "agent"
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Text string  `json:"text"`
	// Heard is what of Text the caller heard, when that is not all.
	Heard *string `json:"heard,omitempty"`
	// Cut is set when the turn was interrupted.
	Cut   bool   `json:"cut,omitempty"`
	Key   string `json:"key,omitempty"`
	Note  string `json:"note,omitempty"`
	Tag   string `json:"tag,omitempty"`
	Alarm bool   `json:"alarm,omitempty"` // the tag is about an interruption
}

type pageSpans struct {
	Caller [][2]float64 `json:"caller"`
	Agent  [][2]float64 `json:"agent"`
}

type pageTimes struct {
	Caller []float64 `json:"caller"`
	Agent  []float64 `json:"agent"`
}

// pageWait is an arrow on the time axis.
type pageWait struct {
	Kind string  `json:"kind"` // "answer", "reply" or "barge-in"
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Text string  `json:"text"`
}

type pageMark struct {
	At   float64 `json:"at"`
	Text string  `json:"text"`
}

type pageFigure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Unit  string `json:"unit,omitempty"`
}

type pageEvent struct {
	At   float64 `json:"at"`
	Type string  `json:"type"`
	Text string  `json:"text"`
}

// writePage writes the calls as one page that needs nothing else.
func writePage(w io.Writer, title, subtitle string, calls []pageCall) error {
	t, err := template.New("demo").Parse(demoHTML)
	if err != nil {
		return err
	}
	data, err := json.Marshal(calls) // escapes <, > and &, so it cannot end the script element
	if err != nil {
		return err
	}
	return t.Execute(w, map[string]any{
		"Title": title, "Subtitle": subtitle, "Calls": template.JS(data), "Script": template.JS(demoScript),
	})
}

// packSound makes the bytes that the page plays.
func packSound(pcm []int16) (string, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	coded := make([]byte, len(pcm))
	for i, v := range pcm {
		coded[i] = g711.EncodeUlawFrame(v)
	}
	if _, err := z.Write(coded); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("packing sound: %w", err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}
