package deepgram

import (
	"strconv"
	"testing"
	"time"

	"parley/agent/live/socket/sockettest"
	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

func TestSuite(t *testing.T) {
	for _, rate := range []int{8000, 16000} {
		for _, interims := range []bool{true, false} {
			t.Run(strconv.Itoa(rate)+" interims "+strconv.FormatBool(interims), func(t *testing.T) {
				s := sockettest.Loopback(t, func(p *sockettest.Peer) { checked(p, rate).listen() })
				stttest.Run(t, stttest.Subject{
					New: func(t *testing.T) stt.Recognizer {
						return recognizer(t, s, func(c *Config) {
							c.Rate, c.Interims, c.Endpointing, c.UtteranceEnd = rate, interims, 0, 0
						})
					},
					Options:  stt.Options{Language: "en-GB", Expect: stt.Expect{Phrases: []string{"hello"}}},
					Speech:   speechOf(rate),
					Text:     "hello",
					Patience: 20 * time.Second,
				})
			})
		}
	}
}
