package gleaner_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport is the map of the house: which rooms a room may import. It is a
// statement of policy. When a build fails here, move the code, or change the
// design in a page under docs/decisions; do not widen a row to be done.
//
// A room is a folder and all below it; the longest name wins. Rooms may import
// within themselves. everyone lists what any room may import.
var mayImport = map[string][]string{
	"cluster":          {},
	"input":            {},
	"input/compressed": {"input"},
	"chart":            {},
	"image":            {},
	"kv":               {},
	"dilation":         {},
	"plan":             {},
	"plan/milp":        {"plan"},
	"classify":         {"cluster"},
	"placement":        {"cluster"},
	"harvest":          {"cluster", "dilation"},
	"trace":            {"cluster", "input/compressed"},
	"history":          {"cluster", "kv", "input/compressed"},
	"history/reimages": {"cluster"},
	"curator":          {"kv"},
	"fabric":           {"cluster", "kv", "placement", "curator", "fabric/nbd", "fabric/conn", "fabric/hands"},
	"fabric/nbd":       {"fabric/conn"},
	"fabric/conn":      {"fabric/hands"},
	"fabric/hands":     {},
	"sim":              {"cluster"},
	"sim/storage":      {"cluster", "sim", "placement"}, // one repair queue: docs/decisions/0009
	"local":            {"cluster"},
	"control":          {"cluster", "classify", "harvest", "placement", "history", "fabric", "curator", "trace", "dilation"},
	"simulation":       {"cluster", "classify", "harvest", "placement", "dilation", "sim", "sim/storage", "control"},
	"lab": {"cluster", "input/compressed", "chart", "image", "kv", "dilation", "plan", "plan/milp", "classify", "placement", "harvest", "trace",
		"history", "history/reimages", "curator", "fabric", "fabric/nbd", "sim", "sim/storage", "local", "control", "simulation"},
	"web":      {"cluster", "chart", "control", "history", "fabric", "curator", "plan", "trace", "lab", "web/page"},
	"web/page": {"cluster", "chart", "dilation", "control", "fabric", "plan"}, // views: all else comes through interfaces that cmd fills
	"cmd": {"cluster", "input/compressed", "chart", "kv", "dilation", "plan", "plan/milp", "classify", "placement", "harvest", "trace",
		"history", "history/reimages", "curator", "fabric", "fabric/nbd", "sim", "sim/storage", "local", "control", "simulation", "lab", "web", "web/page"},
}

var everyone = []string{"input"}

// within are the maps of rooms that are made of rooms: which of its rooms each
// of them may import. The outer room itself may import all of them.
var within = map[string]map[string][]string{
	"trace/mine": {
		"intern":    {},
		"ladder":    {},
		"fold":      {},
		"corpus":    {"intern"},
		"kind":      {"intern", "corpus"},
		"reaction":  {"intern", "corpus"},
		"site":      {"intern", "ladder", "corpus"},
		"count":     {"ladder", "corpus", "site"},
		"flow":      {"intern", "corpus", "site"},
		"argument":  {"intern", "ladder", "corpus", "site", "flow"},
		"neighbour": {"ladder", "corpus", "site", "count", "flow", "argument"},
		"order":     {"ladder", "fold", "corpus", "count"},
		"pace":      {"ladder", "corpus", "count"},
		"join":      {"corpus", "count", "order", "pace"},
		"minetest":  {"corpus"},
	},
	"fabric": {
		"hands":      {},
		"conn":       {"hands"},
		"disk":       {},
		"nbd":        {"conn"},
		"registry":   {"disk"},
		"dataserver": {"conn", "disk"},
		"pack":       {"disk"},
		"group":      {"disk"},
		"tiering":    {"disk"},
		"maps":       {"disk", "pack", "group", "tiering"},
		"upkeep":     {"disk", "pack", "group", "tiering", "maps"}, // not volume, which it hands tasks to by an interface, and whose tests use it
		"volume":     {"disk", "pack", "group", "tiering", "maps", "hands"},
	},
}

// pure rooms decide and do nothing else: no clock, disk, network, goroutine,
// logger or global chance. A room below a pure one is pure unless listed in impure.
var (
	pure = []string{"cluster", "input", "classify", "harvest", "placement", "dilation", "plan", "history/reimages", "fabric/group", "fabric/tiering",
		"curator/task", "curator/learn", "sim/disks", "sim/oltp", "sim/tiers",
		"trace/mine/intern", "trace/mine/ladder", "trace/mine/fold", "trace/mine/corpus", "trace/mine/kind", "trace/mine/reaction", "trace/mine/site", "trace/mine/count",
		"trace/mine/flow", "trace/mine/argument", "trace/mine/neighbour", "trace/mine/order", "trace/mine/pace", "trace/mine/join", "trace/replay/plan", "trace/replay/judge"}
	impure = []string{"input/compressed", "plan/milp"} // rooms of their own on the map, so that no pure room may import them
)

