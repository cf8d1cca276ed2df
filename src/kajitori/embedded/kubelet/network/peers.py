"""Replaces host names of peers in the environment by addresses. A peer is another Pod of the same subdomain.

In a cluster a Pod finds its peers as `{hostname}.{subdomain}` through the cluster's DNS. Plain processes on this
machine have no such DNS, so the kubelet looks up the fellow Pod and puts its address in place of the name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.cluster import Cluster
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.errors import NotFound
from kajitori.kube import resources


def named_peers(pod: Manifest, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the host names of fellow Pods that are the whole value of a variable, by variable.

    A name is `{hostname}.{subdomain}`, optionally followed by `.{namespace}`, `.svc` and a cluster domain, and by a
    port.
    """
    subdomain = pod["spec"].get("subdomain")
    if not subdomain:
        return {}
    pattern = _host_pattern(subdomain, pod["metadata"].get("namespace", "default"))
    return {name: match[1] for name, value in environment.items() if (match := pattern.fullmatch(value))}


def substitute(
    pod: Manifest, environment: Mapping[str, str], addresses: Mapping[str, str], peers: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment with addresses in place of names; a port is kept."""
    replaced = dict(environment)
    pattern = _host_pattern(pod["spec"].get("subdomain") or "", pod["metadata"].get("namespace", "default"))
    for name, host in peers.items():
        if match := pattern.fullmatch(environment[name]):
            replaced[name] = addresses[host] + (match[2] or "")
    return replaced


async def find_address(cluster: Cluster, pod: Manifest, host: str, own_address: str) -> str | None:
    """Return the address of a fellow Pod; None if it has none yet.

    The Pod's name is its host name, and only a Pod of the same subdomain counts. An ended Pod keeps its address: a
    program that needs it fails to connect and says so, instead of waiting for ever.
    """
    if host == pods.hostname(pod):
        return own_address
    try:
        peer = await cluster.get(resources.PODS, host, pod["metadata"].get("namespace", "default"))
    except NotFound:
        return None
    if peer["spec"].get("subdomain") != pod["spec"].get("subdomain"):
        return None
    return (peer.get("status") or {}).get("podIP") or None


def hosts_text(pod: Manifest, own_address: str, addresses: Mapping[str, str], machine_hosts: str) -> str:
    """Return an `/etc/hosts` for the Pod: the machine's, then the Pod itself, its known fellows and its
    `hostAliases`."""
    namespace = pod["metadata"].get("namespace", "default")
    subdomain = pod["spec"].get("subdomain")
    lines = [machine_hosts.rstrip("\n"), "# written by the process kubelet"]
    for host, address in {pods.hostname(pod): own_address, **addresses}.items():
        names = [f"{host}.{subdomain}.{namespace}.svc.cluster.local", f"{host}.{subdomain}"] if subdomain else []
        lines.append("\t".join([address, *names, host]))
    lines += ["\t".join([alias["ip"], *alias.get("hostnames", ())]) for alias in pod["spec"].get("hostAliases") or ()]
    return "\n".join(lines) + "\n"


def _host_pattern(subdomain: str, namespace: str) -> re.Pattern[str]:
    tail = rf"(?:\.{re.escape(namespace)}(?:\.svc(?:\.[a-z0-9.-]+)?)?)?"
    return re.compile(rf"([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)\.{re.escape(subdomain)}{tail}\.?(:[0-9]+)?")
