package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"path"
)

// The type `checker` type-checks packages of the tree. The checker takes
// imported packages of this module from the tree, and type-checks all other
// imported packages from their source.
type checker struct {
	tree   *Tree
	other  types.Importer
	info   *types.Info
	checks map[string]*check // by package path
}

// The type `check` is the result of type-checking one package. Both pkg and err
// are nil until the type check ends.
type check struct {
	pkg *types.Package
	err error
}

// typeChecker returns the checker that all rules share. All rules share one
// checker, because checking the standard library from source takes seconds.
func (t *Tree) typeChecker() *checker {
	if t.checker == nil {
		t.checker = &checker{
			tree:  t,
			other: importer.ForCompiler(t.Fset, "source", nil),
			info: &types.Info{
				Types: map[ast.Expr]types.TypeAndValue{},
				Defs:  map[*ast.Ident]types.Object{},
				Uses:  map[*ast.Ident]types.Object{},
			},
			checks: map[string]*check{},
		}
	}
	return t.checker
}

// Import implements types.Importer.
func (c *checker) Import(importPath string) (*types.Package, error) {
	dir, ok := inModule(importPath)
	if !ok {
		return c.other.Import(importPath)
	}
	for _, p := range c.tree.Packages {
		if p.Path == dir {
			return c.check(p)
		}
	}
	return nil, fmt.Errorf("%s is not in the tree", importPath)
}

// The method `check` type-checks a package without its tests. If the method
// returns an error, c.info still contains the type information about the
// correct parts of the package.
func (c *checker) check(p *Package) (*types.Package, error) {
	if done := c.checks[p.Path]; done != nil {
		if done.pkg == nil && done.err == nil {
			return nil, fmt.Errorf("%s imports itself", p.Path)
		}
		return done.pkg, done.err
	}
	done := &check{}
	c.checks[p.Path] = done
	var files []*ast.File
	p.source(func(f *File) { files = append(files, f.AST) })
	conf := types.Config{Importer: c, Error: func(error) {}} // Check returns the first error
	pkg, err := conf.Check(path.Join(module, p.Path), c.tree.Fset, files, c.info)
	if err != nil {
		done.err = fmt.Errorf("check types of %s: %w", p.Path, err)
		return nil, done.err
	}
	done.pkg = pkg
	return pkg, nil
}
