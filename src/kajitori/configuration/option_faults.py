"""What can be wrong with the options of a process: each check names the option, its value and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

from kajitori.core.words import names, texts
from kajitori.core.words.texts import is_loopback
from kajitori.errors import Fault, InvalidInput

MAX_SIMULATED_NODES = 65_000
CLUSTER_CIDR = "10.244.0.0/16"
LONGEST_NODE_PREFIX, LONGEST_CUT = 29, 16
"""Of nodes' ranges of Pod addresses: five addresses at least, and 65,536 ranges at most, as Kubernetes allows."""


def raise_all(faults: Iterable[Fault]) -> None:
    """Raises InvalidInput if there are any."""
    found = list(faults)
    if found:
        raise InvalidInput(found)


def port_faults(*ports: tuple[str, int]) -> list[Fault]:
    return [
        Fault(option, f"{port} is no port", str(port), "between 1 and 65535; 0 takes a free one")
        for option, port in ports
        if not 0 <= port <= 65535
    ]


def file_faults(*files: tuple[str, Path | None]) -> list[Fault]:
    return [
        Fault(option, f"there is no file {path}", str(path), "check the path")
        for option, path in files
        if path is not None and not path.is_file()
    ]


def account_faults(account: str | None) -> list[Fault]:
    if account is None or (account.count("/") == 1 and not any(map(texts.dns_subdomain, account.split("/")))):
        return []
    hint = f"write NAMESPACE/NAME, such as {names.AGENT_ACCOUNT}"
    return [Fault("--agent-account", f"{account!r:.80} is no service account", account, hint)]


def url_faults(option: str, urls: Iterable[str], such_as: str) -> list[Fault]:
    return [
        Fault(option, f"{url!r} is not a URL", url, f"write {such_as}")
        for url in urls
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname
    ]


def certificate_faults(certificate: Path | None, key: Path | None) -> list[Fault]:
    faults = file_faults(("--tls-cert", certificate), ("--tls-key", key))
    if (certificate is None) != (key is None):
        faults.append(Fault("--tls-cert", "certificate and key go together", hint="give both, or neither"))
    return faults


def plain_http_faults(host: str, certificate: Path | None, insecure_http: bool) -> list[Fault]:
    """A server that would take callers' tokens over plain HTTP from other machines, without having been told to."""
    if certificate is not None or insecure_http or is_loopback(host):
        return []
    hint = "add --tls-cert and --tls-key; or, if something else encrypts (a proxy before it), --insecure-http"
    return [Fault("--host", "callers' tokens would cross the network in plain text", host, hint)]


def plain_url_faults(*options: tuple[str, Iterable[str]]) -> list[Fault]:
    """Servers on other machines that would be shown a token over plain HTTP."""
    hint = "write https://…; or, if something else encrypts, add --insecure-http"
    return [
        Fault(option, "the token would cross the network in plain text", url, hint)
        for option, urls in options
        for url in urls
        if urlsplit(url).scheme == "http" and not is_loopback(urlsplit(url).hostname or "")
    ]


def namespace_faults(namespace: str) -> list[Fault]:
    if not texts.dns_label(namespace):
        return []
    hint = "use lower-case letters, digits and dashes, at most 63"
    return [Fault("--namespace", f"{namespace!r:.80} is not a namespace's name", namespace, hint)]


def simulation_faults(nodes: int, gpus: int, *, least_nodes: int) -> list[Fault]:
    faults = []
    if not least_nodes <= nodes <= MAX_SIMULATED_NODES:
        hint = f"between {least_nodes} and {MAX_SIMULATED_NODES}"
        faults.append(Fault("--nodes", f"{nodes} nodes cannot be simulated", str(nodes), hint))
    if not 0 <= gpus <= 1024:
        faults.append(Fault("--gpus", f"{gpus} GPUs in a node", str(gpus), "between 0 and 1024"))
    return faults


def range_faults(option: str, text: str) -> list[Fault]:
    """What speaks against giving Pods addresses of that range."""
    hint = f"write one of IPv4, such as {CLUSTER_CIDR}"
    try:
        network = ip_network(text)
    except ValueError as error:
        return [Fault(option, str(error), text, hint)]
    if network.version != 4:
        return [Fault(option, "Pods of process kubelets have addresses of IPv4", text, hint)]
    if network.prefixlen > LONGEST_NODE_PREFIX:
        return [Fault(option, f"a /{network.prefixlen} has no room for Pods", text, hint)]
    if network.is_loopback or network.is_link_local or network.is_multicast:
        return [Fault(option, "nobody can be reached at these addresses", text, hint)]
    return []


def mask_faults(cluster_prefix: int, node_prefix: int) -> list[Fault]:
    option, shown = "--node-cidr-mask-size", str(node_prefix)
    if not cluster_prefix <= node_prefix <= LONGEST_NODE_PREFIX:
        hint = f"between {cluster_prefix}, one node for all of it, and {LONGEST_NODE_PREFIX}"
        return [Fault(option, f"ranges of /{node_prefix} can't be cut from a /{cluster_prefix}", shown, hint)]
    if node_prefix - cluster_prefix > LONGEST_CUT:
        hint = f"{cluster_prefix + LONGEST_CUT} at most for this --cluster-cidr"
        return [Fault(option, f"that would be more than {1 << LONGEST_CUT} ranges", shown, hint)]
    return []


def quantity_faults(cpus: str | None, memory: str | None) -> list[Fault]:
    from kajitori.core.words.quantities import QuantityError, parse_cpu_millis, parse_spec_memory_bytes

    faults = []
    for option, text, parse in (("--cpus", cpus, parse_cpu_millis), ("--memory", memory, parse_spec_memory_bytes)):
        if text is not None:
            try:
                parse(text)
            except QuantityError as error:
                faults.append(Fault(option, error.message, text, error.hint))
    return faults
