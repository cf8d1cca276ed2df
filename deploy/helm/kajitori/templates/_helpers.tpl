{{- /* Made by docs/generate.py; edits here are lost. */ -}}
{{- define "kajitori.image" -}}
{{- $images := (index . 0).Values.images -}}
{{- $name := index $images (index . 1) -}}
{{- $digest := index $images (printf "%sDigest" (index . 1)) -}}
{{- if $images.prefix }}{{ printf "%s/" (trimSuffix "/" $images.prefix) }}{{ end -}}
{{- if $digest }}{{ printf "%s@%s" (regexReplaceAll ":[^:/]*$" $name "") $digest }}{{ else }}{{ $name }}{{ end -}}
{{- end }}
{{- define "kajitori.alerts" -}}
{{- if ne .Values.monitoring.alerts "auto" }}{{ .Values.monitoring.alerts }}
{{- else if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}prometheusRule
{{- else }}configMap{{ end -}}
{{- end }}
