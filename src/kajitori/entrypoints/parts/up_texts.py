"""Texts of `kaji up`: how to use it once it is ready, and the report of a repair."""

from __future__ import annotations

from pathlib import Path

from kajitori.configuration.options.own_cluster import UpOptions
from kajitori.embedded.kubelet.engine import detection as engines
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.store.integrity import named as named_object
from kajitori.embedded.store.repair import Repaired
from kajitori.entrypoints.parts.serving import Serving
from kajitori.entrypoints.parts.up_settings import own_policy_file


def how_to_use(
    options: UpOptions,
    serving: Serving,
    port: int,
    kubeconfig: Path | None,
    policy: Path | None,
    kubelet: Kubelet | None,
) -> str:
    """Return what `kaji up` says once it is ready: its address, the first commands, the policy, and how to end it."""
    own_machine = options.kubeconfig is None
    lines = [
        f"Kajitori is up. Web API: {serving.public_url(port)}",
        "  kaji run python:3.12 python3 -c 'print(6 * 7)'     run something (in another terminal)",
        "  kaji ps -a        kaji gpus        kaji nodes        what there is",
        "  kaji open         the same in a browser",
    ]
    if kubeconfig is not None:
        lines.append(f"  export KUBECONFIG={kubeconfig}     for kubectl and every other client")
    if serving.is_open:
        trust = f" KAJI_CA={serving.ca}" if serving.ca is not None else " KAJI_INSECURE_HTTP=1"
        lines.append("  on other machines, with copies of the files named here:")
        lines.append(f"  KAJI_SERVER={serving.public_url(port)}{trust} KAJI_TOKEN=$(cat {options.data / 'token'})")
    if serving.is_open and serving.ca is None:
        lines.append("Tokens cross the network in plain text, as --insecure-http says.")
    if policy is not None:
        instead = ", which replaces the default for one machine" if own_machine else ""
        lines.append(f"The policy is {policy}{instead}.")
    elif own_machine:
        lines.append("The policy is the default for one machine; to change it: kaji policy show > POLICY, edit it, and")
        lines.append(f"move it to {own_policy_file(options)}.")
    else:
        lines.append(f"The policy is the strict default; to replace it, write {own_policy_file(options)}.")
    if kubelet is not None:
        lines += filter(None, [engines.described(options.engine, kubelet.engine)])
        if options.pod_network == "namespace" and (address := kubelet.context.network.gateway()[0]):
            lines.append(f"Pods have addresses of their own; to them, this machine is {address}.")
        lines.append(
            "Ctrl-C stops the servers. Members that run on this machine go on; the next `kaji up` takes them over."
        )
    return "\n".join(lines)


def repair_report(repaired: Repaired) -> str:
    """Return a report of a repair of the cluster's objects."""
    if repaired.kept is None:
        return f"Nothing to repair: all {repaired.objects} objects of the cluster are as they were written."
    lines = [f"{repaired.damage[:1].upper()}{repaired.damage[1:]}.", f"Objects that could be read: {repaired.objects}."]
    if repaired.lost:
        lines.append(f"Lost: {len(repaired.lost)}.")
        lines += [f"  {named_object(*key)}" for key in repaired.lost]
    elif not repaired.may_lack_more:
        lines.append("Nothing is lost.")
    if repaired.may_lack_more:
        lines.append("More may be lost, since the list of all objects is damaged, too.")
    lines.append(f"The damaged files are kept in {repaired.kept}; delete them if nothing is missing.")
    return "\n".join(lines)
