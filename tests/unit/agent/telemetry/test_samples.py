"""Samples of members: control groups, processes, files of figures, and what is reported of them."""

from __future__ import annotations

import json
import os
import threading
import time
from array import array
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.core.telemetry.test_training import event, simple

from kajitori.agent.telemetry import figures as files
from kajitori.agent.telemetry import pods as pod_members
from kajitori.agent.telemetry import process_files, processes
from kajitori.agent.telemetry.figures import MAX_EVENT_FILES, Figures
from kajitori.agent.telemetry.members import LocalMember
from kajitori.agent.telemetry.pods import PodMembers, groups_of
from kajitori.agent.telemetry.processes import Processes
from kajitori.agent.telemetry.samples import KEPT_ENDED_SECONDS, MemberSamples
from kajitori.core.telemetry.quantities import GPU_NAMES, MEMBER_NAMES
from kajitori.core.telemetry.report import SAVED_SECONDS, Answer, Question, Report, named_values
from kajitori.core.traffic.totals import Pod


class Clock:
    def __init__(self, now: float = 1_200_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Members:
    """A source whose members a test changes."""

    def __init__(self, *members: LocalMember) -> None:
        self.found = list(members)

    def members(self) -> list[LocalMember]:
        return self.found


class Gpus:
    """GPUs with one figure, which a test changes."""

    def __init__(self, **used: float) -> None:
        self.used = used

    def read(self) -> Mapping[str, Mapping[str, float]]:
        return {name: {"gpu.used": percent} for name, percent in self.used.items()}

    def devices(self) -> list[tuple[str]]:
        return [(name,) for name in self.used]

    def processes(self) -> Mapping[int, str]:
        return {}

    def aliases(self) -> Mapping[str, str]:
        return {}


def group(folder: Path, *, seconds: float = 1.0, used: int = 100, inactive: int = 0) -> str:
    """Write a control group of version 2."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, text in {
        "memory.current": f"{used}",
        "memory.stat": f"anon 5\ninactive_file {inactive}\n",
        "memory.peak": f"{used + 5}",
        "memory.max": "max",
        "cpu.stat": f"usage_usec {int(seconds * 1e6)}\nuser_usec 1\n",
        "io.stat": "8:0 rbytes=1000 wbytes=50 rios=1\n8:16 rbytes=1 wbytes=2\n",
    }.items():
        (folder / name).write_text(text)
    return str(folder)


def member(*groups: str, uid: str = "u1", log: Path | None = None, gpus: tuple[str, ...] = ()) -> LocalMember:
    return LocalMember("team", "bert-1-0", uid, list, groups, log, gpus)


def shown(report: Report) -> list[dict[str, float]]:
    return [dict(named_values(report.member_names, each.values)) for each in report.minutes]


def rows(answer: Answer) -> list[dict[str, float]]:
    """Return the rows of the first member of an answer."""
    (series,) = answer.members
    width = 4 * len(MEMBER_NAMES)
    found = [series.values[place : place + width] for place in range(0, len(series.values), width)]
    return [dict(named_values(MEMBER_NAMES, row)) for row in found]


def test_a_group_of_version_2_is_read(tmp_path: Path) -> None:
    found = Processes().read(member(group(tmp_path, seconds=2.5, used=100, inactive=30)))
    assert found == {
        "processes": 0.0,
        "memory.used": 70.0,
        "memory.peak": 105.0,
        "cpu.used": 2.5,
        "disk.read": 1001.0,
        "disk.written": 52.0,
    }


def test_groups_of_version_1_are_read_together(tmp_path: Path) -> None:
    """Each hierarchy counts something else; a limit near 2**63 is none."""
    for name, text in {
        "memory/memory.usage_in_bytes": "100",
        "memory/memory.stat": "total_inactive_file 40\n",
        "memory/memory.max_usage_in_bytes": "120",
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "cpuacct/cpuacct.usage": "3000000000",
        "blkio/blkio.throttle.io_service_bytes_recursive": "8:0 Read 7\n8:0 Write 8\n8:0 Total 15\nTotal 15\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = Processes().read(member(*(str(tmp_path / name) for name in ("memory", "cpuacct", "blkio"))))
    assert "memory.limit" not in found
    known = ("memory.used", "memory.peak", "cpu.used", "disk.read", "disk.written")
    assert [found[name] for name in known] == [60, 120, 3, 7, 8]


def test_without_groups_the_processes_are_read() -> None:
    own = LocalMember("team", "bert-1-0", "u1", lambda: [os.getpid()])
    found = Processes().read(own)
    assert found["cpu.used"] > 0
    assert found["memory.peak"] == found["memory.used"] > 1 << 20
    assert {"disk.read", "disk.written"} <= found.keys()


def test_bytes_of_network_file_systems_are_read_beside_control_groups(tmp_path: Path) -> None:
    """Control groups count block devices only: a checkpoint that goes to a file server is in /proc/PID/io alone."""
    groups, proc = group(tmp_path / "group"), tmp_path / "proc"

    def storage(moved: dict[int, tuple[int, int]]) -> float:
        for pid, (read, written) in moved.items():
            (proc / str(pid)).mkdir(parents=True, exist_ok=True)
            text = f"rchar: 9\nwchar: 9\nread_bytes: {read}\nwrite_bytes: {written}\ncancelled_write_bytes: 7\n"
            (proc / str(pid) / "io").write_text(text)
        found = processes_of.read(LocalMember("team", "bert-1-0", "u1", lambda: list(moved), (groups,)))
        assert (found["disk.read"], found["disk.written"]) == (1001.0, 52.0)
        return found["storage.moved"]

    processes_of = Processes(proc)
    assert storage({70: (4096, 0), 71: (0, 100)}) == 4196.0
    assert storage({71: (0, 1100), 72: (10, 0)}) == 5206.0, "what an ended process moved is not taken back"


def test_minutes_are_reported_from_four_samples(tmp_path: Path) -> None:
    clock = Clock()
    samples = MemberSamples(Members(member(str(tmp_path))), clock=clock)
    for number in range(9):
        group(tmp_path, seconds=10.0 + number * 7.5, used=100 + number)
        samples.sample(clock.now)
        clock.now += 15
    first = 1_200_000 // 60
    made = shown(samples.report((first, first + 1)))
    assert [(each["cpu.used"], each["memory.used"]) for each in made] == [(0.5, 102.5), (0.5, 106.5)]
    assert samples.report((first + 5,)).minutes == ()


def test_a_fresh_row_is_asked_for_and_not_kept(tmp_path: Path) -> None:
    clock = Clock()
    samples = MemberSamples(Members(member(group(tmp_path, seconds=10.0))), clock=clock)
    samples.sample(clock.now)
    clock.now += 5
    group(tmp_path, seconds=20.0)
    question = Question("q", ("u1", "nobody"), since=clock.now - 100, fresh=True)
    for _ in range(2):
        assert [row.get("cpu.used") for row in rows(samples.answer(question))] == [None, 2.0]


def test_a_member_that_was_just_started_answers_at_once(tmp_path: Path) -> None:
    clock, source = Clock(), Members()
    samples = MemberSamples(source, clock=clock)
    samples.sample(clock.now)
    source.found.append(member(group(tmp_path)))
    clock.now += 1
    assert [row["memory.used"] for row in rows(samples.answer(Question("q", ("u1",), 0.0, True)))] == [100.0]


def test_an_ended_member_is_kept_until_its_last_minute_is_reported(tmp_path: Path) -> None:
    clock, source = Clock(), Members(member(group(tmp_path)))
    samples = MemberSamples(source, clock=clock)
    samples.sample(clock.now)
    minute = int(clock.now // 60) - 1  # the sample is the last of its minute
    source.found.clear()
    clock.now += KEPT_ENDED_SECONDS
    samples.sample(clock.now)
    assert len(samples.report((minute,)).minutes) == 1
    clock.now += 15
    samples.sample(clock.now)
    assert samples.report((minute,)).minutes == ()


def test_the_last_figures_of_an_ended_program_are_reported(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(line(loss=2.0))
    clock, source = Clock(1_200_030.0), Members(member(group(tmp_path), log=log))
    samples = MemberSamples(source, clock=clock)
    samples.sample(clock.now)
    with log.open("ab") as file:
        file.write(line(loss=1.0))
    source.found.clear()
    clock.now += 15
    samples.sample(clock.now)
    (minute,) = samples.report((int(clock.now // 60),)).minutes
    assert minute.training == {"loss": 1.0}


def test_the_last_checkpoint_of_an_ended_program_is_reported(tmp_path: Path) -> None:
    """It is reported again and again for ten minutes, so that a server that is killed meanwhile costs nothing."""
    log = tmp_path / "0.log"
    log.write_bytes(line(loss=2.0))
    clock, source = Clock(1_200_030.0), Members(member(group(tmp_path), log=log))
    samples = MemberSamples(source, clock=clock)
    samples.sample(clock.now)
    with log.open("ab") as file:
        file.write(line(checkpoint_seconds=4.5, time=1_200_040.0))
    source.found.clear()
    clock.now += 15
    samples.sample(clock.now)
    (saved,) = samples.report(()).saved
    assert (saved.uid, saved.since, saved.until) == ("u1", 1_200_035.5, 1_200_040.0)
    clock.now += SAVED_SECONDS
    assert samples.report(()).saved == ()


def test_each_gpu_of_a_member_has_its_own_values(tmp_path: Path) -> None:
    clock, gpus = Clock(), Gpus(A=10.0, B=90.0, C=50.0)
    samples = MemberSamples(Members(member(group(tmp_path), gpus=("B", "A", "gone"))), gpus, clock)
    for _ in range(4):
        clock.now += 15
        samples.sample(clock.now)
    (minute,) = samples.report(((1_200_000 // 60),)).minutes
    values = array("f", minute.gpu_values)
    used = [values[place * len(GPU_NAMES)] for place in range(3)]
    assert (minute.gpus, used[:2], used[2] != used[2]) == (("B", "A", "gone"), [90.0, 10.0], True)


def line(**figures: float) -> bytes:
    return b"2026-11-23T10:00:00.000000000Z stdout F kaji-metrics: " + json.dumps(figures).encode() + b"\n"


def test_figures_are_read_from_the_log_across_its_rotation(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_bytes(b'2026-11-23T10:00:00Z stdout F hello kaji-metrics: {"no": 1}\n' + line(loss=3.0))
    figures, watched = Figures(), member(log=log)
    figures.read(watched)
    assert figures.training.sample(1.0) == {"loss": 3.0}
    with log.open("ab") as file:
        file.write(line(loss=2.0, step=1))
    log.rename(tmp_path / "0.log.1")
    log.write_bytes(line(loss=1.0))
    figures.read(watched)
    assert figures.training.sample(2.0) == {"loss": 1.0, "step": 1.0}
    figures.close()


def test_the_newest_event_files_of_a_folder_are_read(tmp_path: Path) -> None:
    """A folder on a volume keeps the files of all attempts; their names begin with the time."""
    for number in range(MAX_EVENT_FILES + 5):
        (tmp_path / f"events.out.tfevents.{number:03}").write_bytes(
            event(number, simple("loss", number), at=time.time())
        )
    figures = Figures()
    watched = LocalMember("team", "bert-1-0", "u1", lambda: [os.getpid()], tensorboard=str(tmp_path))
    figures.read(watched)
    assert figures.training.sample(1.0)["loss"] == MAX_EVENT_FILES + 4
    (tmp_path / "events.out.tfevents.900").write_bytes(event(1, simple("loss", 0.5), at=time.time()))
    figures.read(watched)
    assert figures.training.sample(2.0)["loss"] == 0.5
    (tmp_path / "events.out.tfevents.901").write_bytes(event(9, simple("loss", 0.1), at=time.time() - 90 * 86400))
    figures.read(watched)
    assert "loss" not in figures.training.sample(3.0), "an earlier attempt wrote it"
    figures.close()


def test_event_files_on_a_file_server_that_hangs_are_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures of the node's other members do not wait for it, and neither does the end of this one."""
    served, names = threading.Event(), files._event_files

    def slow(pids: list[int], folder: str) -> list[str]:
        served.wait()
        return names(pids, folder)

    monkeypatch.setattr(files, "_event_files", slow)
    monkeypatch.setattr(files, "EVENTS_SECONDS", 0.02)
    (tmp_path / "events.out.tfevents.1").write_bytes(event(1, simple("loss", 0.5), at=time.time()))

    def hanging_calls() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "background call"}

    before = hanging_calls()
    figures = Figures()
    watched = LocalMember("team", "bert-1-0", "u1", lambda: [os.getpid()], tensorboard=str(tmp_path))
    figures.read(watched)
    figures.read(watched)
    assert "loss" not in figures.training.sample(1.0)
    assert len(hanging_calls() - before) == 1, "one thread hangs, not one for each look"
    served.set()
    while figures._reading_events is not None:
        figures.read(watched)
    assert figures.training.sample(2.0)["loss"] == 0.5
    figures.close()


