package main

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// kubeVersion is the version of Kubernetes that the chart is rendered for. The templates do not depend on it.
const kubeVersion = "v1.37.1"

// The function `render` renders the chart in a directory with values that override its own. It returns the text of each
// template that renders to something, by its file name. The values are checked against the chart's schema.
func render(dir string, values map[string]any, namespace string) (map[string]string, error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	if err := chart.Validate(); err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	version, err := common.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, err
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	options := common.ReleaseOptions{Name: "ares", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, options, capabilities)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	rendered, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return nil, fmt.Errorf("render the chart: %w", err)
	}
	out := map[string]string{}
	for name, text := range rendered {
		if path.Ext(name) == ".yaml" && strings.TrimSpace(text) != "" {
			out[path.Base(name)] = text
		}
	}
	return out, nil
}

func keys(m map[string]string) iter.Seq[string] { return maps.Keys(m) }
