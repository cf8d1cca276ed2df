"""Pieces of Pods that the parts of an installation share: folders, certificates, probes, resources, security."""

from __future__ import annotations

from typing import Any, NamedTuple

from kajitori.install.parts.objects import Object
from kajitori.install.settings import TLS_SECRET, InstallSettings

POLICY_FOLDER = "/etc/kajitori"
TLS_FOLDER = "/etc/kajitori-tls"
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
"""Security context of a container that needs no rights."""
_USER = 65532


class SecretFiles(NamedTuple):
    """A Secret with its keys mounted as files of a container."""

    volume: str
    secret: str
    folder: str


def certificate_arguments(settings: InstallSettings) -> list[str]:
    """Return the arguments with which a part serves HTTPS; none if the installation does not encrypt."""
    if not settings.encrypts:
        return []
    return [f"--tls-cert={TLS_FOLDER}/tls.crt", f"--tls-key={TLS_FOLDER}/tls.key"]


def tls_mount(settings: InstallSettings) -> list[Object]:
    """Return the mount of the certificate, if the installation encrypts."""
    return [{"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True}] if settings.encrypts else []


def tls_volume(settings: InstallSettings) -> list[Object]:
    """Return the volume of the certificate, if the installation encrypts."""
    return [{"name": "tls", "secret": {"secretName": TLS_SECRET}}] if settings.encrypts else []


def probe_spec(settings: InstallSettings, path: str, port: str, **fields: int) -> Object:
    """Return a probe that gets `path` at the named port. `fields` are its periods, limits and thresholds."""
    scheme = {"scheme": "HTTPS"} if settings.encrypts else {}
    return {"httpGet": {"path": path, "port": port, **scheme}, **fields}


def resource_requests(cpu: str, memory: str, memory_limit: str) -> Object:
    """Return the resources of a container. The processor has no limit."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory_limit}}


def pod_security() -> Object:
    """Return the security context of a Pod that runs as a user without rights."""
    # Secrets are readable by the group, since the user that reads them is not root.
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "fsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def pull_secrets(settings: InstallSettings) -> Object:
    """Return the field of an account that names the Secrets for pulling images; empty without any."""
    secrets = [{"name": name} for name in settings.images.pull_secrets]
    return {"imagePullSecrets": secrets} if secrets else {}


def pull_policy(settings: InstallSettings) -> Object:
    """Return the field of a container with the policy for pulling images; empty for the default."""
    return {"imagePullPolicy": settings.images.pull_policy} if settings.images.pull_policy else {}


def without_empty(pod: dict[str, Any]) -> Object:
    """Return the Pod without fields that are empty."""
    return {key: value for key, value in pod.items() if value not in ("", {}, [])}