// fitForPure is all that a pure room may import beside rooms of ours: packages
// that compute and do nothing else, but for the names in worldly.
var fitForPure = []string{
	"bytes", "cmp", "container/heap", "container/list", "embed", "encoding/binary", "encoding/csv", "encoding/hex", "encoding/json", "encoding/xml",
	"errors", "fmt", "io", "io/fs", "iter", "maps", "math", "math/big", "math/bits", "math/cmplx", "math/rand/v2", "regexp", "slices", "sort",
	"strconv", "strings", "text/tabwriter", "time", "unicode", "unicode/utf8",
	"go.yaml.in/yaml/v3", "gonum.org/v1/gonum/dsp/fourier", "gonum.org/v1/gonum/floats", "gonum.org/v1/gonum/mat",
}

// worldly are names of packages that are otherwise fit which reach for the
// clock, the local time zone, the terminal or a coroutine.
var worldly = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "LoadLocation", "Local"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"iter": {"Pull", "Pull2"},
}

// seeded are the names of math/rand/v2 that need a seed or a source handed in;
// all its others draw from the global generator.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Zipf", "Source"}

func TestLayersAndPurity(t *testing.T) {
	seen := 0
	walkSources(t, func(name string, file *ast.File, fset *token.FileSet) {
		seen++
		for _, complaint := range complaints(name, file, fset) {
			t.Error(complaint)
		}
	})
	if seen == 0 {
		t.Fatal("no Go files found")
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	commented := map[string]bool{}
	walkSources(t, func(name string, file *ast.File, _ *token.FileSet) {
		dir := path.Dir(name)
		says := file.Doc != nil && len(strings.TrimSpace(file.Doc.Text())) > 20
		commented[dir] = commented[dir] || says
	})
	for dir, says := range commented {
		if !says {
			t.Errorf("%s: no file has a package comment that says what the package is for", dir)
		}
	}
}

// TestPlantedViolations shows that each rule catches what it is meant to catch.
func TestPlantedViolations(t *testing.T) {
	for _, tc := range []struct{ file, body, want string }{
		{"cluster/x.go", `import "gleaner/kv"; var _ = kv.ErrHeld`, "may not import gleaner/kv"},
		{"classify/x.go", `import k "gleaner/history"; var _ k.Store`, "may not import gleaner/history"},
		{"sim/x.go", `import _ "gleaner/local"`, "may not import gleaner/local"},
		{"lab/x.go", `import _ "gleaner/cmd/gleaner"`, "may not import gleaner/cmd/gleaner"},
		{"control/harvester/x.go", `import _ "gleaner/local"`, "may not import gleaner/local"},
		{"control/harvester/x.go", `import _ "gleaner/web"`, "may not import gleaner/web"},
		{"web/page/x.go", `import _ "gleaner/web"`, "may not import gleaner/web"},
		{"simulation/x.go", `import _ "gleaner/lab"`, "may not import gleaner/lab"},
		{"fabric/nbd/x.go", `import "gleaner/kv"; var _ = kv.ErrHeld`, "may not import gleaner/kv"},
		{"attic/x.go", ``, "is not on the map"},
		{"trace/mine/kind/x.go", `import _ "gleaner/trace/mine/site"`, "kind may not import gleaner/trace/mine/site"},
		{"trace/mine/order/x.go", `import _ "gleaner/trace/mine"`, "order may not import gleaner/trace/mine"},
		{"fabric/upkeep/x.go", `import _ "gleaner/fabric/volume"`, "upkeep may not import gleaner/fabric/volume"},
		{"trace/mine/attic/x.go", ``, "attic is not on the map of trace/mine"},
		{"trace/mine/pace/x.go", `import "time"; var t0 = time.Now()`, "time.Now"},
		{"curator/learn/x.go", `import "math/rand/v2"; var n = rand.IntN(3)`, "global generator"},
		{"history/x.go", `import _ "k8s.io/api/core/v1"`, "only kube may import k8s.io"},
		{"harvest/x.go", `import "time"; var t0 = time.Now()`, "time.Now"},
		{"harvest/x.go", `import clock "time"; var now = clock.Now`, "time.Now"},
		{"harvest/x.go", `import . "time"; var t0 = Now()`, "dot import"},
		{"placement/x.go", `func f() { go func() {}() }`, "goroutine"},
		{"placement/x.go", `import "math/rand/v2"; var n = rand.IntN(3)`, "global generator"},
		{"placement/x.go", `import chance "math/rand/v2"; var n = chance.Shuffle`, "global generator"},
		{"dilation/x.go", `import "math/rand"; var n = rand.Int()`, "math/rand"},
		{"dilation/x.go", `import "gonum.org/v1/gonum/stat/distuv"; var n = distuv.Normal{}.Rand()`, "distuv"},
		{"dilation/x.go", `import "hash/maphash"; var n = maphash.MakeSeed()`, "hash/maphash"},
		{"cluster/x.go", `import "sync"; func f(g *sync.WaitGroup) { g.Go(func() {}) }`, "sync"},
		{"cluster/x.go", `import "context"; var f = context.AfterFunc`, "context"},
		{"cluster/x.go", `import "iter"; func f(s iter.Seq[int]) { iter.Pull(s) }`, "iter.Pull"},
		{"cluster/x.go", `import "runtime"; var n = runtime.NumCPU()`, "runtime"},
		{"cluster/x.go", `func f() { println("x") }`, "println"},
		{"cluster/x.go", `func f() { print("x") }`, "print"},
		{"cluster/x.go", `import "time"; var here = time.Local`, "time.Local"},
		{"cluster/x.go", `import "time"; func f(t time.Time) time.Time { return t.Local() }`, "local time zone"},
		{"cluster/x.go", `import "text/template"; var f = template.ParseFiles`, "text/template"},
		{"cluster/x.go", `import "C"`, "C"},
		{"cluster/x.go", `import _ "unsafe"`, "unsafe"},
		{"cluster/x.go", "//go:linkname now time.Now\nfunc now()", "linkname"},
		{"cluster/out/x.go", `import "os"; var _ = os.Args`, "os"},
		{"plan/x.go", `import "gleaner/plan/milp"; var _ = milp.Solve`, "may not import gleaner/plan/milp"},
		{"input/x.go", `import "gleaner/input/compressed"; var _ = compressed.Open`, "may not import gleaner/input/compressed"},
		{"dilation/x.go", `import "os"; var _ = os.Args`, "os"},
		{"plan/x.go", `import "log/slog"; var _ = slog.Info`, "log/slog"},
		{"plan/x.go", `import "net/http"; var _ = http.Get`, "net/http"},
		{"classify/x.go", `import "fmt"; func f() { fmt.Println() }`, "fmt.Println"},
		{"classify/deep/x.go", `import "time"; func f() { time.Sleep(1) }`, "time.Sleep"},
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, tc.file, "package x\n"+tc.body, parser.ParseComments)
		if err != nil {
			t.Fatalf("%s: %v", tc.body, err)
		}
		got := strings.Join(complaints(tc.file, file, fset), "\n")
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s with %q: complaints %q do not mention %q", tc.file, tc.body, got, tc.want)
		}
	}

	clean := `import ("math/rand/v2"; "time"; "gleaner/cluster"; "gleaner/input")
		func f(r *rand.Rand, at time.Time) time.Time { _ = rand.New(rand.NewPCG(1, 2)); return at.Add(time.Second) }
		var _ cluster.ServerID; var _ input.Error`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "harvest/x.go", "package x\n"+clean, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := complaints("harvest/x.go", file, fset); len(got) > 0 {
		t.Errorf("clean source: unexpected complaints %q", got)
	}
}

