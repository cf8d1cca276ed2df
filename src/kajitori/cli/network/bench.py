"""Measuring the network between two nodes with a run at each end, as Pods and on the nodes' own network.

The runs get the program (`member/netbench.py`) in their arguments and are deleted after the measurement.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kajitori.cli.words.runs import reason_words
from kajitori.client.streams import LogReader
from kajitori.client.views import is_final, phase_of
from kajitori.client.web_api import Api, run_path
from kajitori.core.network.planning.encapsulation import GENEVE, IPIP, VXLAN, WIREGUARD
from kajitori.errors import InvalidInput, NotFound, Unavailable

View = Mapping[str, Any]

POLL_SECONDS = 0.5
_HOSTNAME = "kubernetes.io/hostname"
_SIMULATED = "sim.kajitori.dev/pool"
"""The label of nodes that run nothing (`embedded/simulator`)."""
_TIME_LIMIT = "10m"


@dataclass(frozen=True, slots=True)
class Wish:
    """The settings of a measurement."""

    nodes: tuple[str, ...]
    """Two nodes, which may be the same, or none to let the queue choose."""
    seconds: float
    streams: int
    cpus: str
    patience_seconds: float
    """Longest time that a run may take to start."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The result for one direction, from the first node to the second."""

    kind: str
    """pods or hosts."""
    source: str
    target: str
    address: str
    """Address of the receiving end."""
    bits_per_second: int
    mtu: int
    """Largest packet that passes whole, in bytes; 0 if no datagram came back."""


class Bench:
    """Creates the runs, waits for them, reads their output, and deletes them."""

    def __init__(self, api: Api, namespace: str | None, say: Callable[[str], None]) -> None:
        self._api = api
        self._namespace = namespace
        self._say = say
        self._mark = secrets.token_hex(2)

    def measure(self, wish: Wish) -> list[Measured]:
        """Measure Pods, then hosts if policy allows runs on their node's network. Raises KajitoriError."""
        policy = self._api.get("/v1/policy")["policy"]
        image = (policy.get("start") or {}).get("image")
        if not image:
            message = "policy names no image that runs can measure with"
            raise InvalidInput.one("start.image", message, hint="ask the operators to name Kajitori's own image there")
        ends = self._chosen_ends(wish.nodes)
        kinds = ["pods"]
        if (policy.get("security") or {}).get("allowHostNetwork"):
            kinds.append("hosts")
        else:
            self._say("note: hosts are not measured: policy keeps runs off their node's network (allowHostNetwork)")
        return [self._measure_pair(kind, ends, wish, image, policy) for kind in kinds]

    def _chosen_ends(self, names: Sequence[str]) -> tuple[View, View]:
        nodes = {view["name"]: view for view in self._api.get("/v1/nodes")["items"]}
        unknown = [name for name in names if name not in nodes]
        if unknown:
            raise InvalidInput.one("NODE", f"there is no node {unknown[0]}", value=unknown[0], hint="see: kaji nodes")
        if names:
            return nodes[names[0]], nodes[names[-1]]
        fit = [
            view
            for view in nodes.values()
            if view["ready"] and view["schedulable"] and not view["taints"] and _SIMULATED not in view["labels"]
        ]
        if not fit:
            raise InvalidInput.one("NODE", "no node is ready, open and without taints", hint="name two: kaji nodes")
        return fit[0], fit[min(1, len(fit) - 1)]

    def _measure_pair(self, kind: str, ends: tuple[View, View], wish: Wish, image: str, policy: View) -> Measured:
        source, target = ends
        self._say(f"measuring {kind}: {source['name']} to {target['name']}")
        life = wish.patience_seconds + 2 * wish.seconds + 60
        with ExitStack() as runs:
            listens = self._temporary_run(kind, "to", target, ["serve", f"{life:g}"], wish, image, policy)
            server = self._until_it_runs(runs.enter_context(listens), wish)
            address = self._api.get(run_path(server, "/members"))["items"][0]["address"]
            port = self._first_line(server).split()[-1]
            words = ["measure", address, port, f"{wish.seconds:g}", str(wish.streams)]
            client = runs.enter_context(self._temporary_run(kind, "from", source, words, wish, image, policy))
            client = self._until_it_runs(client, wish)
            found = self._first_line(client)
        try:
            result = json.loads(found)
            speed, mtu = int(result["bitsPerSecond"]), int(result["mtu"])
            return Measured(kind, source["name"], target["name"], address, speed, mtu)
        except (ValueError, KeyError, TypeError):
            raise Unavailable(f"{target['name']} was not reached from {source['name']}: {found}") from None

    @contextmanager
    def _temporary_run(
        self, kind: str, end: str, node: View, words: list[str], wish: Wish, image: str, policy: View
    ) -> Iterator[dict[str, Any]]:
        """A run on this node, deleted at the end."""
        spec: dict[str, Any] = {
            "image": image,
            "command": ["python3", "-I", "-c", program(), *words],
            "resources": {"cpu": wish.cpus, "memory": "256Mi", **self._gpu_request(node, policy)},
            "nodeSelector": {_HOSTNAME: node["labels"].get(_HOSTNAME, node["name"])},
            "restarts": 0,
            "timeLimit": _TIME_LIMIT,
        }
        if kind == "hosts":
            spec["hostNetwork"] = True
        elif _restricts_network(policy):
            spec["network"] = {"from": ["namespace"], "to": ["namespace"]}
        body = {"name": f"network-{kind}-{end}-{self._mark}", "spec": spec}
        run = self._api.post("/v1/runs", body | ({"namespace": self._namespace} if self._namespace else {}))
        try:
            yield run
        finally:
            with suppress(NotFound):
                self._api.delete(run_path(run), uid=run["uid"])

    def _gpu_request(self, node: View, policy: View) -> dict[str, Any]:
        """Return a request for one GPU if the node takes only runs with GPUs, else nothing."""
        if not node["gpus"]["total"] or (policy.get("gpu") or {}).get("cpuRunsOnGpuNodes") == "always":
            return {}
        return {"gpu": 1, **({"gpuType": node["gpuType"]} if node["gpuType"] else {})}

    def _until_it_runs(self, run: View, wish: Wish) -> dict[str, Any]:
        """Wait until the run runs or has succeeded, and return its view. Raises Unavailable."""
        waited = 0.0
        while True:
            view: dict[str, Any] = self._api.get(run_path(run))
            if phase_of(view) in ("Running", "Succeeded"):
                return view
            why = (view.get("status") or {}).get("message") or reason_words(view) or phase_of(view)
            if is_final(view):
                last_line = "; ".join(LogReader(self._api, view, tail=1).lines())
                raise Unavailable(f"{view['name']} ended: {last_line or why}")
            if waited >= wish.patience_seconds:
                hint = "choose other nodes, or wait longer (--wait)"
                raise Unavailable(f"{view['name']} does not run after {waited:g} s: {why}", hint=hint)
            self._api.sleep(POLL_SECONDS)
            waited += POLL_SECONDS

    def _first_line(self, run: View) -> str:
        """Return the first line that the run prints. Raises Unavailable with the run's message if it prints none."""
        for line in LogReader(self._api, run, follow=True).lines():
            return line
        view = self._api.get(run_path(run))
        message = (view.get("status") or {}).get("message") or reason_words(view)
        raise Unavailable(f"{view['name']} ended without a word: {message}")


