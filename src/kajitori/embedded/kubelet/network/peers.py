"""Names of fellow members in the environment.

In a cluster a member finds rank 0 as `{hostname}.{subdomain}` through the cluster's DNS. Plain processes on this
machine have no such DNS; so the kubelet looks the fellow Pod up and puts its address in place of the name.
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
    """Host names of fellow members that whole values of the environment are made of, by variable.

    `{hostname}.{subdomain}`, also with `.{namespace}`, `.svc` and a cluster domain after it, and with a port.
    """
    subdomain = pod["spec"].get("subdomain")
    if not subdomain:
        return {}
    pattern = _pattern(subdomain, pod["metadata"].get("namespace", "default"))
    return {name: match[1] for name, value in environment.items() if (match := pattern.fullmatch(value))}


def substitute(
    pod: Manifest, environment: Mapping[str, str], addresses: Mapping[str, str], peers: Mapping[str, str]
) -> dict[str, str]:
    """The environment with addresses in place of names; a port stays."""
    replaced = dict(environment)
    pattern = _pattern(pod["spec"].get("subdomain") or "", pod["metadata"].get("namespace", "default"))
    for name, host in peers.items():
        if match := pattern.fullmatch(environment[name]):
            replaced[name] = addresses[host] + (match[2] or "")
    return replaced


async def find_address(cluster: Cluster, pod: Manifest, host: str, own_address: str) -> str | None:
    """The address of a fellow member; None where it has none yet.

    A member's Pod is called as its host. Only a Pod of the same subdomain counts. One that has ended keeps the address
    it had: whoever needs it finds nobody there and says so, instead of waiting for what will never come.
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
    """An `/etc/hosts` for the Pod: the machine's, then itself, its known fellows and its `hostAliases`."""
    namespace = pod["metadata"].get("namespace", "default")
    subdomain = pod["spec"].get("subdomain")
    lines = [machine_hosts.rstrip("\n"), "# written by the process kubelet"]
    for host, address in {pods.hostname(pod): own_address, **addresses}.items():
        names = [f"{host}.{subdomain}.{namespace}.svc.cluster.local", f"{host}.{subdomain}"] if subdomain else []
        lines.append("\t".join([address, *names, host]))
    lines += ["\t".join([one["ip"], *one.get("hostnames", ())]) for one in pod["spec"].get("hostAliases") or ()]
    return "\n".join(lines) + "\n"


def _pattern(subdomain: str, namespace: str) -> re.Pattern[str]:
    tail = rf"(?:\.{re.escape(namespace)}(?:\.svc(?:\.[a-z0-9.-]+)?)?)?"
    return re.compile(rf"([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)\.{re.escape(subdomain)}{tail}\.?(:[0-9]+)?")
