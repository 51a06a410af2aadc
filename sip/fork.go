package sip

import (
	"context"
	"errors"
	"sync/atomic"
)

// Attempt is one of the places where a call may be answered.
type Attempt struct {
	// Trunk, Outgoing and Handler are what Server.Dial takes.
	Trunk    Trunk
	Outgoing Outgoing
	Handler  DialogHandler
	// Before, when set, is called right before the place is, and may change Outgoing,
	// such as its Offer. An error of it is the outcome of this place.
	Before func(*Outgoing) error
	// Failed, when set, is told why the place did not take the call, before DialFirst
	// returns; not of a place that was not called any more. Of places that are called
	// at the same time both may be called at the same time.
	Failed func(error)
}

// elsewhereReason goes with the BYE of an answer that came too late.
var elsewhereReason = Reason{Protocol: "SIP", Cause: 200, Text: "Call completed elsewhere"}

// cancelReason goes with the CANCEL of an INVITE that was given up for err: that another
// was faster, or refused for all (RFC 3326 section 2).
func cancelReason(err error) Reason {
	var e *DialError
	switch {
	case errors.Is(err, ErrElsewhere):
		return elsewhereReason
	case errors.As(err, &e) && e.Code/100 == 6:
		return Reason{Protocol: "SIP", Cause: e.Code, Text: e.Phrase}
	}
	return Reason{}
}

// DialFirst calls several places, all at the same time or one after the other, and
// takes the first answer; n says whose it is. The others are cancelled, and answers
// of theirs that come all the same are acknowledged and ended. Only the Handler of
// the taken one has Answer called, unless that returned an error. A 6xx says that
// nobody is to be asked any more: what rings is cancelled (RFC 3261 section 16.7). When
// nobody answers the error is a *DialError, that of the best refusal by the rules of
// that section, and n is whose it is; an Attempt that is wrong in itself has an error
// of another kind, which is told only when there is no other. Everything that
// DialFirst began has ended when it returns but what ends late answers.
func (s *Server) DialFirst(ctx context.Context, attempts []Attempt, parallel bool) (d *Dialog, n int, err error) {
	if len(attempts) == 0 {
		return nil, -1, errors.New("sip: nobody to call")
	}
	f := &forking{s: s, attempts: attempts, results: make(chan forked, len(attempts))}
	if parallel {
		return f.parallel(ctx)
	}
	return f.serial(ctx)
}

// forking is a call to several places.
type forking struct {
	s        *Server
	attempts []Attempt
	results  chan forked
	taken    atomic.Bool // an answer is, or is about to be
}

// forked is the outcome of one attempt.
type forked struct {
	n   int
	d   *Dialog
	err error
}

// try makes one attempt. Of answers that come at the same moment one is taken; when
// the handler refuses it the next may be.
func (f *forking) try(ctx context.Context, n int) forked {
	a := f.attempts[n]
	d, err := f.call(ctx, a)
	if err != nil && a.Failed != nil {
		a.Failed(err)
	}
	return forked{n, d, err}
}

// call is try for one attempt.
func (f *forking) call(ctx context.Context, a Attempt) (*Dialog, error) {
	if a.Before != nil {
		if err := a.Before(&a.Outgoing); err != nil {
			return nil, err
		}
	}
	claimed := false
	d, err := f.s.dial(ctx, a.Trunk, a.Outgoing, a.Handler, func() bool {
		claimed = f.taken.CompareAndSwap(false, true)
		return claimed
	})
	if err != nil && claimed {
		f.taken.Store(false)
	}
	return d, err
}

func (f *forking) serial(ctx context.Context) (*Dialog, int, error) {
	var best forked
	for n := range f.attempts {
		r := f.try(ctx, n)
		if r.err == nil {
			return r.d, r.n, nil
		}
		best = better(best, r)
		if ctx.Err() != nil || final(r.err) {
			break
		}
	}
	return nil, best.n, best.err
}

func (f *forking) parallel(ctx context.Context) (*Dialog, int, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for n := range f.attempts {
		go func() { f.results <- f.try(ctx, n) }()
	}
	var best, won forked
	for range f.attempts {
		r := <-f.results
		switch {
		case r.err == nil:
			won = r
			stop(ErrElsewhere)
		case final(r.err):
			stop(r.err)
			fallthrough
		default:
			best = better(best, r)
		}
	}
	if won.d != nil {
		return won.d, won.n, nil
	}
	return nil, best.n, best.err
}

// final says that a refusal is meant for all places.
func final(err error) bool {
	var e *DialError
	return errors.As(err, &e) && e.Code/100 == 6
}

// better is the outcome that says more (RFC 3261 section 16.7 number 6): a 6xx, else
// the lowest class, and of 4xx those first that tell what to do. What had no answer
// counts as 408. That a call was given up for the other's sake says nothing.
func better(a, b forked) forked {
	if a.err == nil || rank(b.err) < rank(a.err) {
		return b
	}
	return a
}

func rank(err error) int {
	var e *DialError
	switch {
	case !errors.As(err, &e):
		return 900 // a mistake of ours
	case errors.Is(err, ErrElsewhere):
		return 800
	case e.Code/100 == 6:
		return 0
	case e.Code == 0:
		return 450 // 408 of our own making: any that was told is better
	}
	switch e.Code {
	case 401, 407, 415, 420, 484:
		return 400
	}
	return e.Code/100*100 + 10
}
