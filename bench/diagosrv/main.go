// Command diagosrv is the peer that Parley is measured beside: diago answering
// calls, decoding what it hears to PCM and playing PCM for ever.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/emiago/diago"
	"github.com/emiago/diago/audio"
	"github.com/emiago/diago/media"
	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
)

func main() {
	host := flag.String("host", "127.77.0.1", "address to bind")
	port := flag.Int("port", 5077, "port to bind")
	jitter := flag.Bool("jitter", false, "with diago's jitter buffer")
	silent := flag.Bool("silent", false, "answer only: no media")
	flag.Parse()

	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	slog.SetDefault(quiet)
	sip.SetDefaultLogger(quiet)
	media.SetDefaultLogger(quiet)

	ua, err := sipgo.NewUA()
	if err != nil {
		fmt.Fprintln(os.Stderr, "diagosrv:", err)
		os.Exit(1)
	}
	d := diago.NewDiago(ua, diago.WithTransport(diago.Transport{Transport: "udp", BindHost: *host, BindPort: *port}), diago.WithLogger(quiet))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = d.Serve(ctx, func(s *diago.DialogServerSession) {
		answered, err := s.Answer(diago.AnswerOptions{})
		if err != nil {
			return
		}
		if !*silent {
			go hear(answered, *jitter)
			go play(answered)
		}
		<-s.Context().Done()
	})
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "diagosrv:", err)
		os.Exit(1)
	}
}

// answered is what an answered diago call can do with sound.
type talker interface {
	AudioReader(...diago.AudioReaderOption) (io.Reader, error)
	PlaybackCreate() (diago.AudioPlayback, error)
}

func hear(m talker, jitter bool) {
	props := diago.MediaProps{}
	opts := []diago.AudioReaderOption{diago.WithAudioReaderMediaProps(&props)}
	if jitter {
		opts = append([]diago.AudioReaderOption{diago.WithAudioReaderJitterBuffer(media.RTPJitterBufferOptions{})}, opts...)
	}
	r, err := m.AudioReader(opts...)
	if err != nil {
		return
	}
	dec := &audio.PCMDecoderReader{}
	if err := dec.Init(props.Codec, r); err != nil {
		return
	}
	for buf := make([]byte, media.RTPBufSize); ; {
		if _, err := dec.Read(buf); err != nil {
			return
		}
	}
}

func play(m talker) {
	p, err := m.PlaybackCreate()
	if err != nil {
		return
	}
	_, _ = p.Play(bytes.NewReader(nil), "audio/pcm") // the first Play sets the playback up
	_, _ = p.Play(&tone{}, "audio/pcm")
}

// tone is a second of 400 Hz over and over.
type tone struct{ at int }

var oneSecond = func() []byte {
	b := make([]byte, 2*8000)
	for i := range 8000 {
		binary.LittleEndian.PutUint16(b[2*i:], uint16(int16(8000*math.Sin(2*math.Pi*400*float64(i)/8000))))
	}
	return b
}()

func (t *tone) Read(p []byte) (int, error) {
	n := copy(p, oneSecond[t.at:])
	t.at = (t.at + n) % len(oneSecond)
	return n, nil
}
