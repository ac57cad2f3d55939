{{- /*
CEL expressions that the admission policies share. The rules are those of the Go package kube/annotations; a test
compares the two. Each definition takes a dict:
  root   the root of the chart
  pod    path of the pod's spec: object.spec or object.spec.template.spec; if it is empty, only the annotations themselves are
         checked, because the object has pods of several kinds or none
  inner  path of the pod's metadata: object.metadata or object.spec.template.metadata
  pods   expression for the number of pods that run at the same time
*/ -}}

{{- define "ares.known" -}}
topology.scheduler/gpu-count, topology.scheduler/preferred-domain, topology.scheduler/network-bandwidth, topology.scheduler/latency-sensitive, topology.scheduler/placement-strategy
{{- end -}}

{{- /* True if the object or its pod template has an annotation with the prefix. */ -}}
{{- define "ares.annotated" -}}
{{ if ne .inner "object.metadata" }}object.metadata.?annotations.orValue({}).exists(k, k.startsWith("topology.scheduler/")) ||
{{ end }}{{ .inner }}.?annotations.orValue({}).exists(k, k.startsWith("topology.scheduler/"))
{{- end -}}

{{- /* The GPUs that the containers of a list ask for. */ -}}
{{- define "ares.gpusOf" -}}
{{ .list }}.map(c, c.?resources.?limits[?"nvidia.com/gpu"].hasValue() ? quantity(string(c.resources.limits["nvidia.com/gpu"])).asInteger() : 0).sum()
{{- end -}}

{{- /* True if no container asks for a GPU or a part of one, and no claim does. */ -}}
{{- define "ares.noGPUs" -}}
!{{ .pod }}.?resourceClaims.hasValue() &&
({{ .pod }}.containers + {{ .pod }}.?initContainers.orValue([])).all(c, !c.?resources.?limits.orValue({}).exists(k, k.startsWith("nvidia.com/")))
{{- end -}}

{{- /* Variables of a policy. The pod's annotation wins over its owner's. */ -}}
{{- define "ares.variables" -}}
- name: outer
  expression: {{ if eq .inner "object.metadata" }}"{}"{{ else }}object.metadata.?annotations.orValue({}){{ end }}
- name: inner
  expression: {{ .inner }}.?annotations.orValue({})
- name: unknown
  expression: >-
    (variables.outer.filter(k, k.startsWith("topology.scheduler/")) + variables.inner.filter(k, k.startsWith("topology.scheduler/")))
    .filter(k, !(k in "{{ include "ares.known" . }}".split(", ")))
{{- range $name, $key := dict "gpuCount" "gpu-count" "domain" "preferred-domain" "bandwidth" "network-bandwidth" "latency" "latency-sensitive" "strategy" "placement-strategy" }}
- name: {{ $name }}
  expression: variables.inner[?"topology.scheduler/{{ $key }}"].or(variables.outer[?"topology.scheduler/{{ $key }}"])
{{- end }}
- name: count
  expression: >-
    variables.gpuCount.orValue("").matches("^[1-9][0-9]{0,4}$") && quantity(variables.gpuCount.value()).asInteger() <= 16384 ? quantity(variables.gpuCount.value()).asInteger() : 0
{{- if .pod }}
- name: pods
  expression: {{ .pods | quote }}
- name: gpus
  expression: >-
    {{ include "ares.gpusOf" (dict "root" .root "list" (print .pod ".containers")) }}
# Init containers, claims and the resources of the whole pod change how many GPUs it needs. The scheduler checks those.
- name: comparable
  expression: >-
    variables.count > 0 && {{ .pod }}.schedulerName == "{{ .root.Values.schedulerName }}" &&
    !{{ .pod }}.?resourceClaims.hasValue() && !{{ .pod }}.?resources.hasValue() &&
    {{ include "ares.gpusOf" (dict "root" .root "list" (print .pod ".?initContainers.orValue([])")) }} == 0
{{- end }}
{{- end -}}