def _restricts_network(policy: View) -> bool:
    """Whether policy restricts the network of a run that asks for nothing."""
    places = ((policy.get("defaults") or {}).get("network"), (policy["ceilings"].get("run") or {}).get("network"))
    return any(value is not None for use in places for value in (use or {}).values())


def program() -> str:
    """Return the source of the program that runs at both ends."""
    return (Path(__file__).parents[2] / "member" / "netbench.py").read_text()


def conclusions(found: Sequence[Measured]) -> list[str]:
    """Return sentences that interpret the results."""
    sentences = []
    pods = next(result for result in found if result.kind == "pods")
    hosts = next((result for result in found if result.kind == "hosts"), None)
    if pods.source == pods.target:
        sentences.append(f"Both ends are on {pods.source}: this is the way within one node, no network between two.")
    if not all(result.mtu for result in found):
        sentences.append("If no path MTU is shown, no UDP packet came back.")
    if hosts is None:
        return sentences
    if pods.address == hosts.address:
        return [*sentences, "Pods have their node's own address here: both lines are the same network."]
    if hosts.bits_per_second:
        share = 100 * pods.bits_per_second / hosts.bits_per_second
        sentences.append(f"Pods get {share:.0f} % of what their nodes get.")
    less = hosts.mtu - pods.mtu
    if pods.mtu and less > 0:
        tunnels = (VXLAN, GENEVE, IPIP, WIREGUARD)
        names = [tunnel.name for tunnel in tunnels if less in (tunnel.overhead_bytes(4), tunnel.overhead_bytes(6))]
        like = f", the overhead of {' or '.join(names)}" if names else ""
        sentences.append(f"Packets of Pods are {less} bytes smaller than those of their nodes{like}.")
    return sentences
