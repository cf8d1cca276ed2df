"""Templates of the Secrets that the chart needs: certificates from Helm itself or cert-manager, and the sign-in key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kajitori.install.helm.marks import MARK, marked_settings, text_mark
from kajitori.install.helm.templates import conditions_of, template
from kajitori.install.parts.objects import as_yaml, made
from kajitori.install.parts.roles import roles
from kajitori.install.render import certificates
from kajitori.install.settings import (
    CA_SECRET,
    SIGN_IN_KEY,
    SIGN_IN_SECRET,
    TLS_SECRET,
    InstallSettings,
    Issuer,
    TlsSettings,
)

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


def own_certificates(settings: InstallSettings) -> str:
    """Return the template of the Secrets with the own authority and its certificates, and of their renewal."""
    trusted = _kept_or_new("$tls", "ca.crt", "$ca.Cert")
    fields = {"tls.crt": "Cert", "tls.key": "Key"}
    authority = {key: _kept_or_new("$old", key, f"$ca.{field}") for key, field in fields.items()}
    parts = {key: _kept_or_new("$tls", key, f"$new.{field}") for key, field in fields.items()}
    agents = {
        key: f'{{{{ index $agents.data "{key}" | default (b64enc $newAgents.{field}) }}}}'
        for key, field in fields.items()
    }
    text = _secret_template(CA_SECRET, "", authority) + _secret_template(TLS_SECRET, "", {**parts, "ca.crt": trusted})
    of_agents = _secret_template(TLS_SECRET, "-agents", {**agents, "ca.crt": trusted})
    text += f"{{{{- if .Values.agents.enabled }}}}\n{of_agents}{{{{- end }}}}\n"
    return _OWN_CERTIFICATES % {
        "ca": CA_SECRET,
        "tls": TLS_SECRET,
        "names": f'{_name_arguments(settings.certificate_names)} "localhost"',
        "agents": _name_arguments(settings.agents_certificate_names),
        "secrets": text,
        "renewal": _renewal_template(),
    }


def _name_arguments(names: Iterable[str]) -> str:
    """Return the names with the release's namespace in them, as arguments of a template's function."""
    inside = (MARK.sub("%s", name) for name in names if "kajimark" in name)
    return " ".join(f'(printf "{name}" .Release.Namespace)' for name in inside)


def _secret_template(name: str, behind_namespace: str, data: Mapping[str, str]) -> str:
    """Return a Secret with expressions as values. Its namespace is the release's, followed by `behind_namespace`."""
    document = made("v1", "Secret", name, f"{{{{ .Release.Namespace }}}}{behind_namespace}", type="Opaque")
    lines = "".join(f"  {key}: {value}\n" for key, value in data.items())
    return "---\n" + as_yaml([document]).replace("'", "") + "data:\n" + lines


def sign_in_key() -> str:
    """Return the template of the Secret with the key of browsers' sessions."""
    key = _kept_or_new("$old", SIGN_IN_KEY, "(randAlphaNum 64)")
    return _SIGN_IN % {"secret": SIGN_IN_SECRET, "document": _secret_template(SIGN_IN_SECRET, "", {SIGN_IN_KEY: key})}


def _renewal_template() -> str:
    """Return the CronJob that renews the certificates, with its rights. It has rights in the namespace of agents only
    if there are agents."""
    settings = marked_settings(TlsSettings(certificates="own"))
    objects = [document for document in roles(settings) if document["metadata"]["name"] == "kajitori-certificates"]
    return template([*objects, *certificates(settings)], conditions_of(settings))


def _kept_or_new(old: str, key: str, new: str) -> str:
    """Return the expression for a key of an existing Secret, or for a new value if the Secret does not exist."""
    return f'{{{{ if {old} }}}}{{{{ index {old}.data "{key}" }}}}{{{{ else }}}}{{{{ b64enc {new} }}}}{{{{ end }}}}'


def cert_manager_certificates() -> str:
    """Return the template of the certificates that cert-manager issues, with the further names of the values."""
    marks = {"name": text_mark("tls.issuer.name"), "kind": text_mark("tls.issuer.kind")}
    issuer = Issuer(name="x").model_copy(update=marks)
    settings = marked_settings(TlsSettings(certificates="certManager", issuer=issuer))
    text = template(certificates(settings), conditions_of(settings))
    further = "  {{- range .Values.tls.names }}\n  - {{ . | quote }}\n  {{- end }}\n"
    text = text.replace("  - localhost\n", f"  - localhost\n{further}")
    return f'{{{{- if eq .Values.tls.certificates "certManager" }}}}\n{text}{{{{- end }}}}\n'
