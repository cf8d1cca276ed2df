"""The address of an API server and the credentials for it: kubeconfig files, the environment, a Pod's service account.

lightkube parses the files; what it drops (`proxy-url`, `tls-server-name`, impersonation, the later fields of credential
plugins) is read here. lightkube is imported only when a file is read, since the import takes 0.1 s.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kajitori.core.documents.fast_yaml import LOADER
from kajitori.errors import InvalidInput, Unavailable, Unsupported

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_VERSIONS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials (`kind: ExecCredential`)."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


Headers = tuple[tuple[str, str], ...]
"""Headers of a request; a name may occur several times."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The identity of a client.

    The first one that is set of header source, token file, token, plugin and password is used. A certificate is used
    in addition.
    """

    header_source: Callable[[], Awaitable[Headers]] | None = field(default=None, repr=False)
    """Returns the headers that identify the client; asked again every minute and after a refusal."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    plugin: ExecPlugin | None = None
    certificate_pem: bytes = field(default=b"", repr=False)
    key_pem: bytes = field(default=b"", repr=False)
    certificate_file: Path | None = None
    key_file: Path | None = None
    impersonate_user: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KubeConfig:
    """One API server and one identity. Its `repr` holds no secret."""

    server: str
    credentials: Credentials = Credentials()
    namespace: str = "default"
    ca_pem: bytes = field(default=b"", repr=False)
    ca_file: Path | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    context: str = ""
    local_socket: str = ""
    """Unix socket on this machine at which the server answers without TLS; all connections go there if it is given."""

    @classmethod
    def from_file(cls, path: Path, context: str | None = None) -> KubeConfig:
        """Read the named context of a kubeconfig file, or its current one.

        Raises InvalidInput if the file cannot be read or is not a kubeconfig, Unsupported for features that this client
        lacks.
        """
        return cls._from_files([path], context)

    @classmethod
    def in_cluster(cls, service_account: Path = SERVICE_ACCOUNT) -> KubeConfig:
        """Return the configuration of the Pod that this process runs in. Raises Unavailable elsewhere."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port or not (service_account / "token").is_file():
            raise Unavailable("this process does not run in a Pod with a service account", hint=_NO_CLUSTER_HINT)
        namespace_file = service_account / "namespace"
        return cls(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            credentials=Credentials(token_file=service_account / "token"),
            namespace=namespace_file.read_text().strip() if namespace_file.is_file() else "default",
            ca_file=service_account / "ca.crt",
        )

    @classmethod
    def discover(cls, path: Path | None = None, context: str | None = None) -> KubeConfig:
        """Read the given file, else the files of $KUBECONFIG (merged), else ~/.kube/config, else the Pod's own cluster.

        Raises Unavailable if there is none of these.
        """
        if path is not None:
            return cls.from_file(path, context)
        named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
        files = [file for file in named or [Path("~/.kube/config").expanduser()] if file.is_file()]
        if files:
            return cls._from_files(files, context)
        if named:
            missing = ", ".join(str(file) for file in named)
            raise InvalidInput.one("$KUBECONFIG", f"no such file: {missing}", value=missing, hint=_NO_CLUSTER_HINT)
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            return cls.in_cluster()
        raise Unavailable("no Kubernetes cluster is configured", hint=_NO_CLUSTER_HINT)

    def with_token(self, token: str) -> KubeConfig:
        """Return the same server with this bearer token instead of the configured credentials."""
        return replace(self, credentials=Credentials(token=token), context="")

    @classmethod
    def _from_files(cls, paths: Sequence[Path], context: str | None) -> KubeConfig:
        documents = [(path, _read(path)) for path in paths]
        chosen = context or next((d["current-context"] for _, d in documents if d.get("current-context")), "")
        first = paths[0]
        if not chosen:
            raise InvalidInput.one(str(first), "names no current-context", hint="choose one with `kubectl config use`")
        _, entry = _entry_named(documents, "contexts", "context", chosen)
        cluster_path, cluster = _entry_named(documents, "clusters", "cluster", str(entry.get("cluster", "")))
        user_path: Path = first
        user: dict[str, Any] = {}
        if entry.get("user"):
            user_path, user = _entry_named(documents, "users", "user", str(entry["user"]))
        return _build(entry, chosen, cluster_path, cluster, user_path, user)


_NO_CLUSTER_HINT = (
    "name one with --kubeconfig or $KUBECONFIG; `kaji up` starts one here, and says which file is its own"
)


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.load(path.expanduser().read_text(), LOADER)
    except FileNotFoundError:
        raise InvalidInput.one("kubeconfig", f"{path} does not exist", value=str(path), hint=_NO_CLUSTER_HINT) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput.one("kubeconfig", f"{path} cannot be read: {error}", value=str(path)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise InvalidInput.one("kubeconfig", f"{path} is not YAML{where}", value=str(path)) from None
    if not isinstance(document, dict):
        raise InvalidInput.one("kubeconfig", f"{path} is not a kubeconfig", value=str(path))
    return document


def _entry_named(
    documents: Sequence[tuple[Path, dict[str, Any]]], plural: str, singular: str, name: str
) -> tuple[Path, dict[str, Any]]:
    """Return the first entry with this name, as kubectl merges several files, and its file."""
    known: list[str] = []
    for path, document in documents:
        for entry in document.get(plural) or ():
            if not isinstance(entry, dict):
                raise InvalidInput.one(f"{path}: {plural}", "is not a list of named entries")
            if entry.get("name") == name:
                found = entry.get(singular) or {}
                if not isinstance(found, dict):
                    raise InvalidInput.one(f"{path}: {plural}[{name}]", "is not a mapping")
                return path, found
            known.append(str(entry.get("name")))
    files = ", ".join(str(path) for path, _ in documents)
    hint = f"known: {', '.join(known)}" if known else f"{files} has none"
    raise InvalidInput.one(f"kubeconfig {singular}", f"there is no {singular} {name!r}", value=name, hint=hint)


def _build(
    entry: Mapping[str, Any],
    context: str,
    cluster_path: Path,
    cluster: dict[str, Any],
    user_path: Path,
    user: dict[str, Any],
) -> KubeConfig:
    """Return the configuration of a context, given its entries of a cluster and a user and the files that have them."""
    from lightkube.config.models import Cluster, User

    try:
        parsed = msgspec.convert(cluster, Cluster)
        who = msgspec.convert(user, User)
    except msgspec.ValidationError as error:
        raise InvalidInput.one(f"kubeconfig context {context!r}", str(error)) from None
    proxy_url = str(cluster.get("proxy-url") or "")
    if proxy_url and not proxy_url.startswith(("http://", "https://")):
        raise Unsupported(f"proxy-url {proxy_url!r} is not HTTP", hint="use an HTTP proxy, or an SSH tunnel")
    if not parsed.server.startswith(("http://", "https://")):
        raise InvalidInput.one("clusters[].cluster.server", "is not an http(s) address", value=parsed.server)
    if who.auth_provider:
        raise Unsupported(
            f"user of context {context!r} has an auth-provider, which Kubernetes removed in 1.26",
            hint="use a credential plugin (`exec`)",
        )
    if user.get("as-user-extra"):
        raise Unsupported("`as-user-extra` in a kubeconfig is not supported", hint="impersonate by user and groups")
    return KubeConfig(
        server=parsed.server.rstrip("/"),
        credentials=Credentials(
            token=who.token or "",
            token_file=_resolved_path(user_path, who.token_file),
            username=who.username or "",
            password=who.password or "",
            plugin=_exec_plugin(user_path, user.get("exec")),
            certificate_pem=_pem_bytes(who.client_cert_data, "client-certificate-data"),
            key_pem=_pem_bytes(who.client_key_data, "client-key-data"),
            certificate_file=_resolved_path(user_path, who.client_cert),
            key_file=_resolved_path(user_path, who.client_key),
            impersonate_user=str(user.get("as") or ""),
            impersonate_uid=str(user.get("as-uid") or ""),
            impersonate_groups=tuple(str(group) for group in user.get("as-groups") or ()),
        ),
        namespace=str(entry.get("namespace") or "default"),
        ca_pem=_pem_bytes(parsed.certificate_auth_data, "certificate-authority-data"),
        ca_file=_resolved_path(cluster_path, parsed.certificate_auth),
        insecure_skip_tls_verify=parsed.insecure,
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        proxy_url=proxy_url,
        context=context,
    )


def _exec_plugin(path: Path, doc: object) -> ExecPlugin | None:
    if doc is None:
        return None
    if not isinstance(doc, dict) or not doc.get("command"):
        raise InvalidInput.one("users[].user.exec", "names no command")
    version = str(doc.get("apiVersion", ""))
    if version not in _EXEC_VERSIONS:
        raise Unsupported(f"credential plugin of version {version!r}", hint=f"known: {', '.join(_EXEC_VERSIONS)}")
    command = str(doc["command"])
    if os.sep in command:
        command = str(_resolved_path(path, command))
    return ExecPlugin(
        api_version=version,
        command=command,
        args=tuple(str(arg) for arg in doc.get("args") or ()),
        env=tuple((str(pair["name"]), str(pair["value"])) for pair in doc.get("env") or ()),
        install_hint=str(doc.get("installHint") or ""),
        provide_cluster_info=bool(doc.get("provideClusterInfo")),
        interactive_mode=str(doc.get("interactiveMode") or "IfAvailable"),
    )


def _resolved_path(path: Path, name: str | None) -> Path | None:
    """Return the path of a file named in a kubeconfig; a relative name starts at the kubeconfig's folder."""
    return path.expanduser().absolute().parent / Path(name).expanduser() if name else None


def _pem_bytes(text: str | None, name: str) -> bytes:
    if not text:
        return b""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError as error:  # includes binascii.Error
        raise InvalidInput.one(f"kubeconfig {name}", f"is not base64: {error}") from None
