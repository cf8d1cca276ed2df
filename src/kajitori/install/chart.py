"""Generates the Helm chart below `deploy/helm` from the same renderer as `kaji install`.

The objects are rendered from settings that have marks as texts and numbers. Each mark in the rendered objects is then
replaced by the expression for a value of the chart. A setting that switches something on or off becomes a condition
around a whole object or list entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kajitori import __version__
from kajitori.install.parts import watching
from kajitori.install.parts.objects import Identity, Object, as_yaml, identity, made
from kajitori.install.parts.roles import roles
from kajitori.install.parts.workloads import (
    GATEWAY_AUTHENTICATION,
    HISTORY_FOLDER,
    SIGN_IN_AUTHORITY,
)
from kajitori.install.render import certificates, in_order, render
from kajitori.install.settings import (
    CA_SECRET,
    HISTORY_PASSWORD_KEY,
    SIGN_IN_KEY,
    SIGN_IN_SECRET,
    TLS_SECRET,
    AgentSettings,
    GatewaySettings,
    HistorySettings,
    ImageSettings,
    InstallSettings,
    Issuer,
    MonitoringSettings,
    PartSettings,
    SignInSettings,
    StoreSettings,
    TlsSettings,
)

_MADE = "# Made by docs/generate.py (make reference) from src/kajitori/install; edits here are lost.\n"
_MARK = re.compile(r"kajimark-([a-z]+)-([A-Za-z.]+)-end")
_NUMBERS = {900001: "server.replicas", 900002: "controller.replicas", 900003: "relay.replicas"}
_PARTS = ("server", "controller", "relay")

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
_OWN_CERTIFICATES = """\
{{- if not (has .Values.tls.certificates (list "own" "certManager" "given")) }}
{{- fail "tls.certificates must be own, certManager or given" }}
{{- end }}
{{- if eq .Values.tls.certificates "own" }}
{{- $old := lookup "v1" "Secret" .Release.Namespace "%(ca)s" }}
{{- $tls := lookup "v1" "Secret" .Release.Namespace "%(tls)s" }}
{{- $agents := lookup "v1" "Secret" (printf "%%s-agents" .Release.Namespace) "%(tls)s" | default (dict "data" (dict)) }}
{{- $ca := genCAWithKey "kajitori-ca" 3650 (genPrivateKey "ecdsa") }}
{{- if $old }}{{ $ca = buildCustomCert (index $old.data "tls.crt") (index $old.data "tls.key") }}{{ end }}
{{- $names := concat (list %(names)s) .Values.tls.names }}
{{- $new := genSignedCertWithKey "kajitori" (list "127.0.0.1") $names 365 $ca (genPrivateKey "ecdsa") }}
{{- $newAgents := genSignedCertWithKey "kajitori" (list) (list %(agents)s) 365 $ca (genPrivateKey "ecdsa") }}
%(secrets)s%(renewal)s{{- end }}
"""
"""The authority and the certificates of `kaji install`, in Helm's template language. Existing ones are kept, and a
CronJob renews them. An earlier version may have left a Secret of agents without a certificate."""
_SIGN_IN = """\
{{- if .Values.signIn.issuer }}
{{- $old := lookup "v1" "Secret" .Release.Namespace "%(secret)s" }}
%(document)s{{- end }}
"""
"""The Secret with the key of browsers' sessions. An existing key is kept."""
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
_BLOCK = "kajimark-block-{}-end\n"


def chart() -> dict[str, str]:
    """Return every file of the chart by its path below `deploy/helm/kajitori`."""
    settings = _marked(TlsSettings(certificates="given"))
    conditions = _conditions(settings)
    rendered = render(settings, _BLOCK.format("policy"), _BLOCK.format("networks"))
    definition, namespaces = rendered.pop("definition"), rendered.pop("namespace")
    rendered["priorityclass"] = [document for document in definition if "spec" not in document]
    rendered["messages-namespace"] = [
        document for document in namespaces if document["metadata"]["name"] == settings.messages_namespace
    ]
    rendered["agents-namespace"] = [document for document in namespaces if identity(document) in conditions]
    files = {f"templates/{name}.yaml": _MADE + _template(documents, conditions) for name, documents in rendered.items()}
    files["templates/gateway.yaml"] = files["templates/gateway.yaml"].replace(_MADE, _MADE + _GATEWAY)
    files["templates/alerts.yaml"] = _MADE + _alerts(settings)
    files["templates/monitors.yaml"] = _MADE + _monitors(settings)
    files["crds/definition.yaml"] = _MADE + as_yaml([document for document in definition if "spec" in document])
    files["templates/certificates.yaml"] = _MADE + _own_certificates(settings) + _cert_manager()
    files["templates/sign-in.yaml"] = _MADE + _sign_in_key()
    files["templates/_helpers.tpl"] = "{{- /* Made by docs/generate.py; edits here are lost. */ -}}\n" + _HELPERS
    files["Chart.yaml"] = _MADE + as_yaml([_about()])
    files["values.yaml"] = _MADE + _values()
    return files


