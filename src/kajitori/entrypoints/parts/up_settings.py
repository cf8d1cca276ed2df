"""Settings of `kaji up`, made from its options: policy, sign-in, sessions of browsers, and this machine as a node."""

from __future__ import annotations

import socket
import tempfile
from dataclasses import replace
from pathlib import Path

from kajitori.configuration.options.own_cluster import UpOptions
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.sign_in import BrowserAccess, SignIn
from kajitori.core.kubernetes.texts import is_loopback
from kajitori.core.policy.file import Policy, own_machine_policy
from kajitori.core.proxy.addresses import parse_origins
from kajitori.embedded.apiserver.certificates import ensure_token, issue_serving
from kajitori.embedded.cluster import EmbeddedCluster
from kajitori.embedded.kubelet.engine import detection as engines
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings, ServerSettings
from kajitori.entrypoints.parts.run_adapter import RunPods
from kajitori.entrypoints.process import node_name
from kajitori.kube.client import KubeClient
from kajitori.openid.authentication_config import (
    AuthenticationConfiguration,
    parse_authentication,
)


def policy_of(options: UpOptions, without_file: Policy | None) -> PolicyFile:
    """Return the policy of the named file, which must exist; else of the data folder's file, which may be missing."""
    if options.policy is not None:
        return PolicyFile(options.policy, required=True)
    return PolicyFile(own_policy_file(options), without_file=without_file)


def authentication_of(options: UpOptions) -> AuthenticationConfiguration | None:
    """Return the providers that the embedded API server accepts; None if the options name no file."""
    if options.authentication_config is None:
        return None
    return parse_authentication(options.authentication_config.read_bytes())


def sign_in_of(options: UpOptions, accepted: AuthenticationConfiguration | None) -> SignIn | None:
    """Return how people sign in: as the options say, else at the first provider that the embedded API server
    accepts."""
    found = options.sign_in()
    if found is None and accepted is not None and accepted.jwt:
        issuer = accepted.jwt[0].issuer
        found = SignIn(issuer.url, issuer.audiences[0], options.sign_in_scopes, issuer.certificate_authority)
    return found


LOCAL_PROGRAMS = "http://*.localhost"
"""Origins of programs for browsers on this machine, at the port of the Web API."""


def browser_access_of(options: UpOptions) -> BrowserAccess:
    """Return the settings for sessions of browsers. The key lies in the data folder, so that sessions survive a
    restart.

    Browsers resolve names below localhost to this machine, so each program gets an origin there by default.
    """
    found = options.browser_access()
    if found.programs is None and is_loopback(options.host):
        found = replace(found, programs=parse_origins(LOCAL_PROGRAMS))
    if found.cookie_secret:
        return found
    return replace(found, cookie_secret=ensure_token(options.data / "sign-in.key").encode())


def own_policy_file(options: UpOptions) -> Path:
    """Return the file in the data folder from which the policy is read unless the options name another."""
    return options.data / "policy.yaml"


def default_policy_of(data: Path, *, mounts: bool, images: bool, simulated_nodes: int) -> Policy:
    """Return the policy for one machine without a policy file. mounts: members can get volumes of their own; images:
    an engine runs their images."""
    folders = (str(Path.cwd()), tempfile.gettempdir(), str(data))
    return own_machine_policy(
        str(Path.home()),
        mounts=mounts,
        images=images,
        checkpoint_root=str(data / "checkpoints"),
        folders=folders,
        simulated_nodes=simulated_nodes,
    )


def own_kubelet(
    options: UpOptions, cluster: EmbeddedCluster, client: KubeClient, engine: engines.Engine | None
) -> Kubelet:
    """Return the kubelet that makes this machine a node of the embedded cluster."""
    name = node_name(socket.gethostname())
    root = options.data / "node"
    certificate, key = issue_serving(cluster.certificates, root / "pki", name, (options.host,))
    server = ServerSettings(address=options.host, certificate=certificate, key=key, client_ca=cluster.certificates.ca)
    # With an engine, the user of a container is often the image's, and not the user of `kaji up`.
    open_below = options.data if engine is not None else None
    settings = KubeletSettings(
        node_name=name,
        root_dir=root,
        address=options.host,
        server=server,
        open_below=open_below,
        pod_network=options.pod_network,
    )
    return Kubelet(client, settings, adapter=RunPods(), engine=engine)
