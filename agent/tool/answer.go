package tool

import (
	"slices"
	"strings"
	"unicode"
)

// Answer is what words are as the answer to a question.
type Answer uint8

// The answers.
const (
	// Unclear is everything that is neither: another question, a condition, a noise.
	Unclear Answer = iota
	Yes
	No
)

// consent has the words of one language: those that agree, those that may stand beside
// them and change nothing, those that refuse wherever they stand.
type consent struct{ yes, beside, no []string }

// consents are by language, as data. Where words are not parted by spaces (Chinese,
// Japanese) entries are whole answers.
func consents() map[string]consent {
	return map[string]consent{
		"en": {
			yes:    list("yes|yeah|yep|yup|sure|correct|right|okay|ok|absolutely|certainly|definitely|confirm|confirmed|agreed|affirmative|go ahead|do it|do that|of course|that is right|sounds good|please do"),
			beside: list("please|thanks|thank you|that is|that's|it is|it's|i do|i am|i'm|you can|you may|all|exactly|quite|very|much|well|oh|um|uh"),
			no:     list("no|nope|nah|not|don't|dont|never|stop|wait|cancel|wrong|incorrect"),
		},
		"de": {
			yes:    list("ja|jawohl|jo|genau|richtig|korrekt|einverstanden|klar|sicher|gerne|gern|okay|ok|in ordnung|stimmt|natürlich|machen sie das|mach das"),
			beside: list("bitte|danke|das|ist|so|doch|sehr|ganz|absolut|auf jeden fall"),
			no:     list("nein|nee|nicht|kein|keine|nie|stopp|halt|warte|warten|falsch|abbrechen"),
		},
		"fr": {
			yes:    list("oui|ouais|si|d'accord|exact|exactement|correct|bien sûr|certainement|absolument|allez-y|vas-y|ok|okay|c'est ça|volontiers|tout à fait"),
			beside: list("merci|s'il vous plaît|s'il te plaît|c'est|très|bien"),
			no:     list("non|pas|jamais|arrêtez|arrête|attendez|attends|annulez|faux"),
		},
		"es": {
			yes:    list("sí|si|claro|correcto|exacto|vale|de acuerdo|por supuesto|adelante|ok|okay|cierto|desde luego|está bien|bueno"),
			beside: list("por favor|gracias|señor|señora|es|así|eso"),
			no:     list("no|nunca|pare|espera|espere|cancela|cancelar|incorrecto"),
		},
		"pt": {
			yes:    list("sim|claro|certo|correto|exato|isso|pode|pode ser|com certeza|está bem|tá bom|ok|okay|de acordo|confirmo"),
			beside: list("por favor|obrigado|obrigada|é|senhor|senhora|mesmo"),
			no:     list("não|nao|nunca|pare|espera|espere|cancela|cancelar|errado"),
		},
		"it": {
			yes:    list("sì|si|certo|certamente|esatto|corretto|va bene|d'accordo|confermo|ok|okay|giusto|proceda|procedi|volentieri"),
			beside: list("per favore|prego|grazie|è|così|tutto"),
			no:     list("no|non|mai|ferma|fermi|aspetta|aspetti|annulla|sbagliato"),
		},
		"nl": {
			yes:    list("ja|jawel|jazeker|zeker|klopt|juist|akkoord|prima|goed|oké|ok|okay|natuurlijk|doe maar|graag"),
			beside: list("alstublieft|alsjeblieft|dank u|dank je|bedankt|dat|is|het"),
			no:     list("nee|niet|geen|nooit|stop|wacht|fout|annuleren"),
		},
		"hi": {
			yes:    list("हाँ|हां|जी|ठीक है|ठीक|सही|बिल्कुल|ज़रूर|जरूर|haan|han|ji|theek hai"),
			beside: list("कृपया|धन्यवाद|है|सही है"),
			no:     list("नहीं|नही|ना|मत|रुको|रुकिए|गलत|nahi|nahin|mat"),
		},
		"zh": {yes: list("是|是的|对|對|对的|好|好的|好吧|可以|没问题|沒問題|同意|确认|確認|行|当然|當然|嗯是的")},
		"ja": {yes: list("はい|ええ|そうです|はいそうです|お願いします|はいお願いします|大丈夫です|いいです|いいですよ|了解です|結構です進めてください|もちろん|もちろんです|うん")},
	}
}

func list(s string) []string { return strings.Split(s, "|") }

// words is s in lower case, without punctuation, with single spaces.
func words(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return r != '\'' && r != '’' && r != '-' && !unicode.In(r, unicode.L, unicode.M, unicode.N)
	}), " ")
}

// Judge says whether words are a plain yes or a no, in English, German, French,
// Spanish, Portuguese, Italian, Dutch, Hindi, Chinese or Japanese. It is strict: all of
// an answer must be agreement, in one language. "Yes, but tomorrow" is none.
func Judge(said string) Answer {
	if strings.ContainsAny(said, "?？") || len(said) > 200 {
		return Unclear
	}
	answer := strings.ReplaceAll(words(said), "’", "'")
	if answer == "" {
		return Unclear
	}
	verdict := Unclear
	for _, c := range consents() {
		switch {
		case c.agrees(answer):
			verdict = Yes
		case c.refuses(answer) && verdict == Unclear:
			verdict = No
		}
	}
	if verdict == Unclear && slices.ContainsFunc(list("不|没|別|别|いいえ|だめ|やめ|違い|ちがい|いや|待って"), func(s string) bool { return strings.Contains(answer, s) }) {
		return No
	}
	return verdict
}

// agrees says whether answer is made of agreement only.
func (c consent) agrees(answer string) bool {
	rest, agreed := " "+answer+" ", false
	for _, phrases := range [][]string{c.yes, c.beside} {
		// Longest first: "that is right" before "right".
		sorted := slices.SortedFunc(slices.Values(phrases), func(a, b string) int { return len(b) - len(a) })
		for _, p := range sorted {
			for strings.Contains(rest, " "+p+" ") {
				rest = strings.Replace(rest, " "+p+" ", "  ", 1)
				agreed = agreed || slices.Contains(c.yes, p)
			}
		}
	}
	return agreed && strings.TrimSpace(rest) == ""
}

// refuses says whether a word of answer refuses.
func (c consent) refuses(answer string) bool {
	return slices.ContainsFunc(c.no, func(p string) bool { return strings.Contains(" "+answer+" ", " "+p+" ") })
}