def _about() -> Mapping[str, str]:
    return {
        "apiVersion": "v2",
        "name": "kajitori",
        "description": "A machine-learning platform on Kubernetes for people who know Docker",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.30.0-0",
    }


# ---------------------------------------------------------------------------------------------- marks


def _text(value: str) -> str:
    """Return the mark of a text."""
    return f"kajimark-text-{value}-end"


def _yaml(value: str) -> str:
    """Return the mark of a list or mapping."""
    return f"kajimark-yaml-{value}-end"


def _marked(tls: TlsSettings) -> InstallSettings:
    """Return settings with marks as values, which the chart replaces by expressions. The values are not validated."""
    defaults = InstallSettings()
    parts = {name: _marked_part(name, getattr(defaults, name), number) for number, name in _numbered()}
    parts["server"] = parts["server"].model_copy(
        update={
            "service": _text("server.service"),
            "namespace": _text("server.namespace"),
            "url": "kajimark-or-server.url-end",
        }
    )
    return defaults.model_copy(
        update={
            "namespace": "kajimark-namespace-x-end",
            "images": _marked_images(),
            "tls": tls,
            "agents": _marked_agents(),
            "store": StoreSettings().model_copy(
                update={"url": _text("store.url"), "secret": "kajimark-or-store.secret-end"}
            ),
            "history": HistorySettings().model_copy(
                update={"url": _text("history.url"), "secret": _text("history.secret")}
            ),
            "sign_in": _marked_sign_in(),
            **parts,
            "gateway": _marked_gateway(),
            "monitoring": MonitoringSettings().model_copy(
                update={
                    "labels": {"kajimark": _yaml("monitoring.labels")},
                    "runbook_url": _text("monitoring.runbookUrl"),
                }
            ),
            "monitoring_namespace": _text("monitoringNamespace"),
        }
    )


def _marked_images() -> ImageSettings:
    return ImageSettings().model_copy(
        update={
            "parts": "kajimark-image-parts-end",
            "members": "kajimark-image-members-end",
            "pull_secrets": ["kajimark-each-images.pullSecrets-end"],
            "pull_policy": "kajimark-text-images.pullPolicy-end",
        }
    )


def _marked_agents() -> AgentSettings:
    return AgentSettings().model_copy(
        update={
            "cpu": _text("agents.cpu"),
            "memory": _text("agents.memory"),
            "memory_limit": _text("agents.memoryLimit"),
            "node_selector": {"kajimark": _yaml("agents.nodeSelector")},
            "relay_url": "kajimark-or-agents.relayUrl-end",
            "policy": {"kajimark": _yaml("agents.policy")},
            "metrics_secret": _text("agents.metricsSecret"),
        }
    )


def _marked_sign_in() -> SignInSettings:
    return SignInSettings().model_copy(
        update={
            "issuer": _text("signIn.issuer"),
            "client_id": _text("signIn.clientId"),
            "scopes": _text("signIn.scopes"),
            "url": _text("signIn.url"),
            "programs_url": _text("signIn.programsUrl"),
            "ca": _BLOCK.format("signIn.ca"),
            "client_secret": _text("signIn.clientSecret"),
        }
    )


def _marked_gateway() -> GatewaySettings:
    return GatewaySettings(enabled=True).model_copy(
        update={
            "prefix": "kajimark-quoted-gateway.prefix-end",
            "username_claim": _text("gateway.usernameClaim"),
            "groups_claim": _text("gateway.groupsClaim"),
            "groups": ["kajimark-each-gateway.groups-end"],
            "users": ["kajimark-each-gateway.users-end"],
        }
    )


