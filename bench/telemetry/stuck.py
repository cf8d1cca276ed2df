"""A check that the platform finds stuck gangs of real programs, and no others.

    python -m bench.telemetry.stuck                    each scenario three times, 35 minutes
    python -m bench.telemetry.stuck --each 1           once
    python -m bench.telemetry.stuck --scenario lock    only this one; again for several
    python -m bench.telemetry.stuck --record FILE      keep the telemetry for bench.telemetry.recorded_gangs

`kaji up` runs in a process of its own, with a policy of 2 and 4 minutes instead of 10 and 60. Each run has 8 processes
that take a step together every second, for 200 seconds. Then rank 5 of a guilty run waits for a lock, for a socket or
for a file, waits in the kernel where no signal reaches it (state D), spins, is stopped by a signal, or loses its
network; innocent runs evaluate, write a checkpoint, compile, load data, or pause below the limit. A run counts as
suspected or stuck once its status says so, without being asked.

As root, each member has a network of its own, in a network namespace that the benchmark makes for itself. Otherwise all
share that of the machine, and no rank loses its network. With `nice -n -10` all of it keeps its pace on a busy machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.kaji_up import installed_kaji_up
from tests.harness.waiting import wait_until
from tests.helpers.network.netns import LIBC, check
from tests.helpers.network.networks import ip, leave_for_a_network_of_ones_own

from bench.parts.common import CONSOLE, Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.telemetry.recorded_gangs import record

RANKS, GUILTY = 8, 5
TRAIN_SECONDS, EVENT_SECONDS, LONG_SECONDS, PAUSE_SECONDS = 200.0, 180.0, 420.0, 90.0
POLICY = {
    "security": {"allowRoot": True, "allowHostNetwork": True},  # as by default on one machine
    "stuck": {"batch": {"floor": "2m", "workingFloor": "4m"}},
}
BETWEEN_SECONDS = 12.0
"""Time between two starts, so that not all busy parts are at the same time."""
GUILTY_SECONDS = 1200.0
"""Time for which a guilty run is watched: training, a limit of 240 s, the look, and the telemetry of its time."""
INNOCENT_SECONDS = 640.0
"""Time for which an innocent run is watched: a verdict about its event comes up to four minutes late."""
LONG_RUN_SECONDS = 780.0
ENDED_SECONDS = 300.0
"""Longest wait for the end of all members on a busy machine."""
LOOK_SECONDS = 5.0
WEB_API = "192.0.2.1"
"""Address of the Web API in a network of the benchmark's own."""
NODE = "gpu-0"
SCENARIOS = {
    "lock": "waits for a lock",
    "socket": "waits for a socket",
    "poll": "polls for a file",
    "spin": "spins",
    "spin-lines": "spins over several lines",
    "kernel": "waits in the kernel, as for a file server that is gone",
    "stopped": "is stopped by a signal",
    "network": "loses its network",
}
"""Faults of rank 5, by the name of the scenario. A run with a fault is called guilty."""
INNOCENT = {
    "evaluation": "evaluates below the limit",
    "checkpoint": "rank 0 writes a checkpoint",
    "compilation": "one rank compiles",
    "compilation-first": "one rank compiles at the start",
    "data": "one rank loads data",
    "pause": "all wait below the limit",
    "quiet": "prints nothing, evaluates",
    "silent": "prints and does nothing",
    "trains": "trains",
    "evaluation-long": "evaluates beyond the limit",
    "compilation-long": "one rank compiles beyond the limit",
}
EXPECTED_SUSPECTED = ("evaluation-long", "compilation-long")
"""Healthy scenarios that look stuck until their stacks are compared."""
_WORSE = ("", "suspected", "stuck")


@dataclass
class Outcome:
    """The worst that was said of one run."""

    scenario: str
    run: str
    folder: Path
    began_at: float
    """Monotonic time of its submission."""
    verdict: str = ""
    """The verdict in the run's status: suspected, stuck, or nothing."""
    ranks: str = ""
    """Ranks for which the others seemed to wait."""
    after_seconds: dict[str, float] = field(default_factory=dict)
    """Time from the event until each verdict."""
    words: list[str] = field(default_factory=list)
    """Sentences of `kaji why` at the last verdict."""
    unexpected: str = ""
    """Why the result of this run is not used."""
    is_over: bool = False

    @property
    def is_guilty(self) -> bool:
        return self.scenario in SCENARIOS

    @property
    def is_found(self) -> bool:
        return self.verdict == "stuck"

    @property
    def watched_seconds(self) -> float:
        if self.is_guilty:
            return GUILTY_SECONDS
        return LONG_RUN_SECONDS if self.scenario in EXPECTED_SUSPECTED else INNOCENT_SECONDS


