package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"parley/agent/tool"
)

// maxManifest bounds a manifest and a skill in bytes.
const maxManifest = 256 << 10

// Manifest is a plugin.yaml.
type Manifest struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Version     string `yaml:"version"`
	// Language chooses what runs Entrypoint: python, typescript, javascript, or exec
	// for a program of its own.
	Language string `yaml:"language"`
	// Entrypoint is a file in the plugin's folder.
	Entrypoint string `yaml:"entrypoint"`
	// Parameters is the JSON Schema of the arguments, for a plugin that is one tool.
	Parameters           tool.Schema `yaml:"parameters"`
	ConfirmationRequired bool        `yaml:"confirmation_required"`
	// ConfirmationPrompt is the question for it.
	ConfirmationPrompt string `yaml:"confirmation_prompt"`
	// ThinkingSound asks for a soft tone while a call takes long.
	ThinkingSound bool `yaml:"thinking_sound"`
	// Protocol is 1 for a plugin that takes initialize without parameters, 2 for one
	// that takes notifications whatever it answers to initialize. 0: it is told by
	// that answer.
	Protocol int `yaml:"protocol"`
	// Env names variables of the gateway that the plugin needs.
	Env []string `yaml:"env"`
	// Cancellable calls are given up when the caller speaks, and the plugin is told.
	Cancellable bool `yaml:"cancellable"`
	// Dir is the plugin's folder; not from the file.
	Dir string `yaml:"-"`

	content string // to see changes
}

// pluginName is what plugins are called: it is part of logs and names of tools.
func pluginName() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) }

// ReadManifest reads the plugin.yaml in dir.
func ReadManifest(dir string) (Manifest, error) {
	path := filepath.Join(dir, "plugin.yaml")
	text, err := readBounded(path)
	if err != nil {
		return Manifest{}, fmt.Errorf("plugin: %w", err)
	}
	m, err := parseManifest(text)
	if err != nil {
		return Manifest{}, fmt.Errorf("plugin: %s: %w", path, err)
	}
	if m.Dir, err = filepath.Abs(dir); err != nil {
		return Manifest{}, fmt.Errorf("plugin: %w", err)
	}
	entry, err := filepath.EvalSymlinks(filepath.Join(m.Dir, m.Entrypoint))
	if err != nil {
		return Manifest{}, fmt.Errorf("plugin: %s: entrypoint: %w", path, err)
	}
	// The file's own time is part of what it is: a plugin that was edited is started anew.
	if info, err := os.Stat(entry); err == nil {
		m.content += fmt.Sprint(info.ModTime().UnixNano(), info.Size())
	}
	return m, nil
}

// readBounded reads a small file.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(text) > maxManifest {
		err = fmt.Errorf("%s: more than %d bytes", path, maxManifest)
	}
	return text, err
}

// parseManifest reads a manifest. Keys it does not know are left alone: manifests of
// other hosts have some.
func parseManifest(text []byte) (Manifest, error) {
	var m Manifest
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&m); err != nil {
		return m, err
	}
	m.content = string(text)
	switch {
	case !pluginName().MatchString(m.Name):
		return m, fmt.Errorf("name %q: want 1 to 64 letters, digits, '_' or '-'", tool.CleanText(m.Name, 80))
	case m.Entrypoint == "":
		return m, errors.New("entrypoint is missing")
	case !filepath.IsLocal(m.Entrypoint):
		return m, fmt.Errorf("entrypoint %q: must be a file in the plugin's folder", tool.CleanText(m.Entrypoint, 200))
	case m.Protocol < 0 || m.Protocol > 2:
		return m, fmt.Errorf("protocol %d: want 1 or 2", m.Protocol)
	}
	switch m.Language {
	case "python", "typescript", "javascript", "exec":
	default:
		return m, fmt.Errorf("language %q: want python, typescript, javascript or exec", tool.CleanText(m.Language, 40))
	}
	return m, nil
}

// command is what starts the plugin. runtimes are by language.
func (m Manifest) command(runtimes map[string][]string) []string {
	if own := runtimes[m.Language]; len(own) > 0 {
		return append(append([]string{}, own...), m.Entrypoint)
	}
	switch m.Language {
	case "python":
		return []string{"python3", m.Entrypoint}
	case "javascript":
		return []string{"node", m.Entrypoint}
	case "typescript":
		return []string{"node", "--experimental-strip-types", m.Entrypoint}
	}
	return []string{filepath.Join(m.Dir, m.Entrypoint)}
}

// Skill is a SKILL.md: instructions for the model, with what they are about.
type Skill struct {
	Name        string   `yaml:"name"`
	Description string   `yaml:"description"`
	Version     string   `yaml:"version"`
	Triggers    []string `yaml:"triggers"`
	// Plugins are the names of the plugins that the skill needs.
	Plugins []string `yaml:"plugins"`
	// Text is what follows the front matter.
	Text string `yaml:"-"`
}

// ReadSkills reads directory/skills/*/SKILL.md in the order of their folders. Skills
// that cannot be read are left out and told of in the error.
func ReadSkills(directory string) ([]Skill, error) {
	paths, err := filepath.Glob(filepath.Join(directory, "skills", "*", "SKILL.md"))
	if err != nil {
		return nil, fmt.Errorf("plugin: %w", err)
	}
	var out []Skill
	var errs []error
	for _, path := range paths {
		text, err := readBounded(path)
		if err == nil {
			var s Skill
			if s, err = parseSkill(string(text)); err == nil {
				out = append(out, s)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("plugin: %s: %w", path, err))
		}
	}
	return out, errors.Join(errs...)
}

// parseSkill reads front matter between two lines of "---", and the text after it.
func parseSkill(text string) (Skill, error) {
	var s Skill
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return s, errors.New("front matter is missing: the first line must be ---")
	}
	front, body, ok := strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if front, ok = strings.CutSuffix("\n"+rest, "\n---"); !ok {
			return s, errors.New("the front matter does not end: want a line of ---")
		}
	}
	if err := yaml.Unmarshal([]byte(front), &s); err != nil {
		return s, err
	}
	if s.Name == "" {
		return s, errors.New("name is missing")
	}
	s.Text = strings.TrimSpace(body)
	return s, nil
}
