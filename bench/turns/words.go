package main

// What is said. The recordings are what Debian's packages hold; the words of the prompts
// are as the speaker says them, near enough for what turn taking looks at: how many
// words, which are commands, backchannels, digits.

var prompts = map[string]string{
	"check-number-dial-again":     "please check the number and dial again",
	"all-circuits-busy-now":       "all circuits are busy now",
	"please-try-call-later":       "please try your call again later",
	"something-terribly-wrong":    "something is terribly wrong",
	"cannot-complete-as-dialed":   "your call cannot be completed as dialed",
	"feature-not-avail-line":      "this feature is not available on this line",
	"vm-mailboxfull":              "that mailbox is full",
	"queue-thankyou":              "thank you for your patience",
	"please-try-again":            "please try that again",
	"sorry-youre-having-problems": "you are having problems with that",
}

var promptCommands = map[string]string{
	"spy-agent": "agent", "goodbye": "goodbye", "vm-no": "no", "one-moment-please": "one moment please", "sorry": "sorry",
}

// Fragments that the prompts are made of: each ends as a sentence does not.
var promptHalves = [][2][2]string{
	{{"to-call-this-number", "to call this number"}, {"please-try-again", "please try that again"}},
	{{"telephone-number", "the telephone number"}, {"is-in-use", "is in use"}},
	{{"your", "your"}, {"location", "location"}},
	{{"vm-from-phonenumber", "from the phone number"}, {"number-not-answering", "that is not answering"}},
	{{"extension", "the extension"}, {"is-set-to", "is set to"}},
}

// Digits and letters as files, in groups.
var promptDigits = [][]string{
	{"4 1 5", "5 5 5", "0 1 9 9"}, {"0 2 0", "7 9 4 6", "0 8 1 2"}, {"9 8", "7 6", "5 4", "3 2"},
	{"4 2", "7 7 1"}, {"p a r", "l e y"}, {"s m", "i t h"},
}

// names is the word of a file of digits or letters.
func names(file string) string {
	if word, ok := map[string]string{
		"0": "zero", "1": "one", "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven", "8": "eight", "9": "nine",
	}[file]; ok {
		return word
	}
	return file
}

var readers = map[string]string{
	"librivox/sense_and_sensibility_01_austen_64kb-0870.wav": "and mister john dashwood had then leisure to consider how much there might be prudently in his power to do for them",
	"librivox/sense_and_sensibility_01_austen_64kb-0880.wav": "he was not an ill disposed young man",
	"librivox/sense_and_sensibility_01_austen_64kb-0890.wav": "unless to be rather cold hearted and rather selfish is to be ill disposed",
	"librivox/sense_and_sensibility_01_austen_64kb-0930.wav": "he might even have been made amiable himself",
	"goforward.raw": "go forward ten meters",
	"cards/001.wav": "ten of clubs",
	"cards/003.wav": "seven of clubs",
}

// What the synthetic callers say.
var (
	sentences = []string{
		"can you tell me the opening hours for tomorrow", "I would like to change my booking", "my name is robert and I am calling about an invoice",
		"could you send that to my email address", "I need help with my password", "that is not what I asked for",
		"what does the large one cost", "please send the package to the address on twelfth street",
	}
	commands     = []string{"stop", "wait", "operator", "hold on", "stop", "operator", "wait a minute"}
	backchannels = []string{
		"mm-hm", "okay", "uh-huh", "right", "yeah", "I see", "okay", "mm-hm", "right", "all right", "uh-huh", "got it",
	}
	halves = [][2]string{
		{"I would like to book a table", "for two people on saturday"}, {"my address is", "twelve market street"},
		{"could you tell me", "when the next train leaves"}, {"it was on tuesday", "or maybe it was wednesday"},
		{"I am calling because", "my phone does not work"},
	}
	digitGroups = [][]string{
		{"four one five", "five five five", "zero one nine nine"}, {"three two", "seven four", "nine one"},
		{"my number is zero two zero", "seven nine four six", "zero eight one two"}, {"b as in bravo", "k as in kilo", "seven three"},
	}
)

// story is what the agent says where it is to be interrupted. It asks nothing, and says
// nothing that callers say.
var story = []string{
	"The oldest lighthouse of the coast was built by a family of fishermen.",
	"Every evening one of them carried oil up two hundred narrow steps.",
	"In winter the waves reached the windows of the kitchen.",
	"Ships from the south brought salt, wine and blue paint.",
	"The harbor was so small that they had to queue outside.",
	"A baker sold warm bread to the sailors from a rowing boat.",
	"Children learned to swim before they learned to read.",
	"Later a railway came, and with it came painters from the city.",
	"They rented the rooms above the shops for the whole summer.",
	"Some of their pictures still hang in the town hall.",
	"The mayor collected shells and gave each of them a name.",
	"His garden was famous for its yellow roses.",
	"On market days the band played under the chestnut trees.",
	"Nobody remembers who wrote the song about the drowned bell.",
	"Farmers came down from the hills with cheese and apples.",
	"The ferry crossed the bay three times between noon and dusk.",
	"A storm took its mast in the year of the great flood.",
	"After that a bridge was planned, drawn and forgotten.",
	"Today the tower is a museum with a very small cafe.",
	"Visitors may climb up to the lamp and look across the sea.",
}
