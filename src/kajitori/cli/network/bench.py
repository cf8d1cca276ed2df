"""What the network between two nodes carries, measured by runs: one at each end, as Pods and on the nodes' own network.

The program travels in the runs' arguments (`member/netbench.py`); they are deleted when they have told what they found.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kajitori.cli.connection.http import Api, run_path
from kajitori.cli.connection.streams import LogReader
from kajitori.cli.pages.run_words import is_final, phase_of, reason_words
from kajitori.core.network.encapsulation import GENEVE, IPIP, VXLAN, WIREGUARD
from kajitori.errors import InvalidInput, NotFound, Unavailable

View = Mapping[str, Any]

POLL_SECONDS = 0.5
_HOSTNAME = "kubernetes.io/hostname"
_SIMULATED = "sim.kajitori.dev/pool"
"""The label of nodes that run nothing (`embedded/simulator`)."""
_TIME_LIMIT = "10m"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be measured, and how."""

    nodes: tuple[str, ...]
    """None, or two, which may be the same."""
    seconds: float
    streams: int
    cpus: str
    patience_seconds: float
    """So long a run may take until it runs."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One way, from the first node to the second."""

    kind: str
    """pods or hosts."""
    source: str
    target: str
    address: str
    """Of the other end."""
    bits_per_second: int
    mtu: int
    """Of the path, in bytes; 0 where no datagram came back."""


class Bench:
    """Makes runs, waits for them, reads what they print, and takes them away."""

    def __init__(self, api: Api, namespace: str | None, say: Callable[[str], None]) -> None:
        self._api = api
        self._namespace = namespace
        self._say = say
        self._mark = secrets.token_hex(2)

    def measure(self, wish: Wish) -> list[Measured]:
        """Pods, then hosts where policy lets runs have their node's network. Raises KajitoriError."""
        policy = self._api.get("/v1/policy")["policy"]
        image = (policy.get("start") or {}).get("image")
        if not image:
            message = "policy names no image that runs can measure with"
            raise InvalidInput.one("start.image", message, hint="ask the operators to name Kajitori's own image there")
        ends = self._ends(wish.nodes)
        kinds = ["pods"]
        if (policy.get("security") or {}).get("allowHostNetwork"):
            kinds.append("hosts")
        else:
            self._say("note: hosts are not measured: policy keeps runs off their node's network (allowHostNetwork)")
        return [self._pair(kind, ends, wish, image, policy) for kind in kinds]

    def _ends(self, names: Sequence[str]) -> tuple[View, View]:
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

    def _pair(self, kind: str, ends: tuple[View, View], wish: Wish, image: str, policy: View) -> Measured:
        source, target = ends
        self._say(f"measuring {kind}: {source['name']} to {target['name']}")
        life = wish.patience_seconds + 2 * wish.seconds + 60
        with ExitStack() as runs:
            listens = self._run(kind, "to", target, ["serve", f"{life:g}"], wish, image, policy)
            server = self._until_it_runs(runs.enter_context(listens), wish)
            address = self._api.get(run_path(server, "/members"))["items"][0]["address"]
            port = self._first_line(server).split()[-1]
            words = ["measure", address, port, f"{wish.seconds:g}", str(wish.streams)]
            client = runs.enter_context(self._run(kind, "from", source, words, wish, image, policy))
            client = self._until_it_runs(client, wish)
            found = self._first_line(client)
        try:
            said = json.loads(found)
            return Measured(kind, source["name"], target["name"], address, int(said["bitsPerSecond"]), int(said["mtu"]))
        except (ValueError, KeyError, TypeError):
            raise Unavailable(f"{target['name']} was not reached from {source['name']}: {found}") from None

    @contextmanager
    def _run(
        self, kind: str, end: str, node: View, words: list[str], wish: Wish, image: str, policy: View
    ) -> Iterator[dict[str, Any]]:
        """A run on this node, deleted at the end."""
        spec: dict[str, Any] = {
            "image": image,
            "command": ["python3", "-I", "-c", program(), *words],
            "resources": {"cpu": wish.cpus, "memory": "256Mi", **self._gpu(node, policy)},
            "nodeSelector": {_HOSTNAME: node["labels"].get(_HOSTNAME, node["name"])},
            "restarts": 0,
            "timeLimit": _TIME_LIMIT,
        }
        if kind == "hosts":
            spec["hostNetwork"] = True
        elif _restricts(policy):
            spec["network"] = {"from": ["namespace"], "to": ["namespace"]}
        body = {"name": f"network-{kind}-{end}-{self._mark}", "spec": spec}
        run = self._api.post("/v1/runs", body | ({"namespace": self._namespace} if self._namespace else {}))
        try:
            yield run
        finally:
            with suppress(NotFound):
                self._api.delete(run_path(run))

    def _gpu(self, node: View, policy: View) -> dict[str, Any]:
        """Where only runs with GPUs may be, one of them."""
        if not node["gpus"]["total"] or (policy.get("gpu") or {}).get("cpuRunsOnGpuNodes") == "always":
            return {}
        return {"gpu": 1, **({"gpuType": node["gpuType"]} if node["gpuType"] else {})}

    def _until_it_runs(self, run: View, wish: Wish) -> dict[str, Any]:
        """The run once it runs, or has succeeded."""
        waited = 0.0
        while True:
            view: dict[str, Any] = self._api.get(run_path(run))
            if phase_of(view) in ("Running", "Succeeded"):
                return view
            why = (view.get("status") or {}).get("message") or reason_words(view) or phase_of(view)
            if is_final(view):
                said = "; ".join(LogReader(self._api, view, tail=1).lines())
                raise Unavailable(f"{view['name']} ended: {said or why}")
            if waited >= wish.patience_seconds:
                hint = "choose other nodes, or wait longer (--wait)"
                raise Unavailable(f"{view['name']} does not run after {waited:g} s: {why}", hint=hint)
            self._api.sleep(POLL_SECONDS)
            waited += POLL_SECONDS

    def _first_line(self, run: View) -> str:
        """What the run prints first; where that is nothing, why it ended."""
        for line in LogReader(self._api, run, follow=True).lines():
            return line
        view = self._api.get(run_path(run))
        message = (view.get("status") or {}).get("message") or reason_words(view)
        raise Unavailable(f"{view['name']} ended without a word: {message}")