// walkSources parses every Go file of the main module but the tests'.
func walkSources(t *testing.T, visit func(name string, file *ast.File, fset *token.FileSet)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || name == "out") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != "." {
				return filepath.SkipDir // a module of its own keeps its own house
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(name), file, fset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func complaints(name string, file *ast.File, fset *token.FileSet) []string {
	dir := path.Dir(name)
	room := longestPrefix(dir, keys(mayImport))
	if room == "" {
		return []string{fmt.Sprintf("%s: the room %s is not on the map in layers_test.go", name, dir)}
	}
	c := checker{name: name, room: room, fset: fset}
	c.pure = longestPrefix(dir, pure) != "" && longestPrefix(dir, impure) == ""
	c.imports(file)
	c.importsWithin(dir, file)
	if c.pure {
		c.purity(file)
	}
	return c.found
}

type checker struct {
	name, room string
	pure       bool
	fset       *token.FileSet
	local      map[string]string // local name of an import -> its path
	found      []string
}

func (c *checker) complain(at token.Pos, format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf("%s:%d: %s", c.name, c.fset.Position(at).Line, fmt.Sprintf(format, args...)))
}

func (c *checker) imports(file *ast.File) {
	c.local = map[string]string{}
	for _, imp := range file.Imports {
		target, _ := strconv.Unquote(imp.Path.Value)
		local := path.Base(target)
		if local == "v2" {
			local = path.Base(path.Dir(target))
		}
		if imp.Name != nil {
			local = imp.Name.Name
		}
		c.local[local] = target
		if strings.HasPrefix(target, "k8s.io/") {
			c.complain(imp.Pos(), "only kube may import k8s.io")
		}
		if ours, ok := strings.CutPrefix(target, "gleaner/"); ok {
			to := longestPrefix(ours, keys(mayImport))
			if to != c.room && !slices.Contains(mayImport[c.room], to) && !slices.Contains(everyone, to) {
				c.complain(imp.Pos(), "%s may not import gleaner/%s", c.room, ours)
			}
		}
		if !c.pure {
			continue
		}
		if local == "." {
			c.complain(imp.Pos(), "a dot import hides what a pure room uses")
		}
		if !strings.HasPrefix(target, "gleaner/") && !slices.Contains(fitForPure, target) {
			c.complain(imp.Pos(), "pure room imports %s, which is not on the list of what is fit for one", target)
		}
	}
}

