package sdp

import "errors"

var errSkeleton = errors.New("sdp: not there yet")

type Session struct{}

func Parse(b []byte) (*Session, error) { return nil, errSkeleton }
func Answer(offer *Session, l Local) (text []byte, m Media, err error) {
	return nil, Media{}, errSkeleton
}
func Offer(l Local) []byte                                               { return nil }
func Accept(offer []byte, answer *Session, l Local) (m Media, err error) { return Media{}, errSkeleton }
func Changed(a, b []byte) bool                                           { return false }
