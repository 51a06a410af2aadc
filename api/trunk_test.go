package api

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"
)

func TestTrunks(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		source func() []Trunk
		want   string
	}{
		{nil, `[]`},
		{func() []Trunk { return nil }, `[]`},
		{func() []Trunk {
			return []Trunk{
				{Name: "carrier", State: TrunkRegistered, Registrar: "192.0.2.1:5060", Since: since, Expires: since.Add(time.Hour), Next: since.Add(time.Minute), Code: 200},
				{Name: "pbx", State: TrunkFailed, Code: 403, LastError: "sip: registrar answered 403", Failures: 3},
				{Name: "peer", State: TrunkUnregistered},
			}
		}, `[{"name":"carrier","state":"registered","registrar":"192.0.2.1:5060","since":"2026-01-02T03:04:05Z","expires":"2026-01-02T04:04:05Z","next":"2026-01-02T03:05:05Z","code":200,"failures":0},` +
			`{"name":"pbx","state":"failed","code":403,"last_error":"sip: registrar answered 403","failures":3},{"name":"peer","state":"unregistered","failures":0}]`},
	} {
		s, err := New(DefaultConfig(), Parts{Ready: func() error { return nil }, Metrics: NewMetrics(Sources{Trunks: c.source})})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, request("GET", "/trunks", "", ""))
		if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" || w.Body.String() != c.want+"\n" || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %q\n got %s\nwant %s", w.Code, w.Header(), w.Body, c.want)
		}
	}
}