def test_a_program_in_a_container_names_its_folder_in_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent sees no annotations of Pods."""
    written = {"KAJI_METRICS": str(tmp_path / "metrics"), "KAJI_TENSORBOARD": str(tmp_path)}
    monkeypatch.setattr(files, "variable", lambda _, name: written.get(name, ""))
    (tmp_path / "events.out.tfevents.1").write_bytes(event(1, simple("loss", 0.5), at=time.time()))
    figures = Figures()
    figures.read(LocalMember("team", "bert-1-0", "u1", lambda: [os.getpid()]))
    assert figures.training.sample(1.0)["loss"] == 0.5
    figures.close()


def test_no_path_leads_out_of_a_programs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root of a container is not the agent's."""
    monkeypatch.setattr(os.path, "samefile", lambda *_: False)
    with pytest.raises(PermissionError, match="leads upwards"):
        process_files.open_own(os.getpid(), "/proc/../proc/version")


def test_processor_time_of_ended_processes_still_counts() -> None:
    """A number may belong to another process later."""
    totals = processes._Totals()
    assert [totals.add(each) for each in ({1: 5.0, 2: 1.0}, {1: 6.0}, {1: 2.0}, {})] == [6.0, 7.0, 9.0, 9.0]


def test_the_program_comes_before_other_processes_of_its_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the one with $KAJI_METRICS; the pause process is left out."""
    (tmp_path / "cgroup.procs").write_text("10\n11\n12\n")
    monkeypatch.setattr(pod_members, "_command_line", {10: "pause", 11: "sidecar", 12: "python"}.__getitem__)
    assert pod_members.program_pids(str(tmp_path), lambda pid, name: "/m" if pid == 12 else "") == [12, 11]
    assert pod_members.program_pids(str(tmp_path), lambda pid, name: "") == [10, 11, 12]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "foreign"])
def test_only_own_regular_files_are_read(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may name any path. The agent has more rights than the program."""
    path = tmp_path / "metrics"
    if kind == "link":
        path.symlink_to("/proc/version")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b'{"secret": 1}\n')
        if os.geteuid() != 0:
            pytest.skip("only root can give files to other users: run as root")
        os.chown(path, 12345, 12345)
    monkeypatch.setattr("kajitori.agent.telemetry.figures.variable", lambda pid, name: str(path))
    figures = Figures()
    figures.read(LocalMember("team", "bert-1-0", "u1", lambda: [os.getpid()]))
    assert figures.training.sample(1.0) == {}


