package stream

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"parley/agent"
)

// maxMessage bounds one message of an agent, in bytes.
const maxMessage = 8 << 20

// The headers by which an agent knows who calls, beside Authorization.
const (
	headerCall      = "X-Call-Id"
	headerSession   = "X-Session-Id"
	headerIdentity  = "X-Identity-Token"
	headerSignature = "X-Twilio-Signature"
)

// statusError is an agent that answered with another status than 101.
type statusError struct{ code int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the agent answered with status %d", e.code)
}

// final says that to ask again is of no use.
func (e *statusError) final() bool {
	return e.code >= 400 && e.code < 500 && e.code != http.StatusRequestTimeout && e.code != http.StatusTooManyRequests
}

// newTransport makes the connections of one opener. None of them is used twice.
func newTransport() http.RoundTripper {
	return &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
	}
}

// signature is X-Twilio-Signature of a URL: what Twilio's own libraries verify.
func signature(token, url string) string {
	mac := hmac.New(sha1.New, []byte(token))
	mac.Write([]byte(url))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// dial connects to the agent for a call.
func (o *opener) dial(ctx context.Context, c agent.Call) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.ConnectTimeout)
	defer cancel()
	header := http.Header{}
	header.Set(headerCall, c.ID)
	header.Set(headerSession, c.SessionID)
	if o.cfg.APIKey != "" {
		header.Set("Authorization", "Bearer "+o.cfg.APIKey)
	}
	if c.Token != "" {
		header.Set(headerIdentity, c.Token)
	}
	if o.cfg.AuthToken != "" {
		header.Set(headerSignature, signature(o.cfg.AuthToken, o.cfg.URL))
	}
	l := &link{since: time.Now(), done: make(chan struct{})}
	l.life, l.end = context.WithCancel(context.Background())
	// The connection itself, for deadlines that cost nothing.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { l.wire = info.Conn }})
	conn, resp, err := websocket.Dial(ctx, o.cfg.URL, &websocket.DialOptions{HTTPClient: o.client, HTTPHeader: header})
	switch {
	case err == nil && l.wire == nil:
		_ = conn.CloseNow()
		return nil, errors.New("the transport does not tell its connections")
	case err == nil:
		conn.SetReadLimit(maxMessage)
		l.conn = conn
		return l, nil
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, &statusError{resp.StatusCode}
	}
	return nil, plain(ctx, err)
}

// plain is err without the URL, which may hold a secret, and with no more of what the
// agent answered than an error may show.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return &unanswered{clip(err.Error(), maxComplaint), err}
}

// unanswered is an agent that could not be reached, or did not answer as one.
type unanswered struct {
	text string
	err  error
}

func (e *unanswered) Error() string { return e.text }
func (e *unanswered) Unwrap() error { return e.err }

// noRedirects: a secret would go with them.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// longAgo is a deadline that ends whatever is under way.
func longAgo() time.Time { return time.Unix(1, 0) }
