package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
)

// The bounds of a JWKS.
const (
	maxJWKS = 512 << 10 // bytes
	maxKeys = 32        // each may have to be tried for a token without kid
)

// minUnknown is the least time between two readings that tokens with unknown keys
// ask for. Strangers can send as many of those as they like.
const minUnknown = 10 * time.Second

// fetcher reads a JWKS.
type fetcher func(ctx context.Context) ([]byte, error)

// keySet are the keys of a JWKS, read by one goroutine: regularly, and when a
// token asks for a key that is not among them. When reading fails the keys stay.
type keySet struct {
	fetch    fetcher
	interval time.Duration
	timeout  time.Duration
	report   func(error)

	ask   chan struct{} // a reading is wanted
	stop  context.CancelFunc
	ended chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex
	keys  []verifyKey
	last  time.Time     // when a reading was last begun
	ready chan struct{} // closed when the reading under way has ended; nil: none is
}

// newKeySet begins to read. A file is read at once, and its mistakes are errors;
// an address may be down for a while.
func newKeySet(cfg TokenConfig, fetch fetcher) (*keySet, error) {
	ctx, stop := context.WithCancel(context.Background())
	s := &keySet{
		fetch: fetch, interval: cfg.RefreshInterval, timeout: cfg.RefreshTimeout, report: cfg.Report,
		ask: make(chan struct{}, 1), stop: stop, ended: make(chan struct{}),
	}
	if s.report == nil {
		s.report = func(error) {}
	}
	if !isURL(cfg.JWKS) {
		s.begin()
		if err := s.read(ctx); err != nil {
			stop()
			return nil, err
		}
	} else {
		s.begin()
		s.ask <- struct{}{}
	}
	go s.run(ctx)
	return s, nil
}

// run is the goroutine.
func (s *keySet) run(ctx context.Context) {
	defer close(s.ended)
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.finish(nil)
			return
		case <-tick.C:
			s.begin()
		case <-s.ask:
		}
		if err := s.read(ctx); err != nil && ctx.Err() == nil {
			s.report(err)
		}
	}
}

// begin marks that a reading is under way. The caller holds no lock.
func (s *keySet) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beginLocked()
}

func (s *keySet) beginLocked() {
	if s.ready == nil {
		s.ready, s.last = make(chan struct{}), time.Now()
	}
}

// read reads once.
func (s *keySet) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	text, err := s.fetch(ctx)
	var keys []verifyKey
	if err == nil {
		keys, err = parseJWKS(text)
	}
	s.finish(keys)
	if err != nil {
		return fmt.Errorf("identity: jwks: %w", err)
	}
	return nil
}

// finish puts keys in force, unless there are none, and tells who waits.
func (s *keySet) finish(keys []verifyKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if keys != nil {
		s.keys = keys
	}
	if s.ready != nil {
		close(s.ready)
		s.ready = nil
	}
}

// current are the keys that are known.
func (s *keySet) current() []verifyKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

// renewed are the keys after a reading, if one may be asked for now: it waits for
// the one under way, or begins one if the last is long enough ago.
func (s *keySet) renewed() []verifyKey {
	s.mu.Lock()
	if s.ready == nil && time.Since(s.last) >= minUnknown {
		select {
		case <-s.ended: // nobody reads any more
		default:
			s.beginLocked()
			select {
			case s.ask <- struct{}{}:
			default: // it is asked already
			}
		}
	}
	ready, keys := s.ready, s.keys
	s.mu.Unlock()
	if ready == nil {
		return keys
	}
	wait := time.NewTimer(s.timeout)
	defer wait.Stop()
	select {
	case <-ready:
	case <-wait.C:
	case <-s.ended:
	}
	return s.current()
}

// close ends the goroutine and waits for it.
func (s *keySet) close() {
	s.stop()
	<-s.ended
}

// parseJWKS reads a JWK Set (RFC 7517 section 5). Keys that are of no use here
// are passed over, as it says: those for encryption, of unknown kinds, too weak,
// and shared secrets, which nobody publishes. It is an error when no key is left.
func parseJWKS(text []byte) ([]verifyKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("is no JWK Set")
	}
	var out []verifyKey
	for _, raw := range set.Keys {
		if k, ok := parseJWK(raw); ok && len(out) < maxKeys {
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("holds no key that can check a signature")
	}
	return out, nil
}

func parseJWK(raw json.RawMessage) (verifyKey, bool) {
	var m jwkset.JWKMarshal
	if err := json.Unmarshal(raw, &m); err != nil || m.KTY == jwkset.KtyOct {
		return verifyKey{}, false
	}
	if m.USE != "" && m.USE != jwkset.UseSig || len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify) || len(m.KID) > maxKeyID {
		return verifyKey{}, false
	}
	// Only the key itself is handed on: certificates and addresses of them
	// (x5c, x5u) are neither followed nor needed.
	j, err := jwkset.NewJWKFromMarshal(jwkset.JWKMarshal{KTY: m.KTY, CRV: m.CRV, X: m.X, Y: m.Y, N: m.N, E: m.E},
		jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return verifyKey{}, false
	}
	k, err := publicKey(j.Key())
	if err != nil {
		return verifyKey{}, false
	}
	k.id, k.alg = m.KID, string(m.ALG)
	return k, true
}

// isURL tells an address from a file's name.
func isURL(where string) bool {
	scheme, _, ok := strings.Cut(where, "://")
	return ok && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http"))
}

// isLoopback says whether host is this machine.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// readJWKS reads a JWKS file.
func readJWKS(name string) ([]verifyKey, error) {
	text, err := readKeyFile(name)
	if err != nil {
		return nil, fmt.Errorf("identity: jwks: %w", err)
	}
	keys, err := parseJWKS(text)
	if err != nil {
		return nil, fmt.Errorf("identity: jwks: %s: %w", name, err)
	}
	return keys, nil
}

// newFetcher reads the file or the address of cfg.
func newFetcher(cfg TokenConfig) (fetcher, error) {
	if !isURL(cfg.JWKS) {
		return func(context.Context) ([]byte, error) { return readKeyFile(cfg.JWKS) }, nil
	}
	u, err := url.Parse(cfg.JWKS)
	if err != nil {
		return nil, errors.New("identity: jwks: is no address")
	}
	return overHTTP(&http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: cfg.RefreshTimeout}).DialContext,
		TLSHandshakeTimeout: cfg.RefreshTimeout, ResponseHeaderTimeout: cfg.RefreshTimeout,
		DisableKeepAlives: true, // one request in minutes
	}, u), nil
}

// overHTTP reads the JWKS at u and nowhere else: an answer that leads to another
// address is refused, so nobody can make this machine ask inside its network.
func overHTTP(transport http.RoundTripper, u *url.URL) fetcher {
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return func(ctx context.Context) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/jwk-set+json, application/json")
		resp, err := client.Do(req)
		if err != nil {
			return nil, withoutQuery(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("answered %d, must be 200", resp.StatusCode)
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxJWKS+1))
		if err != nil {
			return nil, err
		}
		if len(text) > maxJWKS {
			return nil, fmt.Errorf("answered more than %d bytes", maxJWKS)
		}
		return text, nil
	}
}

// withoutQuery takes the address off an error: a query may be a secret.
func withoutQuery(err error) error {
	if wrong := (*url.Error)(nil); errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}