def test_members_of_any_kubelet_are_found_by_the_uids_of_their_pods(tmp_path: Path) -> None:
    cgroups = tmp_path / "sys/fs/cgroup"
    below = cgroups / "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice"
    (below / "container").mkdir(parents=True)
    (cgroups / "cgroup.controllers").write_text("")
    (below / "cgroup.procs").write_text("")
    (below / "container/cgroup.procs").write_text(f"{os.getpid()}\n")
    logs = tmp_path / "var/log/pods/team_bert-1-0_a-b/main"
    logs.mkdir(parents=True)
    for number in (0, 10, 9):
        (logs / f"{number}.log").touch()
    pods = {
        "a-b": Pod(uid="a-b", namespace="team", name="bert-1-0", run="bert", run_uid="r"),
        "c": Pod(uid="c", namespace="team", name="other"),
        "d": Pod(uid="d", namespace="team", name="bert-1-1", run="bert", run_uid="r"),
    }

    class Source:
        def pods(self) -> Mapping[str, Pod]:
            return pods

    (found,) = PodMembers(Source(), Gpus(), tmp_path).members()
    assert (found.uid, found.log, found.pids()) == ("a-b", logs / "10.log", [os.getpid()])
    assert found.cgroups == (str(below),) == groups_of(cgroups, "a-b")
