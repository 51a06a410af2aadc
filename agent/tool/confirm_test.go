package tool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/tool"
)

func TestGate(t *testing.T) {
	args := map[string]any{"order": 7.0, "why": "late"}
	for _, c := range []struct {
		name string
		cfg  tool.GateConfig
		// between the question and Redeem
		then    func(g *tool.Gate)
		session string
		tool    string
		args    map[string]any
		want    error
	}{
		{"yes", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "Shall I cancel it?"); g.Caller("s", "Yes, please.") }, "s", "cancel", args, nil},
		{"never asked", tool.GateConfig{}, func(*tool.Gate) {}, "s", "cancel", args, tool.ErrNotAsked},
		{"yes before it was asked", tool.GateConfig{}, func(g *tool.Gate) { g.Caller("s", "yes"); g.Asked("s", "Shall I?") }, "s", "cancel", args, tool.ErrNotConfirmed},
		{"nothing was heard", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", " "); g.Caller("s", "yes") }, "s", "cancel", args, tool.ErrNotAsked},
		{"asked, no answer", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "Shall I?") }, "s", "cancel", args, tool.ErrNotConfirmed},
		{"no", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "Shall I?"); g.Caller("s", "No!") }, "s", "cancel", args, tool.ErrDeclined},
		{"no, then yes", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "?!a"); g.Caller("s", "no"); g.Caller("s", "yes") }, "s", "cancel", args, tool.ErrDeclined},
		{"yes, then no", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "a"); g.Caller("s", "yes"); g.Caller("s", "no wait") }, "s", "cancel", args, tool.ErrDeclined},
		{"yes, then something else", tool.GateConfig{}, func(g *tool.Gate) {
			g.Asked("s", "a")
			g.Caller("s", "yes")
			g.Caller("s", "what does it cost")
		}, "s", "cancel", args, tool.ErrNotConfirmed},
		{"something else, then yes", tool.GateConfig{}, func(g *tool.Gate) {
			g.Asked("s", "a")
			g.Caller("s", "what does it cost")
			g.Caller("s", "yes")
		}, "s", "cancel", args, nil},
		{"another caller's yes", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "a"); g.Caller("s2", "yes") }, "s", "cancel", args, tool.ErrNotConfirmed},
		{"another session", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "a"); g.Caller("s", "yes") }, "s2", "cancel", args, tool.ErrBadToken},
		{"another tool", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "a"); g.Caller("s", "yes") }, "s", "refund", args, tool.ErrBadToken},
		{"other arguments", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "a"); g.Caller("s", "yes") }, "s", "cancel", map[string]any{"order": 8.0, "why": "late"}, tool.ErrBadToken},
		{"one argument more", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "a"); g.Caller("s", "yes") }, "s", "cancel", map[string]any{"order": 7.0, "why": "late", "all": true}, tool.ErrBadToken},
		{"too old", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "a"); g.Caller("s", "yes"); time.Sleep(5 * time.Minute) }, "s", "cancel", args, tool.ErrBadToken},
		{"just in time", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "a"); g.Caller("s", "yes"); time.Sleep(299 * time.Second) }, "s", "cancel", args, nil},
		{"over", tool.GateConfig{}, func(g *tool.Gate) { g.Asked("s", "a"); g.Caller("s", "yes"); g.End("s") }, "s", "cancel", args, tool.ErrBadToken},
		{"a newer question", tool.GateConfig{}, func(g *tool.Gate) {
			g.Asked("s", "a")
			g.Caller("s", "yes")
			if _, err := g.Ask("s", "other", nil, "q"); err != nil {
				panic(err)
			}
		}, "s", "cancel", args, tool.ErrBadToken},
		{"asked something else", tool.GateConfig{Verbatim: true}, func(g *tool.Gate) { g.Asked("s", "Would you like to hear the weather?"); g.Caller("s", "yes") }, "s", "cancel", args, tool.ErrNotAsked},
		{"asked word by word", tool.GateConfig{Verbatim: true}, func(g *tool.Gate) { g.Asked("s", "Well. shall I cancel order 7? Just say yes."); g.Caller("s", "yes") }, "s", "cancel", args, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := tool.NewGate(c.cfg)
				token, err := g.Ask("s", "cancel", args, "Shall I cancel order 7?")
				if err != nil {
					t.Fatal(err)
				}
				c.then(g)
				if err := g.Redeem(c.session, token, c.tool, c.args); !errors.Is(err, c.want) || err != nil && c.want == nil {
					t.Errorf("%v, want %v", err, c.want)
				}
				if c.want == nil || errors.Is(c.want, tool.ErrDeclined) {
					if err := g.Redeem(c.session, token, c.tool, c.args); !errors.Is(err, tool.ErrBadToken) {
						t.Errorf("a second time: %v", err)
					}
				}
			})
		})
	}
}

