package api

import (
	"net"
	"sync"
)

// bound lets l have at most n connections at once. More wait where the system
// queues them.
func bound(l net.Listener, n int) net.Listener {
	return &boundListener{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{})}
}

type boundListener struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	close  sync.Once
}

// Accept waits for a place, then for a connection.
func (l *boundListener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &boundConn{Conn: c, places: l.places}, nil
}

// Close ends a waiting Accept too.
func (l *boundListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type boundConn struct {
	net.Conn
	places chan struct{}
	close  sync.Once
}

// Close gives the place back, once.
func (c *boundConn) Close() error {
	defer c.close.Do(func() { <-c.places })
	return c.Conn.Close()
}
