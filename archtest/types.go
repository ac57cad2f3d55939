package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"path"
)

// checker type-checks packages of the tree. It imports packages of the module
// from the tree, and all others from their source.
type checker struct {
	tree   *Tree
	other  types.Importer
	info   *types.Info
	checks map[string]*check // by package path
}

// check is the outcome of type-checking one package. Both fields are nil while
// the package is being checked.
type check struct {
	pkg *types.Package
	err error
}

// typeChecker returns the tree's one checker. All rules share it, because
// checking the standard library from source takes seconds.
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

// check type-checks a package without its tests. After an error, c.info still
// holds what is known of the well-typed parts.
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
