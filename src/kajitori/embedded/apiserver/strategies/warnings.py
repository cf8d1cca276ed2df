"""What is legal but odd, and said to whoever writes it (pkg/api/*/warnings.go)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import shown
from kajitori.embedded.apiserver.metadata import STANDARD_FINALIZERS
from kajitori.embedded.apiserver.schemas import quantities

Spec = dict[str, Any]

_WHOLE_BYTES = ("memory", "ephemeral-storage")
_PEM = re.compile(rb"-----BEGIN ([^-]+)-----\s.*?-----END \1-----", re.DOTALL)


def of_pod(spec: Spec) -> list[str]:
    """Of a Pod."""
    found = []
    for index, one in enumerate(spec.get("topologySpreadConstraints") or []):
        if one.get("labelSelector") is None:
            where = f"spec.topologySpreadConstraints[{index}].labelSelector"
            found.append(f"{where}: a null labelSelector results in matching no pod")
    found += _repeated(spec.get("hostAliases") or [], "ip", "spec.hostAliases")
    secrets = spec.get("imagePullSecrets") or []
    found += _repeated(secrets, "name", "spec.imagePullSecrets")
    found += [
        f'spec.imagePullSecrets[{index}].name: invalid empty name ""'
        for index, one in enumerate(secrets)
        if not one.get("name")
    ]
    found += _fractional(spec.get("overhead") or {}, "spec.overhead")
    for where, container in _containers(spec):
        resources = container.get("resources") or {}
        for part in ("limits", "requests"):
            found += _fractional(resources.get(part) or {}, f"{where}.resources.{part}")
        found += _hidden_variables(container.get("env") or [], f"{where}.env")
    found += _ports(spec)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        said = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"spec.terminationGracePeriodSeconds: {said}")
    return found


def of_service(spec: Spec) -> list[str]:
    """Of a Service."""
    found = []
    kind, external = spec.get("type"), spec.get("externalIPs") or []
    headless = spec.get("clusterIP") == "None"
    if headless:
        ignored = {
            "loadBalancerIP": spec.get("loadBalancerIP"),
            "externalIPs": external,
            "SessionAffinity": spec.get("sessionAffinity") != "None",
        }
        found += [f"spec.{name} is ignored for headless services" for name, given in ignored.items() if given]
    if external and not headless and kind != "ExternalName":
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if external and kind == "ExternalName":
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    return found


def of_claim(spec: Spec) -> list[str]:
    """Of a PersistentVolumeClaim."""
    resources = spec.get("resources") or {}
    return [
        warning
        for part in ("requests", "limits")
        for warning in _fractional(resources.get(part) or {}, f"spec.resources.{part}", ("storage",))
    ]


def of_volume(spec: Spec) -> list[str]:
    """Of a PersistentVolume."""
    if spec.get("persistentVolumeReclaimPolicy") != "Recycle":
        return []
    said = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
    return [f"spec.persistentVolumeReclaimPolicy: {said}"]


def of_finalizers(new: list[str], old: list[str]) -> list[str]:
    """Of a custom resource's finalizers, which may be anything."""
    field, found = "metadata.finalizers", []
    for one in sorted(set(new) - set(old)):
        found += [f"{field}: {shown(one)}: {fault}" for fault in texts.qualified_name(one)]
        if "/" not in one and one not in STANDARD_FINALIZERS:
            better = "a domain-qualified finalizer name"
            if "." in one:
                better += " including a path (/)"
            said = f"prefer {better} to avoid accidental conflicts with other finalizer writers"
            found.append(f"{field}: {shown(one)}: {said}")
    return found


def of_tls(data: dict[str, str]) -> list[str]:
    """Of a TLS Secret whose key does not belong to its certificate, or where one of them is none."""
    try:
        certificate, key = (base64.b64decode(data.get(name, "")) for name in ("tls.crt", "tls.key"))
    except (binascii.Error, ValueError):
        return []
    for text, what in ((certificate, "certificate"), (key, "key")):
        kinds = [block.group(1) for block in _PEM.finditer(text)]
        wanted = [one for one in kinds if (one == b"CERTIFICATE" if what == "certificate" else one.endswith(b" KEY"))]
        if not kinds:
            return [f"tls: failed to find any PEM data in {what} input"]
        if not wanted:
            return [f"tls: failed to find {what} PEM data in {what} input"]
    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
        private = serialization.load_pem_private_key(key, None).public_key()
    except (ValueError, TypeError):
        return ["tls: failed to parse private key"]
    spki = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if type(public) is not type(private):
        return ["tls: private key type does not match public key type"]
    return (
        []
        if public.public_bytes(*spki) == private.public_bytes(*spki)
        else ["tls: private key does not match public key"]
    )


def _containers(spec: Spec) -> Iterator[tuple[str, Spec]]:
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or []):
            yield f"spec.{part}[{index}]", container


def _repeated(items: list[Spec], name: str, field: str) -> list[str]:
    found, seen = [], set()
    for index, one in enumerate(items):
        value = one.get(name, "")
        if value in seen:
            found.append(f"{field}[{index}].{name}: duplicate {name} {shown(value)}")
        seen.add(value)
    return found


def _fractional(amounts: dict[str, str], field: str, resources: tuple[str, ...] = _WHOLE_BYTES) -> list[str]:
    return [
        f"{field}[{name}]: fractional byte value {shown(amounts[name])} is invalid, must be an integer"
        for name in resources
        if name in amounts and quantities.parse_nano(amounts[name]) % quantities.NANO
    ]


def _hidden_variables(variables: list[Spec], field: str) -> list[str]:
    found, seen = [], set()
    for index, one in enumerate(variables):
        name, value = one.get("name", ""), one.get("value", "")
        itself = f"$({name})"
        if name in seen and ("valueFrom" in one or value == itself or itself not in value):
            said = f"hides previous definition of {shown(name)}, which may be dropped when using apply"
            found.append(f"{field}[{index}]: {said}")
        seen.add(name)
    return found


def _ports(spec: Spec) -> list[str]:
    """Ports of a Pod that are told twice, and names of ports that stand for two."""
    found: list[str] = []
    of_number: dict[tuple[int, str], list[tuple[str, Spec]]] = {}
    of_name: dict[str, str] = {}
    everywhere = [
        (f"{where}.ports[{index}]", port)
        for where, container in _containers(spec)
        for index, port in enumerate(container.get("ports") or [])
    ]
    for where, port in everywhere:
        others = of_number.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
        found += [said for at, other in others if (said := _overlap(where, port, at, other))]
        others.append((where, port))
    for where, port in everywhere:
        name = port.get("name")
        if not name:
            continue
        if (first := of_name.setdefault(name, where)) != where:
            by_name = f"services and probes that select ports by name will use {first}"
            found.append(f"{where}: duplicate port name {shown(name)} with {first}, {by_name}")
    return found


def _overlap(where: str, port: Spec, at: str, other: Spec) -> str:
    address, host = port.get("hostIP", ""), port.get("hostPort", 0)
    other_address, other_host = other.get("hostIP", ""), other.get("hostPort", 0)
    if (address, host) == (other_address, other_host):
        return f"{where}: duplicate port definition with {at}"
    if not host or not other_host:
        return f"{where}: overlapping port definition with {at}"
    if host == other_host and bool(address) != bool(other_address):
        return f"{where}: dangerously ambiguous port definition with {at}"
    return ""
