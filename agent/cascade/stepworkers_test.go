package cascade

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"parley/agent/llm"
	"parley/agent/tts"
)

// workers does a bit of what the model's and the voice's goroutines do.
func (x *stepper) workers() {
	if x.think == nil {
		select {
		case r := <-x.s.asks:
			if x.asked != x.told {
				x.fail("asked for reply %d, told of %d", x.asked+1, x.told)
			}
			if r.begin() {
				x.think, x.left = r, x.n(8)
				x.asked++
			}
		default:
		}
	}
	if x.think != nil {
		x.thinks(x.think)
	}
	if x.speak == nil {
		select {
		case x.speak = <-x.s.speech:
			x.at = x.mouth.Played()
		default:
		}
	}
	if x.speak != nil {
		x.speaks(x.speak)
	}
}

func (x *stepper) thinks(r *reply) {
	number := x.asked
	var err error
	switch k := x.n(40); {
	case r.thinking.Err() != nil:
		err = context.Cause(r.thinking)
	case x.left == 0:
	case k == 0:
		err = errBroken
	case k == 1:
		err = x.s.takes(r, llm.Chunk{Thinking: true})
		x.s.happened(llm.Happening{Kind: "tool_call", ID: strconv.Itoa(number), Name: "t"})
		x.tools++
	case k == 2 && r.turn.Tentative:
		_ = x.s.takes(r, llm.Chunk{Incomplete: time.Second}) // cut off meanwhile, or not
		x.left = 0
		return
	case k == 3:
		err = x.s.takes(r, llm.Chunk{Action: &llm.Action{Kind: llm.Hold}})
	case k == 4:
		x.s.wishes.hangUp()
		return
	case k == 5:
		x.s.wishes.wake()
		return
	case k < 15:
		return // it thinks
	default:
		x.left--
		text := fmt.Sprintf("r%dw%d ", number, 10-x.left)
		if x.n(3) == 0 {
			text = strings.TrimSpace(text) + ". "
		}
		err = x.s.takes(r, llm.Chunk{Text: text, Style: []string{"", "", "warm"}[x.n(3)]})
		if err == nil {
			return
		}
	}
	if err == nil && x.left > 0 {
		return
	}
	for ; x.tools > 0; x.tools-- { // a reply that ends has its tools answered
		x.s.happened(llm.Happening{Kind: "tool_result", ID: strconv.Itoa(number), Name: "t"})
	}
	x.s.thinksNoMore(r, err)
	x.think = nil
}

func (x *stepper) speaks(r *reply) {
	if x.wait != nil {
		select {
		case <-x.wait:
		case <-r.ctx.Done():
		default:
			return
		}
		x.wait = nil
	}
	r.mu.Lock()
	ready := r.taken < len(r.items) || r.closed || r.ctx.Err() != nil
	r.mu.Unlock()
	if !ready {
		return
	}
	it, ok := r.take()
	switch {
	case !ok && r.ctx.Err() == nil:
		x.s.post(r.ctx, said{r, x.at})
		fallthrough
	case !ok:
		x.speak = nil
	case it.action != nil:
		x.wait = make(chan struct{})
		x.s.post(r.ctx, marked{r, markedAction{it.action, x.at, x.wait}})
	default:
		x.s.post(r.ctx, sentence{r, strings.TrimSpace(it.text)})
		x.says(&piece{s: x.s, r: r, item: it, quiet: &silence{s: x.s, r: r}, at: x.at})
	}
}

// says speaks a sentence: words of 200 ms each.
func (x *stepper) says(p *piece) {
	var err error
	for i, word := range strings.Fields(p.text) {
		if x.n(60) == 0 {
			err = errBroken
			break
		}
		const length = 200 * ms
		var pcm [quickRate / 5]int16
		from := x.mouth.queued
		c := tts.Chunk{PCM: pcm[:], Words: []tts.Word{{Text: word, End: time.Duration(i+1) * length}}}
		if err = p.chunk(p.r.ctx, c); err != nil {
			break
		}
		x.mouth.spans = append(x.mouth.spans, span{word, from, from + length})
	}
	p.settle(err)
	x.at = p.at + p.length()
	x.s.post(p.r.ctx, spoke{p.r, false, err})
}
