// Package wire is what the clients of HTTP services share: one pool of connections
// for all calls, which redirects may be followed, which answers say "not now", event
// streams and lines of JSON in whatever bits they arrive, and what of an answer may
// stand in an error.
package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrorBytes is the most of a service's own text that an error holds.
const ErrorBytes = 512

// Pool keeps as many connections as there may be calls: each of them speaks to the
// same host, for which net/http would keep two. Proxies of the environment are
// honoured.
func Pool() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // a compressor holds words back until it has a block of them
	}
}

// Redirects is the most that are followed for one request.
const Redirects = 5

// Redirect is a CheckRedirect that follows only what keeps method and body (307 and
// 308, RFC 9110 §15.4), never from https to http, and takes the secrets off a request
// that goes to another host: Authorization and the headers named.
func Redirect(secret ...string) func(next *http.Request, via []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		code := next.Response.StatusCode
		first := via[0].URL
		if code != http.StatusTemporaryRedirect && code != http.StatusPermanentRedirect ||
			len(via) > Redirects || first.Scheme == "https" && next.URL.Scheme != "https" {
			return http.ErrUseLastResponse
		}
		next.Header.Del("Referer") // the address may hold a secret in its query
		if next.URL.Host != first.Host {
			next.Header.Del("Authorization")
			for _, name := range secret {
				next.Header.Del(name)
			}
		}
		return nil
	}
}

// Busy tells the status codes of a service, or of what stands before it, that did not
// take the request.
func Busy(code int) bool {
	const overloaded = 529 // of some vendors
	return code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable ||
		code == http.StatusBadGateway || code == overloaded
}

// Unreached tells errors of a request that was never sent.
func Unreached(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH)
}

// Dropped tells errors of a connection that the service closed. On one that served
// before, that is what an idle connection looks like whose time was up just as the
// request was written; net/http does not send a POST again by itself.
func Dropped(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Bare is err without the address that net/http puts before it, which may hold a
// secret. What net/http repeats of an answer that is none, such as its first line, is
// bounded and cleaned.
func Bare(err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	if err == nil {
		return nil
	}
	if text := err.Error(); Clean(text) != text {
		return &cleaned{Clean(text), err}
	}
	return err
}

// cleaned is an error that shows another text.
type cleaned struct {
	text string
	err  error
}

func (e *cleaned) Error() string { return e.text }
func (e *cleaned) Unwrap() error { return e.err }

// RetryAfter is how long a service asks to be left alone, by the header Retry-After
// in seconds or as a date (RFC 9110 §10.2.3), or by retry-after-ms; 0: it does not say.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return seconds(ms / 1000)
	}
	field := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(field, 64); err == nil && s > 0 {
		return seconds(s)
	}
	if at, err := http.ParseTime(field); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// seconds is s as a time of a day at the most.
func seconds(s float64) time.Duration {
	const day = 24 * 60 * 60
	return time.Duration(min(s, day) * float64(time.Second))
}

// Sleep waits, or returns why ctx is done.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// HeaderText is s as a header may carry it: visible ASCII, bounded.
func HeaderText(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		s = url.PathEscape(s)
	}
	return s[:min(len(s), 4096)]
}

// Clean makes at most ErrorBytes of a service's text fit for an error: valid, on one
// line, without control characters, and without the secrets, should the service say
// them back.
func Clean(text string, secrets ...string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[secret]")
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= ErrorBytes {
		return text
	}
	end := ErrorBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Excerpt reads of a body what Clean may need.
func Excerpt(body io.Reader) string {
	b, _ := io.ReadAll(io.LimitReader(body, 4*ErrorBytes))
	return string(b)
}

// Drain reads a little of a body that nobody wants, and closes it, so that the
// connection may serve again.
func Drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close()
}

// Settle waits for the end of a stream whose last word was said, but not long. The
// connection serves again when the end came.
func Settle(ctx context.Context, body io.ReadCloser) {
	stop := time.AfterFunc(50*time.Millisecond, func() { _ = body.Close() })
	defer stop.Stop()
	defer context.AfterFunc(ctx, func() { _ = body.Close() })()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}
