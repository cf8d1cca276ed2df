"""All files of the Helm chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kajitori import __version__
from kajitori.install.helm.marks import block_mark, marked_settings
from kajitori.install.helm.secrets import cert_manager_certificates, own_certificates, sign_in_key
from kajitori.install.helm.templates import SWITCHES, conditions_of, template
from kajitori.install.parts.monitoring import alerts, monitors
from kajitori.install.parts.objects import as_yaml, identity
from kajitori.install.render import render
from kajitori.install.settings import InstallSettings, TlsSettings

_GENERATED = "# Made by docs/generate.py (make reference) from src/kajitori/install; edits here are lost.\n"
_HELPERS = """\
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
"""
"""Named templates: the full name of an image, and the form of the alert rules that the cluster can read."""
_GATEWAY = """\
{{- if .Values.gateway.enabled }}
{{- if not .Values.gateway.groups }}
{{- fail "gateway.groups must name the groups that the gateway may impersonate" }}
{{- end }}
{{- if not .Values.signIn.issuer }}
{{- fail "the gateway needs signIn.issuer" }}
{{- end }}
{{- end }}
"""
"""Checks the gateway's values. A rule of a role that names no groups would allow all groups, so they are required."""


def chart() -> dict[str, str]:
    """Return every file of the chart by its path below `deploy/helm/kajitori`."""
    settings = marked_settings(TlsSettings(certificates="given"))
    conditions = conditions_of(settings)
    rendered = render(settings, block_mark("policy"), block_mark("networks"))
    definition, namespaces = rendered.pop("definition"), rendered.pop("namespace")
    rendered["priorityclass"] = [document for document in definition if "spec" not in document]
    rendered["messages-namespace"] = [
        document for document in namespaces if document["metadata"]["name"] == settings.messages_namespace
    ]
    rendered["agents-namespace"] = [document for document in namespaces if identity(document) in conditions]
    files = {
        f"templates/{name}.yaml": _GENERATED + template(documents, conditions) for name, documents in rendered.items()
    }
    files["templates/gateway.yaml"] = files["templates/gateway.yaml"].replace(_GENERATED, _GENERATED + _GATEWAY)
    files["templates/alerts.yaml"] = _GENERATED + _alerts_template(settings)
    files["templates/monitors.yaml"] = _GENERATED + _monitors_template(settings)
    files["crds/definition.yaml"] = _GENERATED + as_yaml([document for document in definition if "spec" in document])
    files["templates/certificates.yaml"] = _GENERATED + own_certificates(settings) + cert_manager_certificates()
    files["templates/sign-in.yaml"] = _GENERATED + sign_in_key()
    files["templates/_helpers.tpl"] = "{{- /* Made by docs/generate.py; edits here are lost. */ -}}\n" + _HELPERS
    files["Chart.yaml"] = _GENERATED + as_yaml([_chart_description()])
    files["values.yaml"] = _GENERATED + _default_values()
    return files


def _chart_description() -> Mapping[str, str]:
    return {
        "apiVersion": "v2",
        "name": "kajitori",
        "description": "A machine-learning platform on Kubernetes for people who know Docker",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.30.0-0",
    }


def _alerts_template(settings: InstallSettings) -> str:
    """Return the alert rules in both forms. Helm renders the one that the cluster can read."""
    text = ""
    for form in ("prometheusRule", "configMap"):
        monitoring = settings.monitoring.model_copy(update={"alerts": form})
        objects = alerts(settings.model_copy(update={"monitoring": monitoring}))
        text += f'{{{{- if eq (include "kajitori.alerts" .) "{form}" }}}}\n{template(objects, {})}{{{{- end }}}}\n'
    return text


def _monitors_template(settings: InstallSettings) -> str:
    """Return the objects that make Prometheus Operator read the metrics, if the cluster has it."""
    monitoring = settings.monitoring.model_copy(update={"alerts": "prometheusRule"})
    with_operator = settings.model_copy(update={"monitoring": monitoring})
    objects = monitors(with_operator)
    without_agents = monitors(with_operator.model_copy(update=SWITCHES["agents.enabled"]))
    conditions = {identity(one): "agents.enabled" for one in objects if one not in without_agents}
    text = f"{{{{- if .Values.monitoring.monitors }}}}\n{template(objects, conditions)}{{{{- end }}}}\n"
    return f'{{{{- if eq (include "kajitori.alerts" .) "prometheusRule" }}}}\n{text}{{{{- end }}}}\n'


def _default_values() -> str:
    """Return the default settings, as the chart's values. The namespace is that of the release."""
    defaults: dict[str, Any] = InstallSettings().model_dump(by_alias=True, exclude={"namespace", "pod_security"})
    defaults["tls"]["issuer"] = {"name": "", "kind": "ClusterIssuer"}
    defaults = _without_none(defaults)
    return as_yaml([{**defaults, "policy": "{}\n", "networks": "clusters: []\n"}])


def _without_none(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {key: _without_none(value) for key, value in values.items()}
    return "" if values is None else values
