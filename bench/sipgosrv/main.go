// Command sipgosrv is the peer that Parley's signalling is measured beside: sipgo's
// low layer answering calls with 180 and 200, with no dialogs and no media.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
)

func main() {
	host := flag.String("host", "127.77.0.1", "address to bind")
	port := flag.Int("port", 5076, "port to bind")
	flag.Parse()
	if err := run(*host, *port); err != nil {
		fmt.Fprintln(os.Stderr, "sipgosrv:", err)
		os.Exit(1)
	}
}

func run(host string, port int) error {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	slog.SetDefault(quiet)
	sip.SetDefaultLogger(quiet)
	ua, err := sipgo.NewUA()
	if err != nil {
		return err
	}
	defer ua.Close()
	server, err := sipgo.NewServer(ua)
	if err != nil {
		return err
	}
	answer := fmt.Appendf(nil, "v=0\r\no=- 1 1 IN IP4 %s\r\ns=-\r\nc=IN IP4 %s\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0\r\n", host, host)
	contact := sip.NewHeader("Contact", fmt.Sprintf("<sip:agent@%s:%d>", host, port))
	server.OnInvite(func(req *sip.Request, tx sip.ServerTransaction) {
		_ = tx.Respond(sip.NewResponseFromRequest(req, 180, "Ringing", nil))
		ok := sip.NewSDPResponseFromRequest(req, answer)
		ok.AppendHeader(contact)
		_ = tx.Respond(ok)
	})
	server.OnAck(func(*sip.Request, sip.ServerTransaction) {})
	server.OnBye(func(req *sip.Request, tx sip.ServerTransaction) {
		_ = tx.Respond(sip.NewResponseFromRequest(req, 200, "OK", nil))
	})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := server.ListenAndServe(ctx, "udp", fmt.Sprintf("%s:%d", host, port)); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
