"""Checks of the options of a process. Each fault names the option, its value and a hint."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from kajitori.core.kubernetes import texts
from kajitori.core.kubernetes.texts import is_loopback
from kajitori.core.naming import names
from kajitori.errors import Fault, InvalidInput

MAX_SIMULATED_NODES = 65_000
HISTORY_PASSWORD = "KAJI_HISTORY_PASSWORD"
"""Environment variable with the password of history's database."""

ENGINES = ("auto", "podman", "docker", "process")
"""The engines that may run containers on this machine."""
CLUSTER_CIDR = "10.244.0.0/16"
LONGEST_NODE_PREFIX, LONGEST_CUT = 29, 16
"""Longest prefix of a node's range of Pod addresses, which leaves five addresses, and the most bits by which it may be
longer than the cluster's range: Kubernetes allows at most 65,536 such ranges."""


def raise_all(faults: Iterable[Fault]) -> None:
    """Raise InvalidInput if there are any faults."""
    found = list(faults)
    if found:
        raise InvalidInput(found)


def port_faults(*ports: tuple[str, int]) -> list[Fault]:
    return [
        Fault(option, f"{port} is not a port", str(port), "use a number from 1 to 65535, or 0 for any free port")
        for option, port in ports
        if not 0 <= port <= 65535
    ]


def file_faults(*files: tuple[str, Path | None]) -> list[Fault]:
    return [
        Fault(option, f"there is no file {path}", str(path), "check the path")
        for option, path in files
        if path is not None and not path.is_file()
    ]


def account_faults(account: str | None, option: str = "--agent-account") -> list[Fault]:
    if account is None or (account.count("/") == 1 and not any(map(texts.dns_subdomain, account.split("/")))):
        return []
    hint = f"write NAMESPACE/NAME, for example {names.AGENT_ACCOUNT}"
    return [Fault(option, f"{account!r:.80} is not a service account", account, hint)]


def url_faults(option: str, urls: Iterable[str], example: str) -> list[Fault]:
    return [
        Fault(option, f"{url!r} is not a URL", url, f"write a URL, for example {example}")
        for url in urls
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname
    ]


def history_faults(url: str | None, password_file: Path | None) -> list[Fault]:
    """Return the faults of the URL of a history and of the file with its password. A password in the URL is refused,
    because every process of the machine can read command lines; the fault does not repeat it."""
    faults = file_faults(("--history-password-file", password_file))
    if url is None:
        return faults
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        if parts.netloc or len(parts.path) < 2:
            faults.append(Fault("--history", f"{url!r} names no file", url, "write sqlite:///folder/history.db"))
    elif parts.scheme != "postgresql":
        hint = "write sqlite:///folder/history.db or postgresql://user@host/database"
        faults.append(Fault("--history", f"{parts.scheme or url!r:.40} is no kind of database", parts.scheme, hint))
    elif parts.password or "password" in parse_qs(parts.query):
        hint = f"put it into ${HISTORY_PASSWORD} or a file for --history-password-file"
        faults.append(Fault("--history", "the URL has a password, which other users of the machine can read", "", hint))
    return faults


def certificate_faults(certificate: Path | None, key: Path | None) -> list[Fault]:
    faults = file_faults(("--tls-cert", certificate), ("--tls-key", key))
    if (certificate is None) != (key is None):
        message = "--tls-cert and --tls-key must be used together"
        faults.append(Fault("--tls-cert", message, hint="use both, or neither"))
    return faults


def plain_http_faults(host: str, certificate: Path | None, insecure_http: bool) -> list[Fault]:
    """Refuse a server that would receive tokens from other machines over plain HTTP, unless that is allowed."""
    if certificate is not None or insecure_http or is_loopback(host):
        return []
    hint = "add --tls-cert and --tls-key; or --insecure-http, if a proxy in front of the server encrypts"
    return [Fault("--host", "callers' tokens would cross the network in plain text", host, hint)]


