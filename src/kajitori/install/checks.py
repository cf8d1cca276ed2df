"""Findings of `kaji install --check`: whether a cluster has what an installation needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from kajitori.errors import Fault
from kajitori.install.settings import (
    CERTIFICATE_KEYS,
    CLIENT_SECRET_KEY,
    HISTORY_PASSWORD_KEY,
    METRICS_TOKEN_KEY,
    TLS_SECRET,
    InstallSettings,
)

OLDEST = (1, 30)
"""Oldest version of Kubernetes that has all calls of the parts."""
OLDEST_FOR_AGENTS = (1, 32)
"""The first version that writes the node into agents' tokens."""
SKEW_WARN_SECONDS, SKEW_FAIL_SECONDS = 5.0, 300.0
"""Clock differences that cause a warning or a failure. Certificates are valid from an hour before they are made, but
tokens and Leases tolerate less."""


class State(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table."""

    name: str
    state: State
    text: str
    way_out: str = ""


@dataclass(frozen=True, slots=True)
class Survey:
    """Objects that were read from the cluster."""

    version: str
    """`gitVersion` of the API server."""
    skew_seconds: float
    """Time by which this machine's clock is ahead of the API server's."""
    served: frozenset[str]
    """API groups with their versions, as `apps/v1`."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Objects that may not be applied, each with the API server's reason."""
    changes: Mapping[str, int] = field(default_factory=dict)
    """Number of objects that would be created, would be changed, or would stay."""
    storage_classes: Sequence[str] = ()
    default_storage: str = ""
    nodes: int = 0
    gpus: Mapping[str, int] = field(default_factory=dict)
    """GPUs by type, as nodes' labels name it; an empty type for GPUs without such a label."""
    missing_secrets: Sequence[str] = ()
    """Secrets that the settings name and the cluster lacks, `namespace/name`."""
    lacking_secrets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Existing Secrets, `namespace/name`, with the required keys that each lacks."""
    provider_fault: str = ""
    """The reason for which this machine cannot use the OpenID provider of the settings; empty if it can."""
    unreadable: Sequence[str] = ()
    """Kinds that the caller may not read."""
    installed: str = ""
    """Version that is installed; empty for none."""
    incomplete: bool = False
    """Whether the last installation did not come to its end."""


def findings(survey: Survey, settings: InstallSettings, version: str) -> list[Finding]:
    """Return all findings, for an installation of this version of Kajitori with these settings."""
    return [
        *_check_rights(survey),
        *_check_version(survey, settings),
        *_check_clock(survey),
        *_check_kinds(survey, settings),
        *_check_storage(survey),
        *_check_gpus(survey),
        *_check_images(settings),
        *_sign_in(survey, settings),
        *_check_programs(settings),
        *_check_history(settings),
        *_check_secrets(survey, settings),
        *_check_changes(survey, version),
    ]


def wanted_secrets(settings: InstallSettings) -> dict[str, tuple[str, ...]]:
    """Return the Secrets that operators create themselves, as `namespace/name`, with the keys that each must have.

    The list of keys is empty if only other programs read the Secret.
    """
    spaces = [settings.namespace, *([settings.agents_namespace] if settings.agents.enabled else [])]
    found: dict[str, tuple[str, ...]] = {
        f"{space}/{name}": () for name in settings.images.pull_secrets for space in spaces
    }
    if settings.tls.certificates == "given":
        found |= {f"{space}/{TLS_SECRET}": CERTIFICATE_KEYS for space in spaces}
    for name, keys in (
        (settings.store.secret, ()),
        (settings.history.secret, (HISTORY_PASSWORD_KEY,)),
        (settings.sign_in.client_secret, (CLIENT_SECRET_KEY,)),
    ):
        if name is not None:
            found[f"{settings.namespace}/{name}"] = keys
    if settings.agents.metrics_secret is not None and settings.agents.enabled:
        found[f"{settings.agents_namespace}/{settings.agents.metrics_secret}"] = (METRICS_TOKEN_KEY,)
    return found


def lacking_faults(lacking: Mapping[str, Sequence[str]]) -> list[Fault]:
    """Return a fault for each Secret, `namespace/name`, that lacks these keys."""
    return [
        Fault("secret", _missing_keys_text(where, keys), where, _way_to_add(where, keys))
        for where, keys in lacking.items()
    ]


def kubernetes_version(text: str) -> tuple[int, int]:
    """Return major and minor version of `v1.36.2` and the like; zeros if it is something else."""
    match = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _check_rights(survey: Survey) -> Iterator[Finding]:
    if survey.refused:
        first, why = next(iter(survey.refused.items()))
        more = f" and {len(survey.refused) - 1} more" if len(survey.refused) > 1 else ""
        yield Finding(
            "rights",
            State.FAIL,
            f"you may not apply {first}{more}: {why}",
            "use a kubeconfig with the rights of cluster-admin: you can give only rights that you have",
        )
    else:
        yield Finding("rights", State.OK, "you may apply everything")
    if survey.unreadable:
        yield Finding(
            "reading", State.WARN, f"not readable with your rights: {', '.join(survey.unreadable)}", "not checked then"
        )


def _check_version(survey: Survey, settings: InstallSettings) -> Iterator[Finding]:
    found = kubernetes_version(survey.version)
    shown = f"Kubernetes {survey.version}"
    if found < OLDEST:
        way_out = "upgrade the cluster" if settings.admission_policies else "runs may start, but `kaji exec` needs 1.30"
        yield Finding(
            "version", State.FAIL, f"{shown}; {_version_text(OLDEST)} is the oldest that is supported", way_out
        )
    elif settings.agents.enabled and found < OLDEST_FOR_AGENTS:
        text = (
            f"{shown}: no traffic is counted, since tokens name their node from {_version_text(OLDEST_FOR_AGENTS)} on"
        )
        yield Finding("version", State.WARN, text, "set agents.enabled: false, or upgrade the cluster")
    else:
        yield Finding("version", State.OK, shown)


def _check_clock(survey: Survey) -> Iterator[Finding]:
    skew = abs(survey.skew_seconds)
    side = "ahead of" if survey.skew_seconds > 0 else "behind"
    text = f"this machine's clock is {skew:.0f} s {side} the API server's"
    if skew >= SKEW_FAIL_SECONDS:
        yield Finding("clock", State.FAIL, text, "set this machine's clock (NTP): certificates would be wrong")
    elif skew >= SKEW_WARN_SECONDS:
        yield Finding("clock", State.WARN, text, "set this machine's clock (NTP)")
    else:
        yield Finding("clock", State.OK, f"this machine and the API server differ by {skew:.1f} s")


def _check_kinds(survey: Survey, settings: InstallSettings) -> Iterator[Finding]:
    admission = [
        (kind, version in survey.served)
        for kind, version in (
            ("ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1 validatingadmissionpolicies"),
            ("MutatingAdmissionPolicy", "admissionregistration.k8s.io/v1 mutatingadmissionpolicies"),
        )
    ]
    has = [kind for kind, served in admission if served]
    if not admission[0][1]:
        way_out = "set admissionPolicies: false and accept that, or upgrade to Kubernetes 1.30"
        state = State.FAIL if settings.admission_policies else State.WARN
        yield Finding("admission", state, "no ValidatingAdmissionPolicy: owners of runs could be forged", way_out)
    else:
        yield Finding("admission", State.OK, ", ".join(has))
    wanted = [("flow control", "flowcontrol.apiserver.k8s.io/v1", settings.flow_control, "set flowControl: false")]
    issued = settings.tls.certificates == "certManager"
    wanted.append(("cert-manager", "cert-manager.io/v1", issued, "install cert-manager, or leave tls.certificates out"))
    for name, version, is_wanted, way_out in wanted:
        if is_wanted:
            served = version in survey.served
            text = version if served else f"the cluster has no {version}"
            yield Finding(name, State.OK if served else State.FAIL, text, "" if served else way_out)
    if not any(group_version.startswith("metrics.k8s.io/") for group_version in survey.served):
        text = "no metrics-server: the memory that runs use is known only if they ran out of it"
        yield Finding("metrics", State.WARN, text, "install a metrics-server; it is used as soon as it is there")


def _check_storage(survey: Survey) -> Iterator[Finding]:
    if survey.default_storage:
        yield Finding(
            "storage", State.OK, f"{len(survey.storage_classes)} StorageClasses, default {survey.default_storage}"
        )
    else:
        text = f"no default among {', '.join(survey.storage_classes)}" if survey.storage_classes else "no StorageClass"
        way_out = "runs with a checkpoint need policy's checkpoint.storageClass, or checkpoint.kind: folder"
        yield Finding("storage", State.WARN, text, way_out)


def _check_gpus(survey: Survey) -> Iterator[Finding]:
    if not survey.nodes:
        yield Finding("nodes", State.WARN, "there are no nodes", "the parts start when there are some")
        return
    yield Finding("nodes", State.OK, f"{survey.nodes} nodes")
    named = {kind: count for kind, count in survey.gpus.items() if kind}
    if not survey.gpus:
        text = "no node offers GPUs"
        way_out = (
            "if the nodes have GPUs, install the vendor's device plugin or its driver for dynamic resource allocation"
        )
        yield Finding("gpus", State.WARN, text, way_out)
    elif len(named) < len(survey.gpus):
        text = f"{survey.gpus['']} GPUs of unknown type" + (f"; {_counted_gpus(named)}" if named else "")
        way_out = "install GPU feature discovery, or label the nodes kajitori.dev/gpu-type=h100"
        yield Finding("gpus", State.WARN, text, way_out)
    else:
        yield Finding("gpus", State.OK, _counted_gpus(named))


def _check_images(settings: InstallSettings) -> Iterator[Finding]:
    images = f"{settings.parts_image}, {settings.members_image}"
    if not settings.images.prefix and "/" not in settings.images.parts:
        way_out = "build them (deploy/Dockerfile, deploy/image/Dockerfile), push them, and set images.prefix"
        yield Finding("images", State.WARN, f"{images}: no registry is named", way_out)
    else:
        yield Finding("images", State.OK, images)
    if not settings.store.url:
        way_out = "set store.url to s3://…, az://… or gs://…"
        yield Finding("store", State.WARN, "no store: no --code, and logs disappear with their Pods", way_out)
    else:
        yield Finding("store", State.OK, settings.store.url)


def _sign_in(survey: Survey, settings: InstallSettings) -> Iterator[Finding]:
    issuer = settings.sign_in.issuer
    if not issuer:
        return
    if survey.provider_fault:
        way_out = "check signIn.issuer and signIn.ca; only the Web API's Pods and people's machines must reach it"
        yield Finding("sign-in", State.WARN, survey.provider_fault, way_out)
    else:
        text = f"{issuer} has keys; kube-apiserver must accept its tokens for {settings.sign_in.client_id}"
        yield Finding("sign-in", State.OK, text)


def _check_programs(settings: InstallSettings) -> Iterator[Finding]:
    """Yield whether browsers can open programs of runs, as far as the settings show it."""
    address = settings.sign_in.programs_url
    if address is None:
        return
    host = urlsplit(address).hostname or ""
    if settings.tls.certificates in ("own", "certManager") and host not in settings.tls.names:
        text = f"the certificate of the Web API is not valid for {host}"
        way_out = "add the name to tls.names, unless a proxy in front of the Web API has a certificate for it"
        yield Finding("programs", State.WARN, text, way_out)
    else:
        yield Finding("programs", State.OK, f"{address}; DNS must lead the name to the Web API")


def _check_history(settings: InstallSettings) -> Iterator[Finding]:
    history = settings.history
    password = history.secret or settings.store.secret
    if history.url and password:
        yield Finding("history", State.OK, f"{history.url}, password in Secret {password}")
    elif history.url:
        way_out = "set history.secret, unless the database asks for none"
        yield Finding("history", State.WARN, f"{history.url} without a password", way_out)


def _check_secrets(survey: Survey, settings: InstallSettings) -> Iterator[Finding]:
    for name, keys in survey.lacking_secrets.items():
        yield Finding("secret", State.FAIL, _missing_keys_text(name, keys), _way_to_add(name, keys))
    for name in survey.missing_secrets:
        way_out = "create it: kubectl create secret …"
        if name.endswith(f"/{TLS_SECRET}"):
            way_out = "create it with tls.crt, tls.key and ca.crt, or leave tls.certificates out"
        elif keys := wanted_secrets(settings)[name]:
            way_out = _way_to_add(name, keys)
        yield Finding("secret", State.FAIL, f"there is no Secret {name}", way_out)


def _missing_keys_text(secret: str, keys: Sequence[str]) -> str:
    return f"the Secret {secret} has no key {', '.join(keys)}"


def _way_to_add(secret: str, keys: Sequence[str]) -> str:
    if secret.endswith(f"/{TLS_SECRET}"):
        return f"add {' and '.join(keys)}, or leave tls.certificates out"
    return f"kubectl create secret generic … {' '.join(f'--from-file={key}=FILE' for key in keys)}"


def _check_changes(survey: Survey, version: str) -> Iterator[Finding]:
    counted = ", ".join(f"{count} {change}" for change, count in survey.changes.items() if count)
    if survey.installed and survey.installed != version:
        text = f"Kajitori {survey.installed} is installed; this is {version}"
        yield Finding("installed", State.FAIL, text, "run kaji upgrade")
    elif survey.incomplete:
        text = "an installation did not come to its end"
        yield Finding("installed", State.WARN, text, "kaji install finishes it")
    yield Finding("objects", State.OK, f"would be {counted}" if counted else "nothing to do")


def _counted_gpus(gpus: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(gpus.items()))


def _version_text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
