// Package torture is a set of SIP messages in the manner of RFC 4475 and RFC 5118,
// under the names of their tests and written anew, with what a user agent that is
// neither registrar nor proxy has to answer. It is for tests.
package torture

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

//go:embed messages
var files embed.FS

// Message is one of the set.
type Message struct {
	// Name is that of the RFC's test.
	Name string
	// About says in a line what is special.
	About string
	// UDP and TCP are what has to come back.
	UDP, TCP Answer
	text     string
}

// Answer is what has to come back.
type Answer struct {
	// Code is the status of the final response; 0: nothing may come.
	Code int
	// Closed: a connection ends afterwards.
	Closed bool
	// Second is the status of the answer to a second request in the same text; 0:
	// there may be none.
	Second int
}

// Messages reads the set, in the order of the names. An error names the file that
// cannot be read.
func Messages() ([]Message, error) {
	names, err := fs.Glob(files, "messages/*.sip")
	if err != nil {
		return nil, err
	}
	var all []Message
	for _, n := range names {
		text, err := files.ReadFile(n)
		if err != nil {
			return nil, err
		}
		m, err := read(strings.TrimSuffix(strings.TrimPrefix(n, "messages/"), ".sip"), string(text))
		if err != nil {
			return nil, fmt.Errorf("torture: %s: %w", n, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// read takes the lines that begin with # for what they say about the message.
func read(name, text string) (Message, error) {
	m := Message{Name: name}
	tcp, tcpSecond := "", ""
	for strings.HasPrefix(text, "# ") {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		key, value, _ := strings.Cut(strings.TrimPrefix(line, "# "), ": ")
		var err error
		switch key {
		case "code":
			err = m.UDP.read(value)
		case "second":
			m.UDP.Second, err = number(value)
		case "tcp":
			tcp = value
		case "tcp-second":
			tcpSecond = value
		default:
			m.About = strings.TrimPrefix(line, "# ")
		}
		if err != nil {
			return m, err
		}
	}
	m.TCP, m.text = m.UDP, text
	if tcp != "" {
		if err := m.TCP.read(tcp); err != nil {
			return m, err
		}
	}
	if tcpSecond != "" {
		var err error
		if m.TCP.Second, err = number(tcpSecond); err != nil {
			return m, err
		}
	}
	if m.About == "" || m.text == "" {
		return m, errors.New("nothing about it, or no message")
	}
	return m, nil
}

func (a *Answer) read(s string) (err error) {
	s, a.Closed = strings.CutSuffix(s, " close")
	a.Code, err = number(s)
	return err
}

func number(s string) (int, error) {
	if s == "none" {
		return 0, nil
	}
	return strconv.Atoi(s)
}

// description is the body of most of them.
const description = "v=0\no=- 1 1 IN IP4 192.0.2.1\ns=-\nc=IN IP4 192.0.2.1\nt=0 0\nm=audio 4000 RTP/AVP 0\n"

var (
	hex  = regexp.MustCompile(`@HEX[0-9A-F]{2}@`)
	fill = regexp.MustCompile(`@X[0-9]+@`)
)

// Bytes is the message as it is sent over "UDP" or "TCP" from the address, host
// and port, to which the answer is to come. unique keeps calls apart when the
// message is sent more than once.
func (m Message) Bytes(transport, addr, unique string) []byte {
	t := strings.NewReplacer("@SDP@", description,
		"@VIA@", "Via: SIP/2.0/@T@ @ADDR@;branch=z9hG4bK@NAME@"+m.Name+";rport").Replace(m.text)
	t = strings.NewReplacer("@T@", transport, "@ADDR@", addr, "@NAME@", unique).Replace(t)
	t = strings.ReplaceAll(t, "\n", "\r\n")
	t = fill.ReplaceAllStringFunc(t, func(s string) string {
		n, _ := strconv.Atoi(s[2 : len(s)-1]) // the expression lets digits through only
		return strings.Repeat("x", n)
	})
	t = hex.ReplaceAllStringFunc(t, func(s string) string {
		n, _ := strconv.ParseUint(s[4:6], 16, 8) // and here two of base 16
		return string([]byte{byte(n)})
	})
	// The length of the body that follows.
	if before, after, ok := strings.Cut(t, "@CL@"); ok {
		_, body, _ := strings.Cut(after, "\r\n\r\n")
		t = before + strconv.Itoa(len(body)) + after
	}
	return []byte(t)
}