class Platform:
    """A running `kaji up`."""

    def __init__(self, home: Path, environment: Mapping[str, str], *, has_own_node: bool) -> None:
        self._environment = environment
        self._database = home / "data/history.db"
        self._options = ["--node-selector", f"kubernetes.io/hostname={NODE}"] if has_own_node else []
        told = json.loads((home / "data/kaji.json").read_text())
        self.url, self.token = told["url"], told["token"]

    def kaji(self, *words: str) -> None:
        command = [sys.executable, "-m", "kajitori.cli", *words]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def delete(self, run: str) -> None:
        """Delete a run. Its members may end later."""
        self._ask("DELETE", f"/v1/runs/default/{run}")

    def record(self, run: str, scenario: str, file: Path) -> None:
        """Append the telemetry of a run to a file."""
        record(self._database, self.get(f"/v1/runs/default/{run}")["uid"], scenario, file)

    def runs(self) -> list[str]:
        """Return the names of the runs that are there."""
        return [run["name"] for run in self.get("/v1/runs")["items"]]

    def _ask(self, method: str, path: str) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        asked = urllib.request.Request(self.url + path, headers=headers, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def submit(self, name: str, scenario: str, folder: Path) -> None:
        """Start a gang that plays a scenario. It has a folder of its own."""
        place = folder / name
        place.mkdir()
        times = map(str, (TRAIN_SECONDS, EVENT_SECONDS, LONG_SECONDS, PAUSE_SECONDS))
        program = [sys.executable, "-S", "-E", "-c", _START, str(folder), scenario, *times]
        options = ["--launcher", "torchrun", "-n", str(RANKS), "--cpus", "0.001", "-m", "64m", "--restarts", "0"]
        self.kaji("run", "-d", "-q", "--name", name, *options, *self._options, "-w", str(place), "host", *program)


_START = "import sys; folder = sys.argv.pop(1); sys.path[:0] = [folder, folder + '/site-packages']; import stuck_member"


def own_network() -> str:
    """Move this process into an empty network, and hide control groups from it. Returns why it cannot, else nothing."""
    if os.geteuid() != 0:
        return "not root"
    if missing := [tool for tool in ("ip", "nft") if shutil.which(tool) is None]:
        return f"{' and '.join(missing)} not found"
    try:
        leave_for_a_network_of_ones_own()
    except PermissionError as error:
        return f"network namespaces are not permitted: {error}"
    # Between control groups the priority of a process does not count, so members have none.
    check(LIBC.mount(b"none", b"/sys/fs/cgroup", b"tmpfs", 0, None))
    ip("link set lo up", f"addr add {WEB_API}/32 dev lo")
    return ""


@contextlib.contextmanager
def running_platform(
    home: Path,
    policy: Path,
    *,
    has_own_network: bool,
    node_program: Sequence[str] = (sys.executable, "-m", "kajitori.cli"),
    node_options: Sequence[str] = (),
) -> Iterator[Platform]:
    """Run `kaji up`, and for members with networks of their own `kaji node` in another process, by this program."""
    options = ["--policy", str(policy)]
    if has_own_network:
        options += ["--no-kubelet", "--nodes", "1", "--host", WEB_API, "--insecure-http", "--node-cidr-mask-size", "22"]
    with contextlib.ExitStack() as stack:
        environment = stack.enter_context(installed_kaji_up(home, *options))
        there = Platform(home, environment, has_own_node=has_own_network)
        if has_own_network:
            token = home / "token"
            token.write_text(there.token)
            words = ["node", "--name", NODE, "--data", str(home / "node")]
            words += ["--kubeconfig", str(home / "data/kubeconfig"), "--address", WEB_API, "--port", "0"]
            words += ["--pod-network", "namespace", "--max-pods", "900", "--log-level", "warning"]
            words += ["--report", there.url, "--report-token", str(token), "--insecure-http"]
            node = [*node_program, *words, *node_options]
            stack.enter_context(_process(node, environment, home / "node.log"))

        def is_ready() -> bool:
            nodes = {node["name"]: node["ready"] for node in there.get("/v1/nodes")["items"]}
            return nodes.get(NODE, False) if has_own_network else any(nodes.values())

        wait_until(is_ready, lambda: "\n".join(log.read_text() for log in home.glob("*log")))
        try:
            yield there
        finally:  # members outlive the processes that started them
            for run in there.runs():
                with contextlib.suppress(urllib.error.HTTPError):  # it has ended
                    there.delete(run)
            wait_until(lambda: not there.runs(), "the runs are deleted", seconds=ENDED_SECONDS, every=1.0)


@contextlib.contextmanager
def _process(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as file, subprocess.Popen(command, stderr=file, env=environment) as process:
        try:
            yield
        finally:
            process.terminate()


def cut_off(network: int) -> None:
    """Drop all packets in the network namespace with this inode, which must be that of a member. Only namespaces of
    this benchmark are in its /run/netns."""
    (name,) = (each.name for each in Path("/run/netns").iterdir() if each.stat().st_ino == network)
    assert network != Path("/proc/self/ns/net").stat().st_ino, "this is the network of the node"
    rules = "add table inet cut\n" + "".join(
        f"add chain inet cut {hook} {{ type filter hook {hook} priority 0; policy drop; }}\n"
        for hook in ("input", "output")
    )
    command = ["ip", "netns", "exec", name, "nft", "-f", "-"]
    subprocess.run(command, input=rules.encode(), check=True, timeout=60)


def look(platform: Platform, outcome: Outcome, recording: Path | None = None) -> None:
    """Note what the status of a run says now. Delete the run once nothing more is to be learned of it, and keep its
    telemetry in a file."""
    status, now = platform.get(f"/v1/runs/default/{outcome.run}")["status"], time.time()
    found = status.get("stuck") or {}
    verdict = found.get("verdict", "suspected") if found else ""
    if (cut := outcome.folder / "network").exists():
        cut_off(int(cut.read_text()))
        cut.unlink()
    if _WORSE.index(verdict) > _WORSE.index(outcome.verdict):
        outcome.words = platform.get(f"/v1/runs/default/{outcome.run}/why")["words"]
        event = float((outcome.folder / "event").read_text()) if (outcome.folder / "event").exists() else now
        outcome.verdict, outcome.after_seconds[verdict] = verdict, now - event
    outcome.ranks = found.get("ranks", outcome.ranks)
    if status["phase"] in ("Failed", "Succeeded"):
        outcome.unexpected = f"the run is {status['phase']}: {status.get('message', '')}"
    is_found = outcome.is_guilty and outcome.verdict == "stuck"
    is_watched = time.monotonic() - outcome.began_at < outcome.watched_seconds
    if outcome.unexpected or is_found or not is_watched:
        if not is_watched and not (outcome.folder / "event").exists() and outcome.scenario != "silent":
            outcome.unexpected = "the event of its scenario did not happen"
        if recording is not None:
            platform.record(outcome.run, outcome.scenario, recording)
        platform.delete(outcome.run)
        outcome.is_over = True


def watch(
    platform: Platform, scenarios: Sequence[str], each_times: int, folder: Path, recording: Path | None
) -> list[Outcome]:
    """Run each scenario `each_times` times, and return the outcome of each run."""
    outcomes: list[Outcome] = []
    waiting = [(scenario, number) for number in range(each_times) for scenario in scenarios]
    next_start = time.monotonic()
    while waiting or not all(each.is_over for each in outcomes):
        if waiting and time.monotonic() >= next_start:
            outcomes.append(_start(platform, *waiting.pop(0), folder))
            next_start += BETWEEN_SECONDS
        for each in outcomes:
            if not each.is_over:
                try:
                    look(platform, each, recording)
                except OSError as error:  # the machine is busy: it is looked at again
                    CONSOLE.print(f"{each.run}: {error}")
        time.sleep(LOOK_SECONDS)
    return outcomes


def _start(platform: Platform, scenario: str, number: int, folder: Path) -> Outcome:
    outcome = Outcome(scenario, f"{scenario}-{number}", folder / f"{scenario}-{number}", time.monotonic())
    platform.submit(outcome.run, scenario, folder)
    return outcome


@contextlib.contextmanager
def platform_for_members(*, has_own_network: bool) -> Iterator[tuple[Platform, Path]]:
    """Run the platform. Yields it, and a folder with the programs and libraries of members."""
    with tempfile.TemporaryDirectory(prefix="stuck") as text, tempfile.TemporaryDirectory(prefix="stuckhome") as home:
        folder = Path(text)
        (folder / "site-packages").mkdir()
        here = Path(__file__).parent
        shutil.copy(here / "stuck_collectives.py", folder / "site-packages/collectives.py")
        shutil.copy(here / "stuck_member.py", folder)
        (folder / "policy.yaml").write_text(json.dumps(POLICY))
        with running_platform(Path(home), folder / "policy.yaml", has_own_network=has_own_network) as platform:
            yield platform, folder


def print_matrix(outcomes: Sequence[Outcome], scenarios: Sequence[str], load: Sequence[float]) -> None:
    """Print a row for each scenario, and the words of the first run of each that was suspected."""
    rows = []
    for scenario in scenarios:
        ours = [each for each in outcomes if each.scenario == scenario and not each.unexpected]
        counted = Counter(each.verdict for each in ours)
        after = [
            f"{min(found):.0f}–{max(found):.0f}" if found else ""
            for verdict in ("suspected", "stuck")
            if (found := [each.after_seconds[verdict] for each in ours if verdict in each.after_seconds]) or True
        ]
        named = sum(each.ranks == str(GUILTY) for each in ours)
        figures = [str(counted[verdict]) for verdict in ("stuck", "suspected", "")]
        what = SCENARIOS.get(scenario) or INNOCENT[scenario]
        rows.append((what, *figures, f"{named} of {len(ours)}" if scenario in SCENARIOS else "", *after))
    title = f"8 processes each; load of the machine {min(load):.1f} to {max(load):.1f}"
    columns = ("", "stuck", "suspected only", "nothing", "rank 5 named", "s to suspicion", "s to stuck")
    print_table(title, columns, rows)
    told = set()
    for each in outcomes:
        if each.words and each.scenario not in told:
            told.add(each.scenario)
            CONSOLE.print(f"{each.run}: {each.verdict}; {' '.join(each.words)}", markup=False)
    for each in outcomes:
        if each.unexpected:
            CONSOLE.print(f"{each.run} is left out: {each.unexpected}")


def main() -> int:
    """Print the confusion matrix; return 0 if every guilty run was found and every innocent one left alone."""
    parser = option_parser(__doc__)
    parser.add_argument("--each", type=int, default=3, help="how often each scenario runs")
    parser.add_argument("--scenario", action="append", choices=[*SCENARIOS, *INNOCENT], help="only this one")
    parser.add_argument("--record", type=Path, metavar="FILE", help="append the telemetry of each run to this file")
    parser.add_argument("--one-network", action="store_true", help="all members share a network; they start faster")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all runs are deleted
    scenarios = list(options.scenario or (*SCENARIOS, *INNOCENT))
    lacking = own_network() or ("--one-network" if options.one_network else "")
    if lacking and "network" in scenarios:
        scenarios.remove("network")
        CONSOLE.print(f"The rank that loses its network is left out: {lacking}.")
    load = [os.getloadavg()[0]]
    with platform_for_members(has_own_network=not lacking) as (platform, folder):
        outcomes = watch(platform, scenarios, options.each, folder, options.record)
    load.append(os.getloadavg()[0])
    print_matrix(outcomes, scenarios, load)
    valid = [each for each in outcomes if not each.unexpected]
    guilty = [each for each in valid if each.is_guilty]
    innocent = [each for each in valid if not each.is_guilty]
    return print_limits(
        [
            Limit("runs that are left out", len(outcomes) - len(valid), most=0),
            Limit("guilty runs that were found", sum(each.is_found for each in guilty), least=len(guilty)),
            Limit("innocent runs that were called stuck", sum(each.verdict == "stuck" for each in innocent), most=0),
            Limit(
                "innocent runs that were suspected below their limit",
                sum(each.verdict != "" for each in innocent if each.scenario not in EXPECTED_SUSPECTED),
                most=0,
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
