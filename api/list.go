package api

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"parley/call"
)

// The bounds of one page of calls.
const (
	pageSize = 50
	maxPage  = 200
)

// page is an answer of GET /calls.
type page struct {
	Calls []call.Status `json:"calls"`
	// Next is the cursor of the next page, absent on the last.
	Next string `json:"next,omitempty"`
}

// filter is what GET /calls is asked for.
type filter struct {
	states []string
	equal  []func(call.Status) bool
	limit  int
	after  position
}

// position is a place in the list, which has the newest calls first.
type position struct {
	began int64
	id    string
}

// positionOf is where a call stands.
func positionOf(c call.Status) position { return position{c.Began.UnixNano(), c.ID} }

// compare orders positions as the list does.
func (p position) compare(q position) int {
	switch {
	case p.began > q.began:
		return -1
	case p.began < q.began:
		return 1
	}
	return strings.Compare(p.id, q.id)
}

// cursor writes p for clients, who are not to read it.
func (p position) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.began, 36) + "." + p.id))
}

// parseCursor reads what cursor wrote.
func parseCursor(s string) (position, bool) {
	text, err := base64.RawURLEncoding.DecodeString(s)
	began, id, ok := strings.Cut(string(text), ".")
	n, err2 := strconv.ParseInt(began, 36, 64)
	return position{n, id}, err == nil && err2 == nil && ok && id != ""
}

// listCalls is GET /calls.
func (s *Server) listCalls(w http.ResponseWriter, r *http.Request, _ client) error {
	f, err := parseFilter(r.URL.RawQuery)
	if err != nil {
		return err
	}
	var list []call.Status
	for _, c := range s.parts.Calls.Calls() {
		if f.takes(c) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b call.Status) int { return positionOf(a).compare(positionOf(b)) })
	p := page{Calls: []call.Status{}} // an empty list, not null
	if len(list) > f.limit {
		list = list[:f.limit]
		p.Next = positionOf(list[f.limit-1]).cursor()
		query, err := parseQuery(r.URL.RawQuery)
		if err != nil {
			return err
		}
		query.Set("cursor", p.Next)
		w.Header().Set("Link", "</calls?"+query.Encode()+`>; rel="next"`)
	}
	p.Calls = append(p.Calls, list...)
	give(w, http.StatusOK, p)
	return nil
}

// takes says whether c is asked for.
func (f *filter) takes(c call.Status) bool {
	if len(f.states) > 0 && !slices.Contains(f.states, c.State) || f.after.id != "" && f.after.compare(positionOf(c)) >= 0 {
		return false
	}
	for _, equal := range f.equal {
		if !equal(c) {
			return false
		}
	}
	return true
}

// states are the states of calls.
func states() []string {
	return []string{call.StateDialling, call.StateRinging, call.StateAnswered, call.StateHeld, call.StateEnding, call.StateEnded}
}

// parseQuery reads a query. A plus sign in one is a space, but nobody who asks for a
// number means that.
func parseQuery(raw string) (url.Values, error) {
	query, err := url.ParseQuery(strings.ReplaceAll(raw, "+", "%2B"))
	if err != nil {
		return nil, trouble(http.StatusBadRequest, "bad_query", "The query cannot be read.", "Escape it as RFC 3986 says.")
	}
	return query, nil
}

// parseFilter reads the query of GET /calls.
func parseFilter(raw string) (*filter, error) {
	query, err := parseQuery(raw)
	if err != nil {
		return nil, err
	}
	f := &filter{limit: pageSize}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := query[name]
		if name != "state" && len(values) > 1 {
			return nil, wrongField(shorten(name), "The parameter is there twice.", "Send it once.")
		}
		if err := f.read(name, values); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// read takes one parameter.
func (f *filter) read(name string, values []string) error {
	value := values[0]
	is := func(of func(call.Status) string) {
		f.equal = append(f.equal, func(c call.Status) bool { return of(c) == value })
	}
	switch name {
	case "state":
		for _, v := range values {
			f.states = append(f.states, strings.Split(v, ",")...)
		}
		for _, state := range f.states {
			if !slices.Contains(states(), state) {
				return wrongField(name, "There is no such state.", "Use "+strings.Join(states(), ", ")+".")
			}
		}
	case "direction":
		if value != "inbound" && value != "outbound" {
			return wrongField(name, "There is no such direction.", "Use inbound or outbound.")
		}
		is(func(c call.Status) string { return c.Direction })
	case "trunk":
		is(func(c call.Status) string { return c.Trunk })
	case "agent":
		is(func(c call.Status) string { return c.Agent })
	case "caller":
		is(func(c call.Status) string { return c.Caller })
	case "called":
		is(func(c call.Status) string { return c.Called })
	case "resource_id":
		is(func(c call.Status) string { return c.ResourceID })
	case "limit":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxPage {
			return wrongField(name, fmt.Sprintf("It must be a number between 1 and %d.", maxPage), "Follow next for more.")
		}
		f.limit = n
	case "cursor":
		p, ok := parseCursor(value)
		if !ok {
			return wrongField(name, "It is no cursor.", "Send next of the page before, as it is.")
		}
		f.after = p
	default:
		return trouble(http.StatusBadRequest, "unknown_field", "There is no such parameter.",
			"Use state, direction, trunk, agent, caller, called, resource_id, limit or cursor.").on(shorten(name))
	}
	return nil
}