def plain_url_faults(*options: tuple[str, Iterable[str]]) -> list[Fault]:
    """Refuse URLs of other machines to which a token would be sent over plain HTTP."""
    hint = "write https://…; or add --insecure-http, if something else encrypts the connection"
    return [
        Fault(option, "the token would cross the network in plain text", url, hint)
        for option, urls in options
        for url in urls
        if urlsplit(url).scheme == "http" and not is_loopback(urlsplit(url).hostname or "")
    ]


def namespace_faults(namespace: str) -> list[Fault]:
    if not texts.dns_label(namespace):
        return []
    hint = "use at most 63 lower-case letters, digits and dashes"
    return [Fault("--namespace", f"{namespace!r:.80} is not a valid name for a namespace", namespace, hint)]


def engine_faults(engine: str) -> list[Fault]:
    if engine in ENGINES:
        return []
    return [Fault("--engine", f"there is no engine {engine!r:.80}", engine, f"use one of {', '.join(ENGINES)}")]


def pod_network_faults(network: str) -> list[Fault]:
    if network in ("host", "namespace"):
        return []
    return [Fault("--pod-network", f"there is no Pod network {network!r:.80}", network, "use host or namespace")]


def simulation_faults(nodes: int, gpus: int, *, least_nodes: int) -> list[Fault]:
    faults = []
    if not least_nodes <= nodes <= MAX_SIMULATED_NODES:
        hint = f"use a number from {least_nodes} to {MAX_SIMULATED_NODES}"
        faults.append(Fault("--nodes", f"{nodes} nodes cannot be simulated", str(nodes), hint))
    if not 0 <= gpus <= 1024:
        message = f"a node cannot have {gpus} GPUs"
        faults.append(Fault("--gpus", message, str(gpus), "use a number from 0 to 1024"))
    return faults


def range_faults(option: str, text: str) -> list[Fault]:
    """Return why a range cannot be used for the addresses of Pods."""
    hint = f"write an IPv4 range, for example {CLUSTER_CIDR}"
    try:
        network = ip_network(text)
    except ValueError as error:
        return [Fault(option, str(error), text, hint)]
    if network.version != 4:
        return [Fault(option, "Pods of process kubelets have IPv4 addresses only", text, hint)]
    if network.prefixlen > LONGEST_NODE_PREFIX:
        return [Fault(option, f"a /{network.prefixlen} is too small for Pods", text, hint)]
    if network.is_loopback or network.is_link_local or network.is_multicast:
        message = "Pods cannot have loopback, link-local or multicast addresses"
        return [Fault(option, message, text, hint)]
    return []


def mask_faults(cluster_prefix: int, node_prefix: int) -> list[Fault]:
    option, shown = "--node-cidr-mask-size", str(node_prefix)
    if not cluster_prefix <= node_prefix <= LONGEST_NODE_PREFIX:
        hint = f"use a number from {cluster_prefix} (one node for the whole range) to {LONGEST_NODE_PREFIX}"
        message = f"a /{cluster_prefix} cannot be divided into ranges of /{node_prefix}"
        return [Fault(option, message, shown, hint)]
    if node_prefix - cluster_prefix > LONGEST_CUT:
        hint = f"use at most {cluster_prefix + LONGEST_CUT} with this --cluster-cidr"
        return [Fault(option, f"this would result in more than {1 << LONGEST_CUT} ranges", shown, hint)]
    return []


def quantity_faults(cpus: str | None, memory: str | None) -> list[Fault]:
    from kajitori.core.formats.quantities import QuantityError, parse_cpu_millis, parse_spec_memory_bytes

    faults = []
    for option, text, parse in (("--cpus", cpus, parse_cpu_millis), ("--memory", memory, parse_spec_memory_bytes)):
        if text is not None:
            try:
                parse(text)
            except QuantityError as error:
                faults.append(Fault(option, error.message, text, error.hint))
    return faults