// importsWithin checks the rooms of a room that is made of rooms.
func (c *checker) importsWithin(dir string, file *ast.File) {
	outer := longestPrefix(dir, keys(within))
	if outer == "" || dir == outer {
		return
	}
	rooms, from := within[outer], roomIn(outer, dir)
	if rooms[from] == nil {
		c.complain(file.Pos(), "the room %s is not on the map of %s in layers_test.go", from, outer)
		return
	}
	for _, imp := range file.Imports {
		target, _ := strconv.Unquote(imp.Path.Value)
		ours, _ := strings.CutPrefix(target, "gleaner/")
		to := roomIn(outer, ours)
		if longestPrefix(ours, []string{outer}) != "" && to != from && !slices.Contains(rooms[from], to) {
			c.complain(imp.Pos(), "%s may not import %s", from, target)
		}
	}
}

// roomIn is the room of outer that dir is in, "" for outer itself.
func roomIn(outer, dir string) string {
	room, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(dir, outer), "/"), "/")
	return room
}

func (c *checker) purity(file *ast.File) {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "//go:linkname") {
				c.complain(comment.Pos(), "pure room uses go:linkname")
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			c.complain(n.Pos(), "pure room starts a goroutine")
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
				c.complain(n.Pos(), "pure room writes to the terminal by %s", id.Name)
			}
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Local" && len(n.Args) == 0 {
				c.complain(n.Pos(), "pure room asks for the local time zone")
			}
		case *ast.SelectorExpr:
			c.selector(n)
		}
		return true
	})
}

func (c *checker) selector(n *ast.SelectorExpr) {
	id, ok := n.X.(*ast.Ident)
	target := ""
	if ok {
		target = c.local[id.Name]
	}
	switch {
	case slices.Contains(worldly[target], n.Sel.Name):
		c.complain(n.Pos(), "pure room uses %s.%s", target, n.Sel.Name)
	case target == "math/rand/v2" && !slices.Contains(seeded, n.Sel.Name):
		c.complain(n.Pos(), "pure room draws from the global generator: rand.%s", n.Sel.Name)
	}
}

// longestPrefix returns the longest of names that is dir or a folder above it.
func longestPrefix(dir string, names []string) string {
	best := ""
	for _, name := range names {
		if (dir == name || strings.HasPrefix(dir, name+"/")) && len(name) > len(best) {
			best = name
		}
	}
	return best
}

func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

// TestNobodyBelowCmdSpeaksOfFlags: which flag a field is, only the command line
// knows; a page calls it something else.
func TestNobodyBelowCmdSpeaksOfFlags(t *testing.T) {
	walkSources(t, func(name string, file *ast.File, fset *token.FileSet) {
		if strings.HasPrefix(name, "cmd/") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			of, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if room, ok := of.X.(*ast.Ident); !ok || room.Name != "input" {
				return true
			}
			for _, arg := range call.Args {
				if text, ok := arg.(*ast.BasicLit); ok && text.Kind == token.STRING && strings.Contains(text.Value, "--") {
					t.Errorf("%s: %s speaks of a flag; name the field (input.Fieldf)", fset.Position(text.Pos()), text.Value)
				}
			}
			return true
		})
	})
}
