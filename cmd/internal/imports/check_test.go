package imports

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// file is a Go file that is not a test, whatever its build constraints say: the
// rooms are the same on every platform.
type file struct {
	name    string // slash-separated, from the module's root
	imports []imported
	ast     *ast.File
}

// imported is one import: what, and the name that the file has for it.
type imported struct{ path, name string }

func (f file) pkg() string { return path.Dir(f.name) }

// read parses the module's files, leaving out the folders that the go command
// leaves out and build, where nothing is source.
func read(module fs.FS) ([]file, error) {
	var files []file
	err := fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			base := d.Name()
			if name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") ||
				slices.Contains([]string{"build", "node_modules", "testdata", "vendor"}, base)) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f := file{name: name, ast: parsed}
		for _, spec := range parsed.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			i := imported{path: p, name: path.Base(p)}
			if spec.Name != nil {
				i.name = spec.Name.Name
			}
			f.imports = append(f.imports, i)
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// check gives what is wrong with the module's imports, a line each.
func check(moduleName string, files []file) []string {
	var wrong []string
	for _, f := range files {
		r, err := ruleOf(f.pkg())
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		for _, i := range f.imports {
			if why := r.refuses(moduleName, f.pkg(), i.path); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", f.name, i.path, why))
			}
		}
		if r.pure && f.name != clock {
			wrong = append(wrong, clocks(f)...)
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// ruleOf gives the one rule that a package is under.
func ruleOf(pkg string) (rule, error) {
	var found []rule
	for _, r := range rules {
		for _, room := range r.rooms {
			if match(room, pkg) {
				found = append(found, r)
			}
		}
	}
	if len(found) != 1 {
		return rule{}, fmt.Errorf("package %s is in %d rooms of the table, want 1", pkg, len(found))
	}
	return found[0], nil
}

// refuses says why the rule's package pkg may not import something, "" where it may.
func (r rule) refuses(moduleName, pkg, imported string) string {
	ours, isOurs := strings.CutPrefix(imported, moduleName+"/")
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case isOurs && forTests(ours):
		if !forTests(pkg) {
			return "only tests may"
		}
		return ""
	case isOurs:
		if matchAny(r.ours, ours) || r.kin && kin(pkg, ours) {
			return ""
		}
		return fmt.Sprintf("%s may import %s", pkg, r.list())
	case strings.Contains(first, "."):
		for lib, rooms := range owners {
			if match(lib, imported) && !matchAny(rooms, pkg) {
				return "only " + strings.Join(rooms, " and ") + " may"
			}
		}
		if r.pure && !slices.Contains(r.libs, imported) {
			return pkg + " is pure, and the table lists no such library"
		}
		return ""
	case r.pure && (matchAny(impure, imported) || imported == "C"):
		return pkg + " is pure: no I/O, no wall clock, no randomness"
	}
	return ""
}

func (r rule) list() string {
	all := slices.Clone(r.ours)
	if r.kin {
		all = append(all, "what is above and below it")
	}
	if len(all) == 0 {
		return "nothing of ours"
	}
	return strings.Join(all, ", ")
}

// clocks gives the places where a file of a pure room reads a clock.
func clocks(f file) []string {
	var wrong []string
	called := map[string]string{} // the name in this file: the package
	for _, i := range f.imports {
		if _, ticks := clockwork[i.path]; !ticks {
			continue
		}
		if i.name == "." {
			wrong = append(wrong, fmt.Sprintf("%s imports %s with a dot, which hides clocks", f.name, i.path))
		}
		called[i.name] = i.path
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(clockwork[called[x.Name]], sel.Sel.Name) {
			wrong = append(wrong, fmt.Sprintf("%s uses %s.%s: %s is pure, times come in by argument",
				f.name, called[x.Name], sel.Sel.Name, f.pkg()))
		}
		return true
	})
	return wrong
}

// forTests reports whether a package is there for tests alone, as eventstoretest is.
func forTests(pkg string) bool { return strings.HasSuffix(pkg, "test") }

// kin reports whether one package is above the other, within one room: the first
// two elements of a path are the room's.
func kin(a, b string) bool {
	above := func(a, b string) bool { return strings.HasPrefix(b, a+"/") && strings.Contains(a, "/") }
	return above(a, b) || above(b, a)
}

func match(pattern, pkg string) bool {
	if top, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == top || strings.HasPrefix(pkg, top+"/")
	}
	return pkg == pattern
}

func matchAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, pkg) })
}
