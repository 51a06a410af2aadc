package socket

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/coder/websocket"

	"parley/agent/live"
)

// Closed is how the service ended the connection (RFC 6455, section 7.4).
type Closed struct {
	Code int
	// Reason is the service's text, cleaned.
	Reason string
}

// Error implements error.
func (c *Closed) Error() string {
	if c.Reason == "" {
		return fmt.Sprintf("the service closed it (%d)", c.Code)
	}
	return fmt.Sprintf("the service closed it (%d: %s)", c.Code, c.Reason)
}

// newTransport is that of one connection: nothing of it is kept.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		DisableKeepAlives:   true,
	}
}

// refused says why a handshake failed.
func (c Config) refused(ctx context.Context, resp *http.Response, err error) error {
	if resp == nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: connecting: %w", c.Name, ctx.Err())
		}
		var inURL *url.Error
		if errors.As(err, &inURL) {
			err = inURL.Err // without the address, which may hold a secret
		}
		kind := live.ErrLost
		var certificate *tls.CertificateVerificationError
		if errors.As(err, &certificate) {
			kind = live.ErrRejected
		}
		return fmt.Errorf("%s: connecting: %w: %s", c.Name, kind, c.Clean(err.Error()))
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return fmt.Errorf("%s: connecting: %w: its handshake is no WebSocket's", c.Name, live.ErrRejected)
	}
	kind := OfStatus(resp.StatusCode)
	said := ""
	if kind != live.ErrAuth && resp.StatusCode >= 400 { // what it says of a key often repeats it
		said = c.said(resp.Body)
	}
	if said != "" {
		said = ": " + said
	}
	return fmt.Errorf("%s: connecting: %w: HTTP %d%s", c.Name, kind, resp.StatusCode, said)
}

// OfStatus is the error of agent/live for the status of an HTTP response.
func OfStatus(status int) error {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return live.ErrAuth
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500:
		return live.ErrBusy
	}
	return live.ErrRejected
}

// said is the message of a refusal, from the JSON that both services use.
func (c Config) said(body io.Reader) string {
	if body == nil {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(body, 1024))
	if err != nil || len(text) == 0 {
		return ""
	}
	var refusal struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(text, &refusal) == nil && refusal.Error.Message != "" {
		return c.Clean(refusal.Error.Message)
	}
	return c.Clean(string(text))
}

// lost says why a connection ended.
func (c Config) lost(err error) error {
	var frame websocket.CloseError
	if errors.As(err, &frame) {
		return fmt.Errorf("%s: %w: %w", c.Name, live.ErrLost, &Closed{Code: int(frame.Code), Reason: c.Clean(frame.Reason)})
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w: it ended without a word", c.Name, live.ErrLost)
	}
	return fmt.Errorf("%s: %w: %s", c.Name, live.ErrLost, c.Clean(err.Error()))
}

// maxSaid bounds what is repeated of a service's texts, in characters.
const maxSaid = 240

// Clean makes a text of the service fit for an error or a log: one line, printable,
// bounded, and without the secrets.
func (c Config) Clean(text string) string {
	for _, secret := range c.Secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	var b strings.Builder
	n := 0
	for _, word := range strings.Fields(text) {
		word = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
				return -1
			}
			return r
		}, word)
		if strings.Contains(word, "sk-") || strings.Contains(word, "AIza") {
			word = "…" // services repeat keys, with stars in their middle
		}
		if word == "" {
			continue
		}
		if n > 0 {
			b.WriteByte(' ')
			n++
		}
		for _, r := range word {
			if n >= maxSaid {
				return b.String() + "…"
			}
			b.WriteRune(r)
			n++
		}
	}
	return b.String()
}