def _numbered() -> Iterable[tuple[int, str]]:
    return [(number, path.partition(".")[0]) for number, path in _NUMBERS.items()]


def _marked_part(name: str, part: PartSettings, number: int) -> PartSettings:
    return part.model_copy(
        update={
            "replicas": number,
            "cpu": _text(f"{name}.cpu"),
            "memory": _text(f"{name}.memory"),
            "memory_limit": _text(f"{name}.memoryLimit"),
            "node_selector": {"kajimark": _yaml(f"{name}.nodeSelector")},
            "tolerations": [_yaml(f"{name}.tolerations")],
            "arguments": [f"kajimark-each-{name}.arguments-end"],
        }
    )


# ---------------------------------------------------------------------------------------------- templates

_SWITCHES: dict[str, dict[str, Any]] = {
    "agents.enabled": {"agents": AgentSettings(enabled=False)},
    "gateway.enabled": {"gateway": GatewaySettings()},
    "flowControl": {"flow_control": False},
    "admissionPolicies": {"admission_policies": False},
    "monitoring.dashboards": {"monitoring": MonitoringSettings(dashboards=False)},
}
"""Values that switch objects off, with the settings that have the same effect."""


def _conditions(settings: InstallSettings) -> dict[Identity, str]:
    """Return the value on which each object depends, found by rendering without it."""
    everything = {identity(document) for document in _all(settings)}
    found: dict[Identity, str] = {}
    for value, update in _SWITCHES.items():
        rest = {identity(document) for document in _all(settings.model_copy(update=update))}
        found |= dict.fromkeys(everything - rest, value)
    return found


def _all(settings: InstallSettings) -> list[Object]:
    return in_order(render(settings))


def _template(objects: Iterable[Object], conditions: Mapping[Identity, str]) -> str:
    """Return documents, each with a condition around it if a value switches it off."""
    text = ""
    for document in objects:
        piece = "---\n" + _filled(as_yaml([document]))
        value = conditions.get(identity(document))
        text += f"{{{{- if .Values.{value} }}}}\n{piece}{{{{- end }}}}\n" if value else piece
    return text


def _filled(text: str) -> str:
    """Replace the marks in rendered YAML by the chart's expressions, line by line."""
    lines = list(_with_conditions(_escaped(text).splitlines()))
    # The chart cannot leave out a list entry if store.secret is not set, so the Secret is optional.
    text = "\n".join(lines) + "\n"
    text = _USERS.sub(r"\1{{- if .Values.gateway.users }}\n\g<0>\1{{- end }}\n", text)
    return re.sub(r"( +)(name: {{ .Values.store.secret .*)\n", r"\1\2\n\1optional: true\n", text)


def _with_conditions(lines: Iterable[str]) -> Iterator[str]:
    for value, (first, *more) in _entries(lines):
        indent = " " * (len(first) - len(first.lstrip(" ")))
        if value:
            yield f"{indent}{{{{- if .Values.{value} }}}}"
        yield from _line(first)
        yield from _with_conditions(more)
        if value:
            yield f"{indent}{{{{- end }}}}"


