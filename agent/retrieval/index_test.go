package retrieval_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"parley/agent/retrieval"
	"parley/agent/retrieval/chromem"
)

// counting embeds by Words, counts texts, and fails when it is told to. Its vectors may
// be cut to another length.
type counting struct {
	texts  int
	fail   error
	length int
	few    bool
}

func (c *counting) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.texts += len(texts)
	if c.fail != nil {
		return nil, c.fail
	}
	out, err := retrieval.Words{}.Embed(ctx, texts)
	if c.length > 0 {
		for i := range out {
			out[i] = out[i][:c.length]
		}
	}
	if c.few {
		out = out[1:]
	}
	return out, err
}

var documents = fstest.MapFS{
	"opening.md":        {Data: []byte("# Opening hours\n\nWe are open from nine to five on weekdays.\n\n## Holidays\n\nOn public holidays the shop is closed.\n")},
	"deep/delivery.txt": {Data: []byte("Parcels are delivered within three working days. Delivery abroad takes ten days.")},
	"deep/.hidden.md":   {Data: []byte("secret")},
	".git/readme.md":    {Data: []byte("secret")},
	"picture.png":       {Data: []byte("no text")},
	"empty.md":          {},
}

func index(t *testing.T, e retrieval.Embedder, least float64) *retrieval.Index {
	t.Helper()
	s, err := chromem.Open("")
	if err != nil {
		t.Fatal(err)
	}
	x, err := retrieval.New(retrieval.Config{MinSimilarity: least}, e, s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func sync(t *testing.T, x *retrieval.Index, f fs.FS, want retrieval.Report) {
	t.Helper()
	got, err := x.Sync(t.Context(), f)
	if err != nil || got != want {
		t.Errorf("sync %+v, %v; want %+v", got, err, want)
	}
}

func TestQuestionsFindTheirPassages(t *testing.T) {
	x := index(t, retrieval.Words{}, 0.1)
	sync(t, x, documents, retrieval.Report{Added: 3, Chunks: 3})
	for question, want := range map[string]string{
		"When are you open?":                 "nine to five",
		"are you closed on a public holiday": "holidays the shop is closed",
		"how long does a delivery take":      "three working days",
		"OPENING":                            "nine to five",
	} {
		got, err := x.Search(t.Context(), question, 1)
		if err != nil || len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%q found %q, %v", question, got, err)
		}
	}
	for _, question := range []string{"", "  ", "xylophone quartz", "?!"} {
		if got, err := x.Search(t.Context(), question, 3); err != nil || len(got) != 0 {
			t.Errorf("%q found %q, %v", question, got, err)
		}
	}
	if hits, err := x.Hits(t.Context(), "holidays", 1); err != nil || len(hits) != 1 || hits[0].Source != "opening.md" ||
		!strings.HasPrefix(hits[0].Text, "Opening hours > Holidays\n") {
		t.Errorf("hits %+v, %v", hits, err)
	}
}

func TestOnlyWhatChangedIsEmbedded(t *testing.T) {
	c := &counting{}
	x := index(t, c, 0)
	files := fstest.MapFS{"a.md": {Data: []byte("one")}, "b.md": {Data: []byte("two")}}
	sync(t, x, files, retrieval.Report{Added: 2, Chunks: 2})
	sync(t, x, files, retrieval.Report{Unchanged: 2})
	files["a.md"] = &fstest.MapFile{Data: []byte("three")}
	delete(files, "b.md")
	sync(t, x, files, retrieval.Report{Added: 1, Chunks: 1, Removed: 1})
	if c.texts != 3 {
		t.Errorf("%d texts embedded, want 3", c.texts)
	}
}

func TestAnotherModelEmbedsAllAnew(t *testing.T) {
	c := &counting{length: 512}
	x := index(t, c, 0)
	files := fstest.MapFS{"a.md": {Data: []byte("one")}, "b.md": {Data: []byte("two")}}
	sync(t, x, files, retrieval.Report{Added: 2, Chunks: 2})
	c.length = 0
	if _, err := x.Search(t.Context(), "one", 1); !errors.Is(err, retrieval.ErrDimensions) {
		t.Errorf("search: %v", err)
	}
	files["a.md"] = &fstest.MapFile{Data: []byte("one, and more")}
	sync(t, x, files, retrieval.Report{Added: 2, Chunks: 2})
	if got, err := x.Search(t.Context(), "two", 1); err != nil || len(got) != 1 || got[0] != "two" {
		t.Errorf("found %q, %v", got, err)
	}
}

func TestFailuresNameTheDocument(t *testing.T) {
	down := errors.New("service is down")
	c := &counting{fail: down}
	x := index(t, c, 0)
	files := fstest.MapFS{"a.md": {Data: []byte("one")}}
	if _, err := x.Sync(t.Context(), files); !errors.Is(err, down) || !strings.Contains(err.Error(), "a.md") {
		t.Errorf("sync: %v", err)
	}
	if _, err := x.Search(t.Context(), "one", 1); !errors.Is(err, down) {
		t.Errorf("search: %v", err)
	}
	c.fail, c.few = nil, true
	if _, err := x.Sync(t.Context(), files); err == nil || !strings.Contains(err.Error(), "0 vectors") {
		t.Errorf("too few vectors: %v", err)
	}
	c.few = false
	sync(t, x, files, retrieval.Report{Added: 1, Chunks: 1})
	big := fstest.MapFS{"a.md": files["a.md"], "big.txt": {Data: make([]byte, 9<<20)}}
	if r, err := x.Sync(t.Context(), big); err == nil || !strings.Contains(err.Error(), "big.txt: has 9437184 bytes") || r.Unchanged != 1 {
		t.Errorf("a large file: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := x.Sync(ctx, files); err == nil && r.Removed > 0 {
		t.Errorf("a sync that was given up removed something: %+v, %v", r, err)
	}
	// A folder that cannot be read is not an empty one.
	if r, err := x.Sync(t.Context(), broken{files}); err == nil || r.Removed != 0 {
		t.Errorf("a broken folder: %+v, %v", r, err)
	}
}

// broken is a folder whose files cannot be listed.
type broken struct{ fs.FS }

func (broken) Open(string) (fs.File, error)          { return nil, fs.ErrPermission }
func (broken) ReadDir(string) ([]fs.DirEntry, error) { return nil, fs.ErrPermission }
func (broken) Stat(string) (fs.FileInfo, error)      { return nil, fs.ErrPermission }

func TestConfig(t *testing.T) {
	s, _ := chromem.Open("")
	for _, c := range []retrieval.Config{{MaxChunk: 3}, {MaxChunk: -1}, {MinSimilarity: -1}, {MinSimilarity: 2}, {MinSimilarity: math.NaN()}} {
		if _, err := retrieval.New(c, retrieval.Words{}, s); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if _, err := retrieval.New(retrieval.Config{}, nil, s); err == nil {
		t.Error("no embedder")
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name, text string
		limit      int
		want       []string
	}{
		{"nothing", " \n\n\t\n", 0, nil},
		{"plain text", "One.\n\nTwo.\r\n", 0, []string{"One.\n\nTwo."}},
		{"headings lead their passages", "# A\nx\n## B\ny\n### D ###\nz\n## C\nw\n# E\nv\n", 0,
			[]string{"A\nx", "A > B\ny", "A > B > D\nz", "A > C\nw", "E\nv"}},
		{"a level that was skipped", "### Deep\nx\n# Top\ny", 0, []string{"Deep\nx", "Top\ny"}},
		{"what is no heading", "#tag\n####### seven", 0, []string{"#tag\n####### seven"}},
		{"code is not cut at its comments", "# A\n```\n# no heading\n\n# nor this\n```", 0, []string{"A\n```\n# no heading\n\n# nor this\n```"}},
		{"paragraphs stay whole", "aaaa bbbb\n\ncccc dddd", 12, []string{"aaaa bbbb", "cccc dddd"}},
		{"long ones are cut between sentences", "One two. Three four. Five.", 20, []string{"One two. Three four.", "Five."}},
		{"long sentences between words", "aaaa bbbb cccc", 9, []string{"aaaa bbbb", "cccc"}},
		{"long words where the room ends", "ääääääää", 3, []string{"äää", "äää", "ää"}},
		{"invalid bytes", "a\xffb", 0, []string{"a\uFFFDb"}},
	} {
		if diff := cmp.Diff(c.want, retrieval.Split(c.text, c.limit)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// A picture within a document, as one word, costs no more than its length.
func TestSplitWordWithoutEnd(t *testing.T) {
	word := strings.Repeat("ä0", 1<<17)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	passages := retrieval.Split(word, 500)
	runtime.ReadMemStats(&after)
	if strings.Join(passages, "") != word || len(passages) != (1<<18+499)/500 {
		t.Errorf("%d passages", len(passages))
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("%d bytes were needed for %d", used, len(word))
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("# A\n\nOne. Two.\n\n```\n# x\n```\n", 20)
	f.Add("no end in sight", 1)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 1 + limit&0xff
		letters := func(s string) int { // those of running text, headings aside
			n := 0
			for line := range strings.Lines(strings.ToValidUTF8(s, "\uFFFD")) {
				if !strings.HasPrefix(line, "#") && !strings.ContainsAny(line, "`") {
					n += strings.Count(line, "e")
				}
			}
			return n
		}
		found := 0
		for _, passage := range retrieval.Split(text, limit) {
			if !utf8.ValidString(passage) || strings.TrimSpace(passage) == "" {
				t.Fatalf("passage %q", passage)
			}
			found += strings.Count(passage, "e")
		}
		if want := letters(text); found < want {
			t.Fatalf("%d letters of %d are left of %q", found, want, text)
		}
	})
}

func FuzzWords(f *testing.F) {
	f.Add("When are you open?")
	f.Add("在星期天")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := retrieval.Words{}.Embed(t.Context(), []string{text})
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		for _, x := range v[0] {
			sum += float64(x) * float64(x)
		}
		if sum != 0 && math.Abs(sum-1) > 1e-3 {
			t.Fatalf("length %v of %q", sum, text)
		}
	})
}