def _restricts(policy: View) -> bool:
    """Whether a run that says nothing is restricted in who may reach it or where it may go."""
    places = ((policy.get("defaults") or {}).get("network"), (policy["ceilings"].get("run") or {}).get("network"))
    return any(value is not None for use in places for value in (use or {}).values())


def program() -> str:
    """The text of what is run at both ends."""
    return (Path(__file__).parents[2] / "member" / "netbench.py").read_text()


def conclusions(found: Sequence[Measured]) -> list[str]:
    """What follows from what was measured, in sentences."""
    said = []
    pods = next(each for each in found if each.kind == "pods")
    hosts = next((each for each in found if each.kind == "hosts"), None)
    if pods.source == pods.target:
        said.append(f"Both ends are on {pods.source}: this is the way within one node, no network between two.")
    if not all(each.mtu for each in found):
        said.append("Where no path MTU is told, no UDP came back.")
    if hosts is None:
        return said
    if pods.address == hosts.address:
        return [*said, "Pods have their node's own address here: both lines are the same network."]
    if hosts.bits_per_second:
        said.append(f"Pods get {100 * pods.bits_per_second / hosts.bits_per_second:.0f} % of what their nodes get.")
    less = hosts.mtu - pods.mtu
    if pods.mtu and less > 0:
        tunnels = (VXLAN, GENEVE, IPIP, WIREGUARD)
        names = [each.name for each in tunnels if less in (each.overhead_bytes(4), each.overhead_bytes(6))]
        like = f", as {' or '.join(names)} would take" if names else ""
        said.append(f"Packets of Pods are {less} bytes smaller than those of their nodes{like}.")
    return said
