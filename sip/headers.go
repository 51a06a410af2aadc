package sip

// HeaderNames are the names of all headers, in lower case and not compact, in order
// and each once. See Header.
func (i *Invite) HeaderNames() []string {
	var names []string
	seen := make(map[string]bool)
	for _, f := range i.m.fields {
		if !seen[f.name] {
			seen[f.name] = true
			names = append(names, f.name)
		}
	}
	return names
}