_ENTRIES = {
    "- --sign-in-key=": "signIn.issuer",
    "- --sign-in-ca=": "signIn.ca",
    "- --sign-in-secret=": "signIn.clientSecret",
    f"- --history-password-file={HISTORY_FOLDER}/{HISTORY_PASSWORD_KEY}": "history.secret",
    "- name: sign-in-client": "signIn.clientSecret",
    "- name: sign-in": "signIn.issuer",
    "- name: history": "history.secret",
    f"{SIGN_IN_AUTHORITY}: |": "signIn.ca",
    f"{GATEWAY_AUTHENTICATION}: |": "gateway.enabled",
    "certificateAuthority: |": "signIn.ca",
    "- --gateway-": "gateway.enabled",
    "- --metrics-token=": "agents.metricsSecret",
    "- name: metrics-token": "agents.metricsSecret",
    "authorization:": "agents.metricsSecret",
}
"""Beginnings of list entries that exist only if a value is set, although they may not contain its mark."""


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield groups of lines: a conditional list entry with the value on which it depends, or other lines without
    one."""
    entry: list[str] = []
    value, indent = "", -1
    for line in lines:
        depth = len(line) - len(line.lstrip(" "))
        if entry and depth <= indent:
            yield value, entry
            entry = []
        found = next((value for start, value in _ENTRIES.items() if line.lstrip(" ").startswith(start)), "")
        if entry:
            entry.append(line)
        elif found:
            value, indent, entry = found, depth, [line]
        else:
            yield "", [line]
    if entry:
        yield value, entry


def _escaped(text: str) -> str:
    return text.replace("{{", '{{ "{{" }}')


def _line(line: str) -> Iterable[str]:
    indent = len(line) - len(line.lstrip(" "))
    match = _MARK.search(line)
    if match is None:
        yield re.sub("|".join(map(str, _NUMBERS)), lambda match: f"{{{{ .Values.{_NUMBERS[int(match[0])]} }}}}", line)
        return
    kind, value = match[1], match[2]
    if kind == "yaml":
        deeper = indent + 2 if line.lstrip().startswith("- ") else indent  # an empty list, [], is part of its key
        yield f"{' ' * indent}{{{{- toYaml .Values.{value} | nindent {deeper} }}}}"
    elif kind == "block":
        yield f"{' ' * indent}{{{{- .Values.{value} | nindent {indent} }}}}"
    elif kind == "each":
        one = line.replace(match[0], "{{ . | quote }}")
        yield f"{' ' * indent}{{{{- range .Values.{value} }}}}"
        yield one
        yield f"{' ' * indent}{{{{- end }}}}"
    elif value in _OPTIONAL:
        yield f"{' ' * indent}{{{{- if .Values.{value} }}}}"
        yield _MARK.sub(_expression, line)
        yield f"{' ' * indent}{{{{- end }}}}"
    else:
        yield _MARK.sub(_expression, line)


_USERS = re.compile(r"( *)resourceNames:\n *{{- range .Values.gateway.users }}\n.*\n *{{- end }}\n")
"""The list of users that the gateway may impersonate. Without any, the rule must not have this field."""
_OPTIONAL = ("images.pullPolicy", "store.url", "history.url", "signIn.issuer", "signIn.url", "signIn.programsUrl")


def _expression(match: re.Match[str]) -> str:
    kind, value = match[1], match[2]
    forms: dict[str, Callable[[], str]] = {
        "text": lambda: f"{{{{ .Values.{value} }}}}",
        "quoted": lambda: f"{{{{ .Values.{value} | squote }}}}",
        "image": lambda: f'{{{{ include "kajitori.image" (list $ "{value}") }}}}',
        "namespace": lambda: "{{ .Release.Namespace }}",
        "or": lambda: _default(value),
    }
    return forms[kind]()


def _default(value: str) -> str:
    if value == "store.secret":
        return '{{ .Values.store.secret | default "kajitori-store" }}'
    service, port = ("server", 8600) if value == "server.url" else ("relay", 8601)
    return f'{{{{ .Values.{value} | default (printf "https://{service}.%s.svc:{port}" .Release.Namespace) }}}}'


def _alerts(settings: InstallSettings) -> str:
    """Return the alert rules in both forms. Helm renders the one that the cluster can read."""
    text = ""
    for form in ("prometheusRule", "configMap"):
        monitoring = settings.monitoring.model_copy(update={"alerts": form})
        objects = watching.alerts(settings.model_copy(update={"monitoring": monitoring}))
        text += f'{{{{- if eq (include "kajitori.alerts" .) "{form}" }}}}\n{_template(objects, {})}{{{{- end }}}}\n'
    return text


def _monitors(settings: InstallSettings) -> str:
    """Return the objects that make Prometheus Operator read the metrics, if the cluster has it."""
    monitoring = settings.monitoring.model_copy(update={"alerts": "prometheusRule"})
    with_operator = settings.model_copy(update={"monitoring": monitoring})
    objects = watching.monitors(with_operator)
    without_agents = watching.monitors(with_operator.model_copy(update=_SWITCHES["agents.enabled"]))
    conditions = {identity(one): "agents.enabled" for one in objects if one not in without_agents}
    text = f"{{{{- if .Values.monitoring.monitors }}}}\n{_template(objects, conditions)}{{{{- end }}}}\n"
    return f'{{{{- if eq (include "kajitori.alerts" .) "prometheusRule" }}}}\n{text}{{{{- end }}}}\n'


def _own_certificates(settings: InstallSettings) -> str:
    trusted = _kept("$tls", "ca.crt", "$ca.Cert")
    fields = {"tls.crt": "Cert", "tls.key": "Key"}
    authority = {key: _kept("$old", key, f"$ca.{field}") for key, field in fields.items()}
    parts = {key: _kept("$tls", key, f"$new.{field}") for key, field in fields.items()}
    agents = {
        key: f'{{{{ index $agents.data "{key}" | default (b64enc $newAgents.{field}) }}}}'
        for key, field in fields.items()
    }
    text = _secret(CA_SECRET, "", authority) + _secret(TLS_SECRET, "", {**parts, "ca.crt": trusted})
    of_agents = _secret(TLS_SECRET, "-agents", {**agents, "ca.crt": trusted})
    text += f"{{{{- if .Values.agents.enabled }}}}\n{of_agents}{{{{- end }}}}\n"
    return _OWN_CERTIFICATES % {
        "ca": CA_SECRET,
        "tls": TLS_SECRET,
        "names": f'{_names(settings.certificate_names)} "localhost"',
        "agents": _names(settings.agents_certificate_names),
        "secrets": text,
        "renewal": _renewal(),
    }


def _names(names: Iterable[str]) -> str:
    """Return the names with the release's namespace in them, as arguments of a template's function."""
    inside = (_MARK.sub("%s", name) for name in names if "kajimark" in name)
    return " ".join(f'(printf "{name}" .Release.Namespace)' for name in inside)


def _secret(name: str, behind_namespace: str, data: Mapping[str, str]) -> str:
    """Return a Secret with expressions as values."""
    document = made("v1", "Secret", name, f"{{{{ .Release.Namespace }}}}{behind_namespace}", type="Opaque")
    lines = "".join(f"  {key}: {value}\n" for key, value in data.items())
    return "---\n" + as_yaml([document]).replace("'", "") + "data:\n" + lines


def _sign_in_key() -> str:
    key = _kept("$old", SIGN_IN_KEY, "(randAlphaNum 64)")
    return _SIGN_IN % {"secret": SIGN_IN_SECRET, "document": _secret(SIGN_IN_SECRET, "", {SIGN_IN_KEY: key})}


def _renewal() -> str:
    """Return the CronJob that renews the certificates, with its rights. It has rights in the namespace of agents only
    if there are agents."""
    settings = _marked(TlsSettings(certificates="own"))
    objects = [document for document in roles(settings) if document["metadata"]["name"] == "kajitori-certificates"]
    return _template([*objects, *certificates(settings)], _conditions(settings))


def _kept(old: str, key: str, new: str) -> str:
    return f'{{{{ if {old} }}}}{{{{ index {old}.data "{key}" }}}}{{{{ else }}}}{{{{ b64enc {new} }}}}{{{{ end }}}}'


def _by_cert_manager() -> TlsSettings:
    issuer = Issuer(name="x").model_copy(update={"name": _text("tls.issuer.name"), "kind": _text("tls.issuer.kind")})
    return TlsSettings(certificates="certManager", issuer=issuer)


def _cert_manager() -> str:
    settings = _marked(_by_cert_manager())
    text = _template(certificates(settings), _conditions(settings))
    further = "  {{- range .Values.tls.names }}\n  - {{ . | quote }}\n  {{- end }}\n"
    text = text.replace("  - localhost\n", f"  - localhost\n{further}")
    return f'{{{{- if eq .Values.tls.certificates "certManager" }}}}\n{text}{{{{- end }}}}\n'


# ---------------------------------------------------------------------------------------------- values


def _values() -> str:
    """Return the default settings, as the chart's values. The namespace is that of the release."""
    defaults: dict[str, Any] = InstallSettings().model_dump(by_alias=True, exclude={"namespace", "pod_security"})
    defaults["tls"]["issuer"] = {"name": "", "kind": "ClusterIssuer"}
    defaults = _without_none(defaults)
    return as_yaml([{**defaults, "policy": "{}\n", "networks": "clusters: []\n"}])


def _without_none(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {key: _without_none(value) for key, value in values.items()}
    return "" if values is None else values
