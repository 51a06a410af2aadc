// Package sip is a SIP user agent (RFC 3261) for one purpose: it takes and makes
// calls, keeps their dialogs right, and ends them. It knows nothing of audio or
// of agents; session descriptions pass through it as bytes.
//
// From the socket upwards:
//
//	listen.go udp.go tcp.go   sockets, tls.go over TLS; one datagram or one framed message at a time, in order
//	parse.go message.go       sipgo's parser, and what we read out of a message
//	receive.go validate.go    one place that refuses what is wrong, before there is any state
//	transaction.go client.go  server and client transactions (RFC 3261 section 17, RFC 6026)
//	invite.go answer.go ...   the verbs; one file each
//	prack.go timer.go         reliable provisional responses, session timers
//	dial.go leg.go offer.go   calls and offers of our own; request.go writes what we send
//	fork.go                   one call to several places
//	update.go                 offers before a call is answered (RFC 3311)
//	refer.go subscribe.go     transfers that we ask for, and what is told of them (RFC 3515, RFC 6665)
//	referral.go replaces.go   transfers that the peer asks for, and calls that take another's place (RFC 3891)
//	dialog.go queue.go        dialogs, and the queue that keeps one dialog's requests in order
//	trunk.go register.go ...  trunks: where they are, and our registrations there (binding.go, keepalive.go)
//	auth.go digest.go ...     digest for our requests, and asked of callers (authenticate.go, gate.go)
//
// What is sipgo's and what is ours. Lines, folding and the start line are read by
// sipgo's parser. Its transports and transactions are not used, for reasons that
// cannot be mended from outside: it starts one goroutine per message, so that a
// re-INVITE overtakes the ACK before it; it answers a CANCEL itself, with another
// To tag than the INVITE had; its timers are variables of the package, shared by
// all servers in a process; a response above 1300 bytes is an error; its UDP
// table of peers only grows; and what it cannot parse it drops, where the peer
// is owed a 400. Here every message is read, checked and matched on the
// goroutine of its socket, and only calls to handlers leave it, so the order of
// arrival is kept and no table grows with the number of sources.
//
// Bounds. Server transactions: Config.MaxTransactions (twice that inside
// dialogs). Refusals and OPTIONS outside a dialog are answered without state
// (RFC 3261 section 8.2.7). TCP connections: Config.MaxConnections, each with one
// message buffer of Config.MaxMessage, a deadline for an unfinished message and
// one for idling without a call. Requests waiting in a dialog: queueLength.
// What is left for the layer above: rates per source and access lists belong in
// front of receive, where the address of the peer is known and nothing has been
// parsed. Outgoing calls are not counted here.
//
// Trunks. A Trunk is a value; Server.Register and Server.Dial take it, and what is
// learned about it (its nonces, its realms, where it answers, the way it wants calls
// to take) is kept under its name. A password is worth guessing, and a digest is
// enough to guess it from, so a challenge is only answered when the request went to
// an address of the trunk and the realm is the trunk's: one that is configured, the
// trunk's own name, or one that its registrar used. The Contact that is registered
// has a line parameter of its own: by that our binding is known among others, and
// the registration that a call comes by, whatever the host of its Request-URI is.
//
// A call of ours lives by the callbacks of its INVITE's transaction (leg.go), so
// that whoever called may go away: an answer that comes late, or from a second
// phone, is acknowledged and ended by itself. Once answered it is a Dialog like any
// other; offers, session timers and BYE know no difference but whose the Call-ID is.
//
// Transfers. A REFER makes a subscription beside the call, in the same dialog, and
// each ends by itself (RFC 5057): the peer may hang up before the target has answered,
// and a transfer that fails leaves the call as it was. So Dialog.Refer only tells the
// outcome, and hangs up nothing; Invite.Replaces only finds the call that is to be
// replaced. REFER and SUBSCRIBE outside of a call are refused.
//
// Several telephones. Every To tag makes a dialog of its own. Before the answer they
// are early dialogs, in which offers may be made by UPDATE; the first 2xx is taken,
// the next ones are acknowledged and ended, and what has not answered is forgotten
// with the transaction.
//
// Where a trunk is. Trunk.Hosts, or the first of Trunk.Proxy, are looked up for SRV
// records and then for addresses, and all of them are tried in order (RFC 3263 section
// 4.2 and 4.3). NAPTR records are not asked for: they choose the transport, which a
// Trunk names itself, and the system's resolver cannot ask for them.
package sip
