"""Turns objects that were rendered from settings with marks into templates of Helm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kajitori.install.helm.marks import MARK, REPLICAS
from kajitori.install.parts.objects import Identity, Object, as_yaml, identity
from kajitori.install.parts.workloads import GATEWAY_AUTHENTICATION, HISTORY_FOLDER, SIGN_IN_AUTHORITY
from kajitori.install.render import in_order, render
from kajitori.install.settings import (
    HISTORY_PASSWORD_KEY,
    AgentSettings,
    GatewaySettings,
    InstallSettings,
    MonitoringSettings,
)

SWITCHES: dict[str, dict[str, Any]] = {
    "agents.enabled": {"agents": AgentSettings(enabled=False)},
    "gateway.enabled": {"gateway": GatewaySettings()},
    "flowControl": {"flow_control": False},
    "admissionPolicies": {"admission_policies": False},
    "monitoring.dashboards": {"monitoring": MonitoringSettings(dashboards=False)},
}
"""Values that switch objects off, with the settings that have the same effect."""
_CONDITIONAL_ENTRIES = {
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
"""Beginnings of conditional list entries and fields, with the value on which each depends. They may contain no mark of
this value."""
_OPTIONAL = ("images.pullPolicy", "store.url", "history.url", "signIn.issuer", "signIn.url", "signIn.programsUrl")
"""Values that may be empty. Lines with their marks are then left out."""
_USERS = re.compile(r"( *)resourceNames:\n *{{- range .Values.gateway.users }}\n.*\n *{{- end }}\n")
"""The list of users that the gateway may impersonate. Without any, the rule must not have this field."""


def conditions_of(settings: InstallSettings) -> dict[Identity, str]:
    """Return the objects that a value switches off, with that value. They are found by rendering without each value."""
    everything = {identity(document) for document in _rendered_objects(settings)}
    found: dict[Identity, str] = {}
    for value, update in SWITCHES.items():
        rest = {identity(document) for document in _rendered_objects(settings.model_copy(update=update))}
        found |= dict.fromkeys(everything - rest, value)
    return found


def _rendered_objects(settings: InstallSettings) -> list[Object]:
    return in_order(render(settings))


def template(objects: Iterable[Object], conditions: Mapping[Identity, str]) -> str:
    """Return the template of these objects. An object that a value switches off has a condition around it."""
    text = ""
    for document in objects:
        piece = "---\n" + _fill_marks(as_yaml([document]))
        value = conditions.get(identity(document))
        text += f"{{{{- if .Values.{value} }}}}\n{piece}{{{{- end }}}}\n" if value else piece
    return text


def _fill_marks(text: str) -> str:
    """Replace the marks in rendered YAML by the chart's expressions, line by line."""
    escaped = text.replace("{{", '{{ "{{" }}')
    text = "\n".join(_with_conditions(escaped.splitlines())) + "\n"
    text = _USERS.sub(r"\1{{- if .Values.gateway.users }}\n\g<0>\1{{- end }}\n", text)
    # The Secret of the store exists only if store.secret is set. Its entry is always there, so the Secret is optional.
    return re.sub(r"( +)(name: {{ .Values.store.secret .*)\n", r"\1\2\n\1optional: true\n", text)


def _with_conditions(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines with their marks replaced, and with conditions around conditional entries."""
    for value, (first, *more) in _conditional_groups(lines):
        indent = " " * _depth(first)
        if value:
            yield f"{indent}{{{{- if .Values.{value} }}}}"
        yield from _filled_line(first)
        yield from _with_conditions(more)
        if value:
            yield f"{indent}{{{{- end }}}}"


def _conditional_groups(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield groups of lines: a conditional list entry with the value on which it depends, or other lines without
    one."""
    entry: list[str] = []
    value, indent = "", -1
    for line in lines:
        depth = _depth(line)
        if entry and depth <= indent:
            yield value, entry
            entry = []
        found = next((value for start, value in _CONDITIONAL_ENTRIES.items() if line.lstrip(" ").startswith(start)), "")
        if entry:
            entry.append(line)
        elif found:
            value, indent, entry = found, depth, [line]
        else:
            yield "", [line]
    if entry:
        yield value, entry


def _filled_line(line: str) -> Iterable[str]:
    """Yield the lines for one line of rendered YAML: each kind of mark has its own form (see `marks`)."""
    depth = _depth(line)
    indent = " " * depth
    match = MARK.search(line)
    if match is None:
        yield re.sub("|".join(map(str, REPLICAS)), lambda match: f"{{{{ .Values.{REPLICAS[int(match[0])]} }}}}", line)
        return
    kind, value = match[1], match[2]
    if kind == "yaml":
        nested = depth + 2 if line.lstrip().startswith("- ") else depth  # an empty list, [], is part of its key
        yield f"{indent}{{{{- toYaml .Values.{value} | nindent {nested} }}}}"
    elif kind == "block":
        yield f"{indent}{{{{- .Values.{value} | nindent {depth} }}}}"
    elif kind == "each":
        yield f"{indent}{{{{- range .Values.{value} }}}}"
        yield line.replace(match[0], "{{ . | quote }}")
        yield f"{indent}{{{{- end }}}}"
    elif value in _OPTIONAL:
        yield f"{indent}{{{{- if .Values.{value} }}}}"
        yield MARK.sub(_expression, line)
        yield f"{indent}{{{{- end }}}}"
    else:
        yield MARK.sub(_expression, line)


def _depth(line: str) -> int:
    """Return the number of spaces before the text of a line."""
    return len(line) - len(line.lstrip(" "))


def _expression(match: re.Match[str]) -> str:
    kind, value = match[1], match[2]
    forms: dict[str, Callable[[], str]] = {
        "text": lambda: f"{{{{ .Values.{value} }}}}",
        "quoted": lambda: f"{{{{ .Values.{value} | squote }}}}",
        "image": lambda: f'{{{{ include "kajitori.image" (list $ "{value}") }}}}',
        "namespace": lambda: "{{ .Release.Namespace }}",
        "or": lambda: _value_or_default(value),
    }
    return forms[kind]()


def _value_or_default(value: str) -> str:
    if value == "store.secret":
        return '{{ .Values.store.secret | default "kajitori-store" }}'
    service, port = ("server", 8600) if value == "server.url" else ("relay", 8601)
    return f'{{{{ .Values.{value} | default (printf "https://{service}.%s.svc:{port}" .Release.Namespace) }}}}'
