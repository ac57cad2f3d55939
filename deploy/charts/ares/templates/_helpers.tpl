{{- /* The labels of every object. */ -}}
{{- define "ares.labels" -}}
app: topology-scheduler
app.kubernetes.io/name: ares
app.kubernetes.io/component: scheduler
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- /*
The namespace of every namespaced object. The scheduler reads its configuration and holds its Lease in kube-system, and
people look for its pods there.
*/ -}}
{{- define "ares.namespace" -}}
{{- if ne .Release.Namespace "kube-system" -}}
{{- fail (printf "the scheduler runs in kube-system, not in %s: add --namespace kube-system" .Release.Namespace) -}}
{{- end -}}
kube-system
{{- end -}}
