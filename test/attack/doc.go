// Package attack holds a server under fire: made-up sources, connections that
// drip, streams without an end. Its tests run the server as a process of its own,
// so that what it takes can be measured, and call it all the while.
package attack
