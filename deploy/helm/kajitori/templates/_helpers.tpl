{{- /* Made by docs/generate.py; edits here are lost. */ -}}
{{- define "kajitori.image" -}}
{{- $images := (index . 0).Values.images -}}
{{- $name := index $images (index . 1) -}}
{{- $digest := index $images (printf "%sDigest" (index . 1)) -}}
{{- if $images.prefix }}{{ printf "%s/" (trimSuffix "/" $images.prefix) }}{{ end -}}
{{- if $digest }}{{ printf "%s@%s" (regexReplaceAll ":[^:/]*$" $name "") $digest }}{{ else }}{{ $name }}{{ end -}}
{{- end }}
