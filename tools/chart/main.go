// Command chart renders the Helm chart deploy/charts/ares with its default values. It writes the files directly in
// deploy, for `kubectl apply -f deploy/`, and those in deploy/kustomize. With --check, it writes nothing and fails if a
// file differs from the chart.
//
// Usage: chart [--check] ROOT, where ROOT is the root of the repository.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if a file differs from the chart")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: chart [--check] ROOT")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// header is the first line of every rendered file.
const header = "# Rendered from deploy/charts/ares by `make chart`. Change the chart instead of this file.\n"

func run(root string, check bool) error {
	templates, err := render(filepath.Join(root, "deploy/charts/ares"), nil, "kube-system")
	if err != nil {
		return err
	}
	want := files(templates)
	var problems []error
	for name, text := range want {
		path := filepath.Join(root, "deploy", name)
		have, err := os.ReadFile(path)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case err == nil && bytes.Equal(have, text):
		case check:
			problems = append(problems, fmt.Errorf("deploy/%s differs from the chart: run make chart", name))
		default:
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return err
			}
		}
	}
	return errors.Join(append(problems, others(root, want, check)...)...)
}

// The function `others` looks for files in deploy that the chart does not render. Files that an earlier chart rendered
// are removed, or reported if `check` is true. All others are reported, because `kubectl apply -f deploy/` would apply
// them.
func others(root string, want map[string][]byte, check bool) (problems []error) {
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json", "kustomize/*"} {
		found, err := filepath.Glob(filepath.Join(root, "deploy", pattern))
		if err != nil {
			return []error{err}
		}
		for _, path := range found {
			name, err := filepath.Rel(filepath.Join(root, "deploy"), path)
			if err != nil {
				return []error{err}
			}
			if want[filepath.ToSlash(name)] != nil {
				continue
			}
			text, err := os.ReadFile(path)
			switch {
			case err != nil:
				problems = append(problems, err)
			case !bytes.HasPrefix(text, []byte(header)):
				problems = append(problems, fmt.Errorf("deploy/%s is not from the chart, but kubectl would apply it: move it into another directory", name))
			case check:
				problems = append(problems, fmt.Errorf("deploy/%s is no longer in the chart: run make chart", name))
			default:
				if err := os.Remove(path); err != nil {
					problems = append(problems, err)
				}
			}
		}
	}
	return problems
}

// The function `files` returns the content of every file in deploy that the chart renders, by its path below deploy.
func files(templates map[string]string) map[string][]byte {
	out := map[string][]byte{}
	var all strings.Builder
	all.WriteString(header)
	for _, name := range slices.Sorted(keys(templates)) {
		text := "---\n" + strings.TrimPrefix(strings.TrimSpace(templates[name]), "---\n") + "\n"
		out[name] = []byte(header + text)
		all.WriteString(text)
	}
	out["kustomize/scheduler.yaml"] = []byte(all.String())
	out["kustomize/kustomization.yaml"] = []byte(header + kustomization)
	return out
}

// kustomization lets `kubectl apply -k deploy/kustomize` install the scheduler, and overlays change it.
const kustomization = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - scheduler.yaml
# An overlay changes the image like this:
#   images:
#     - name: ares-kube-scheduler
#       newName: registry.example.com/ares-kube-scheduler
#       newTag: "1.0"
`
