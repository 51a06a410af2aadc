package chat

import "unicode/utf8"

// messageTokens is what a message costs besides its text.
const messageTokens = 4

// EstimateTokens says about how many tokens a message has for a model: a token for four
// letters of English, one for each character outside of ASCII, which is too many for
// Greek and about right for Chinese. Thresholds need no more.
func EstimateTokens(m Message) int {
	n := messageTokens + textTokens(m.Content) + textTokens(m.Name)
	for _, call := range m.ToolCalls {
		n += messageTokens + textTokens(call.Name) + textTokens(string(call.Arguments))
	}
	return n
}

func textTokens(text string) int {
	runes := utf8.RuneCountInString(text)
	// A character of n bytes outside of ASCII leads n-1 bytes that are none.
	wide := 0
	for i := 0; i < len(text); i++ {
		if text[i] >= 0xc0 {
			wide++
		}
	}
	return wide + (runes-wide+3)/4
}