{{- define "ares.validations" -}}
- expression: variables.unknown.size() == 0
  messageExpression: >-
    variables.unknown.join(", ") + ": there is no such annotation: write one of {{ include "ares.known" . }}, or remove it"
- expression: "!variables.gpuCount.hasValue() || variables.count > 0"
  messageExpression: >-
    "topology.scheduler/gpu-count: \"" + variables.gpuCount.value() + "\" is not a number of GPUs: write a whole number from 1 to 16384, such as \"8\""
- expression: "!variables.domain.hasValue() || variables.domain.value().matches('^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$')"
  messageExpression: >-
    "topology.scheduler/preferred-domain: \"" + variables.domain.value() + "\" is not the name of a domain: write the name of a leaf or a spine, such as \"leaf-1\""
- expression: "!variables.bandwidth.hasValue() || variables.bandwidth.value().matches('^([1-9][0-9]{0,4}|100000)Gb(ps)?$')"
  messageExpression: >-
    "topology.scheduler/network-bandwidth: \"" + variables.bandwidth.value() + "\" is not a bandwidth: write a whole number of gigabits per second with the unit Gb, such as \"100Gb\""
- expression: "!variables.latency.hasValue() || variables.latency.value() in ['true', 'false']"
  messageExpression: >-
    "topology.scheduler/latency-sensitive: \"" + variables.latency.value() + "\" is neither true nor false: write \"true\" or \"false\""
- expression: "!variables.strategy.hasValue() || variables.strategy.value() in ['consolidated', 'distributed', 'balanced']"
  messageExpression: >-
    "topology.scheduler/placement-strategy: \"" + variables.strategy.value() + "\" is not a strategy: write consolidated, distributed or balanced"
{{- if .pod }}
- expression: "!variables.comparable || variables.gpus > 0 || variables.count % variables.pods == 0"
  messageExpression: >-
    "topology.scheduler/gpu-count: " + string(variables.count) + " GPUs cannot be divided among " + string(variables.pods) +
    " pods: write a multiple of " + string(variables.pods) + ", or set the limit nvidia.com/gpu of one pod"
- expression: "!variables.comparable || variables.gpus == 0 || variables.count == variables.gpus || variables.count == variables.gpus * variables.pods"
  messageExpression: >-
    "topology.scheduler/gpu-count: \"" + string(variables.count) + "\" " + (variables.pods == 1 ?
    "differs from the GPU limits of the pod, which are " + string(variables.gpus) + ": write \"" + string(variables.gpus) + "\"" :
    "agrees neither with the GPU limits of one pod, which are " + string(variables.gpus) + ", nor with those of all " + string(variables.pods) +
    " pods: write \"" + string(variables.gpus) + "\" or \"" + string(variables.gpus * variables.pods) + "\"") + ", or change the limits"
{{- end }}
{{- end -}}

{{- /* Conditions under which the GPU limits of a workload are set. */ -}}
{{- define "ares.defaultConditions" -}}
- name: this-scheduler
  expression: {{ .pod }}.schedulerName == "{{ .root.Values.schedulerName }}"
- name: no-gpu-limits
  expression: >-
    {{- include "ares.noGPUs" . | nindent 4 }}
- name: gpu-count-is-divisible
  expression: >-
    {{ .inner }}.?annotations[?"topology.scheduler/gpu-count"].or(object.metadata.?annotations[?"topology.scheduler/gpu-count"]).orValue("").matches("^[1-9][0-9]{0,4}$") &&
    quantity({{ .inner }}.?annotations[?"topology.scheduler/gpu-count"].or(object.metadata.?annotations[?"topology.scheduler/gpu-count"]).value()).asInteger() % {{ .pods }} == 0
{{- end -}}

{{- define "ares.defaultVariables" -}}
- name: each
  expression: >-
    string(quantity({{ .inner }}.?annotations[?"topology.scheduler/gpu-count"].or(object.metadata.?annotations[?"topology.scheduler/gpu-count"]).value()).asInteger() / {{ .pods }})
{{- end -}}