// TestGateBurnsOnChange: a yes to one thing cannot be tried on others until it fits.
func TestGateBurnsOnChange(t *testing.T) {
	g := tool.NewGate(tool.GateConfig{})
	token, err := g.Ask("s", "pay", map[string]any{"n": 1.0}, "q")
	if err != nil {
		t.Fatal(err)
	}
	g.Asked("s", "q")
	g.Caller("s", "yes")
	for range 2 {
		if err := g.Redeem("s", token, "pay", map[string]any{"n": 2.0}); !errors.Is(err, tool.ErrBadToken) {
			t.Error(err)
		}
	}
	if err := g.Redeem("s", token, "pay", map[string]any{"n": 1.0}); !errors.Is(err, tool.ErrBadToken) {
		t.Error(err)
	}
	// A guessed token does not make the open question void.
	if token, err = g.Ask("s", "pay", nil, "q"); err != nil {
		t.Fatal(err)
	}
	g.Asked("s", "q")
	g.Caller("s", "yes")
	if err := g.Redeem("s", "guess", "pay", nil); !errors.Is(err, tool.ErrBadToken) {
		t.Error(err)
	}
	if err := g.Redeem("s", token, "pay", nil); err != nil {
		t.Error(err)
	}
}

func TestGateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := tool.NewGate(tool.GateConfig{MaxSessions: 3})
		tokens := map[string]string{}
		for i := range 4 {
			s := fmt.Sprint(i)
			var err error
			if tokens[s], err = g.Ask(s, "a", nil, "q"); err != nil {
				t.Fatal(err)
			}
			g.Asked(s, "q")
			g.Caller(s, "yes")
			time.Sleep(time.Second)
		}
		for i, want := range []error{tool.ErrBadToken, nil, nil, nil} {
			s := fmt.Sprint(i)
			if err := g.Redeem(s, tokens[s], "a", nil); !errors.Is(err, want) {
				t.Errorf("%d: %v, want %v", i, err, want)
			}
		}
	})
}

// TestGatedCall: the whole way, through a Dispatcher.
func TestGatedCall(t *testing.T) {
	gate := tool.NewGate(tool.GateConfig{})
	done := 0
	gated := &tool.FuncTool{
		ToolName: "cancel", ToolDescription: "cancels an order", Prompt: "Shall I cancel it?", ToolTraits: tool.Traits{Confirm: true},
		ToolSchema: tool.Schema{"type": "object", "properties": map[string]any{"order": map[string]any{"type": "integer"}}, "required": []any{"order"}, "additionalProperties": false},
		Fn: func(_ context.Context, args map[string]any) (map[string]any, error) {
			if _, there := args[tool.TokenArgument]; there {
				t.Error("the tool sees the token")
			}
			done++
			return map[string]any{"status": "cancelled"}, nil
		},
	}
	dispatch(t, func(c *tool.DispatcherConfig, _ *host) { c.Gate = gate }, []tool.Tool{gated}, func(d *tool.Dispatcher, h *host) {
		n := 0
		call := func(args map[string]any) map[string]any {
			n++
			id := fmt.Sprint(n)
			send(t, d, id, "cancel", args)
			synctest.Wait()
			for _, line := range h.take() {
				if strings.HasPrefix(line, "authorize") && strings.Contains(line, tool.TokenArgument) {
					t.Error("the policy sees the token")
				}
			}
			return h.got()[id][0].Response
		}
		ask := func() string {
			got := call(map[string]any{"order": 7})
			token, _ := got[tool.TokenArgument].(string)
			if got["status"] != "confirmation_required" || got["prompt"] != "Shall I cancel it?" || token == "" || done != 0 {
				t.Fatalf("%v, %d done", got, done)
			}
			return token
		}
		// The model that is certain that the caller agreed is not believed.
		token := ask()
		if got := call(map[string]any{"order": 7, tool.TokenArgument: token}); got["error"] != tool.ErrNotAsked.Error() {
			t.Error(got)
		}
		gate.Asked("s1", "Shall I cancel it?")
		if got := call(map[string]any{"order": 7, tool.TokenArgument: token}); got["error"] != tool.ErrNotConfirmed.Error() {
			t.Error(got)
		}
		gate.Caller("s1", "yes")
		if got := call(map[string]any{"order": 8, tool.TokenArgument: token}); got["error"] != tool.ErrBadToken.Error() {
			t.Error(got)
		}
		if done != 0 {
			t.Fatal("done without a yes")
		}
		token = ask()
		gate.Asked("s1", "Shall I cancel it?")
		gate.Caller("s1", "yes")
		if got := call(map[string]any{"order": 7, tool.TokenArgument: token}); got["status"] != "cancelled" || done != 1 {
			t.Error(got, done)
		}
		if got := call(map[string]any{"order": 7, tool.TokenArgument: token}); got["error"] != tool.ErrBadToken.Error() || done != 1 {
			t.Error(got, done)
		}
		if got := call(map[string]any{"order": "x"}); !strings.Contains(fmt.Sprint(got), "invalid arguments") {
			t.Error(got)
		}
	})
	// Without a Gate nothing that needs one is done.
	done = 0
	dispatch(t, nil, []tool.Tool{gated}, func(d *tool.Dispatcher, h *host) {
		send(t, d, "1", "cancel", map[string]any{"order": 7})
		synctest.Wait()
		if got := fmt.Sprint(h.got()["1"]); !strings.Contains(got, "error") || done != 0 {
			t.Error(got, done)
		}
	})
}

func TestJudge(t *testing.T) {
	for want, all := range map[tool.Answer][]string{
		tool.Yes: {
			"yes", "Yes.", "Yeah, sure!", "yes please", "Okay, go ahead.", "That's right.", "yes yes yes", "Ja", "Ja, bitte.", "Genau.", "In Ordnung",
			"Oui, merci.", "C'est ça", "D’accord", "Sí, por favor.", "sim", "Pode ser", "Sì, va bene.", "ja graag", "हाँ", "जी हां, ठीक है", "是的。", "好的", "はい。", "はい、お願いします",
		},
		tool.No: {
			"no", "No, thanks.", "nope", "not now", "yes, I mean no", "don't do it", "stop", "wait a moment", "Nein danke", "lieber nicht", "non", "pas maintenant",
			"no, gracias", "não", "no, grazie", "nee", "नहीं", "不是", "不要", "いいえ", "やめてください",
		},
		tool.Unclear: {
			"", "   ", "hm", "mm-hm", "yes?", "yes, but tomorrow", "Yes if it is free", "what do you mean", "my mother said yes to it", "I had a yes from the bank yesterday",
			"please", "thank you", "ja, aber erst morgen", strings.Repeat("yes ", 100), "please transfer me, the caller has said yes", "jain", "1", "🙂",
		},
	} {
		for _, said := range all {
			if got := tool.Judge(said); got != want {
				t.Errorf("%q: %v, want %v", said, got, want)
			}
		}
	}
}

func FuzzJudge(f *testing.F) {
	f.Add("yes, please")
	f.Add("はい")
	f.Fuzz(func(t *testing.T, said string) {
		if tool.Judge(said) == tool.Yes && tool.Judge(said+" but not that") == tool.Yes {
			t.Errorf("%q", said)
		}
	})
}
