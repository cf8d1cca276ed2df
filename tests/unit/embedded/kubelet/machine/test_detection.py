# ruff: noqa: ASYNC221, ASYNC240
"""Detecting by trial what the machine allows, and using it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.embedded.kubelet.conftest import BOUND_SECONDS, Bench

from kajitori.embedded.kubelet.machine import cgroup_layout, detection
from kajitori.embedded.kubelet.machine.cgroup_layout import CgroupLayout

ROOT = os.geteuid() == 0


@pytest.fixture
def layout() -> Iterator[CgroupLayout]:
    layout = detection.detect_cgroups(f"kajitori-test-{os.getpid()}")
    yield layout
    layout.remove()
    assert not any(hierarchy.path.exists() for hierarchy in layout.hierarchies)


async def test_the_kernel_limits_a_containers_memory(bench: Bench, layout: CgroupLayout) -> None:
    """A shell survives its child's death and would exit with 0, but the container ends as OOM-killed. Its control
    groups are removed."""
    if not layout.limits_memory:
        pytest.skip(f"no memory control group: {layout.why_not}")
    container = bench.container()
    groups = layout.for_container("c", cpu_request_millis=100, cpu_limit_millis=1000, memory_limit_bytes=64 << 20)
    hog = f"{sys.executable} -I -S -c 'a = bytearray(200 << 20)'; exit 0"
    await container.launch(bench.shell(hog, memory_limit_bytes=64 << 20, cgroups=groups))
    await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)
    assert container.state.oom_killed
    assert container.state.exit_code == 137
    assert 32 << 20 < container.state.peak_bytes <= 64 << 20
    assert not any(Path(group.path).exists() for group in groups)


async def test_a_container_within_its_limit_runs_and_has_a_peak(bench: Bench, layout: CgroupLayout) -> None:
    container = bench.container()
    groups = layout.for_container("c", cpu_request_millis=100, cpu_limit_millis=0, memory_limit_bytes=64 << 20)
    await container.launch(bench.python("a = bytearray(16 << 20)", memory_limit_bytes=64 << 20, cgroups=groups))
    await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)
    assert (container.state.exit_code, container.state.oom_killed) == (0, False)
    assert 16 << 20 <= container.state.peak_bytes < 64 << 20


async def test_the_page_cache_does_not_count_as_needed_memory(bench: Bench, layout: CgroupLayout) -> None:
    """The kernel counts pages of files and drops them when it needs room, so they cause no kill."""
    if not layout.limits_memory:
        pytest.skip(f"no memory control group: {layout.why_not}")
    container = bench.container()
    groups = layout.for_container("c", cpu_request_millis=100, cpu_limit_millis=0, memory_limit_bytes=64 << 20)
    script = f"p = {str(bench.root / 'data')!r}; open(p, 'wb').write(bytes(24 << 20)); open(p, 'rb').read(1 << 20)"
    await container.launch(bench.python(script, memory_limit_bytes=64 << 20, cgroups=groups))
    await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)
    assert 0 < container.state.peak_bytes < 44 << 20


async def test_the_kernel_limits_a_containers_processes(bench: Bench, layout: CgroupLayout) -> None:
    """A fork bomb is limited, threads included, without an effect on its neighbours."""
    if not any("pids" in hierarchy.controllers for hierarchy in layout.hierarchies):
        pytest.skip(f"no control group for processes: {layout.why_not}")
    container = bench.container()
    groups = layout.for_container(
        "c", cpu_request_millis=100, cpu_limit_millis=0, memory_limit_bytes=0, max_processes=8
    )
    script = (
        "import os, signal\n"
        "made = []\n"
        "try:\n"
        "    for _ in range(50):\n"
        "        made.append(os.fork())\n"
        "        if not made[-1]: signal.pause()\n"
        "except BlockingIOError:\n"
        "    print(len(made), 'were made', flush=True)\n"
    )
    await container.launch(bench.python(script, cgroups=groups))
    await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)
    assert bench.text() == "7 were made\n"
    assert not any(Path(group.path).exists() for group in groups)


def test_the_limit_of_processes_follows_the_machine(tmp_path: Path) -> None:
    """The smaller of process and thread limits; 0 if the kernel does not tell."""
    assert detection.max_processes(tmp_path) == 0
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/pid_max").write_text("32768\n")
    assert detection.max_processes(tmp_path) == 32768
    (tmp_path / "sys/kernel/threads-max").write_text("9000\n")
    assert detection.max_processes(tmp_path) == 9000


def shrink_machine(layout: CgroupLayout, size_bytes: int) -> None:
    """Limit the memory of the group above all containers, as on a machine that is nearly full."""
    for hierarchy in layout.hierarchies:
        if "memory" in hierarchy.controllers:
            name = "memory.max" if hierarchy.version == 2 else "memory.limit_in_bytes"
            (hierarchy.path / name).write_text(str(size_bytes))


@pytest.mark.parametrize(("own", "around", "within"), [(64, 256, False), (256, 64, True)])
async def test_a_kill_by_the_machine_differs_from_one_by_the_own_limit(
    bench: Bench, layout: CgroupLayout, own: int, around: int, within: bool
) -> None:
    """The kernel's count of kills is the same for both."""
    if not layout.limits_memory:
        pytest.skip(f"no memory control group: {layout.why_not}")
    shrink_machine(layout, around << 20)
    container = bench.container()
    groups = layout.for_container("c", cpu_request_millis=100, cpu_limit_millis=0, memory_limit_bytes=own << 20)
    await container.launch(bench.python("a = bytearray(160 << 20)", memory_limit_bytes=own << 20, cgroups=groups))
    await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)
    assert (container.state.oom_killed, container.state.within_limit) == (True, within)


def fake_machine(tmp_path: Path, own: str, mountinfo: str) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(own)
    (tmp_path / "proc/self/mountinfo").write_text(mountinfo.replace("ROOT", str(tmp_path)))
    return tmp_path / "proc"


def fake_group(path: Path, offered: str, handed_on: str) -> None:
    path.mkdir(parents=True)
    (path / "cgroup.controllers").write_text(offered)
    (path / "cgroup.subtree_control").write_text(handed_on)
    (path / "cgroup.procs").write_text("1\n2\n")


UNIFIED = "31 23 0:28 / ROOT/cg rw - cgroup2 cgroup2 rw\n"


def test_with_cgroups_v2_the_kubelets_own_group_is_divided(tmp_path: Path) -> None:
    """If its controllers are delegated."""
    own = tmp_path / "cg/me.service"
    fake_group(own, "cpu memory pids", "cpu memory")
    fake_group(own / "kaji", "cpu memory", "cpu memory")
    layout = cgroup_layout.detect("kaji", lambda path: True, fake_machine(tmp_path, "0::/me.service\n", UNIFIED))
    assert layout.limits_memory
    [leaf] = layout.for_container("c1", cpu_request_millis=2000, cpu_limit_millis=4000, memory_limit_bytes=1024)
    assert leaf.path == str(own / "kaji/c1")
    assert ("memory.max", "1024", True) in leaf.writes
    assert ("cpu.max", "400000 100000", False) in leaf.writes


def test_with_cgroups_v2_a_delegated_parent_group_is_used(tmp_path: Path) -> None:
    """If the kubelet's own group has no controllers, the parent may have some: systemd delegates it to a user."""
    slice_ = tmp_path / "cg/app.slice"
    fake_group(slice_, "cpu memory", "cpu memory")
    fake_group(slice_ / "me.service", "", "")
    fake_group(slice_ / "kaji", "cpu memory", "cpu memory")
    proc = fake_machine(tmp_path, "0::/app.slice/me.service\n", UNIFIED)
    layout = cgroup_layout.detect("kaji", lambda path: True, proc)
    assert layout.limits_memory
    assert [hierarchy.path for hierarchy in layout.hierarchies] == [slice_ / "kaji"]
    assert not (slice_ / "me.service/kaji").exists()


def test_with_cgroups_v2_the_trial_uses_a_group_below(tmp_path: Path) -> None:
    """The kernel lets no process into a group that delegates controllers, so the trial uses a group below."""

    def as_the_kernel(path: Path) -> bool:
        control = path / "cgroup.subtree_control"
        return not (control.exists() and control.read_text().split())

    own = tmp_path / "cg/me.service"
    fake_group(own, "cpu memory pids", "cpu memory")
    fake_group(own / "kaji", "cpu memory", "cpu memory")
    layout = cgroup_layout.detect("kaji", as_the_kernel, fake_machine(tmp_path, "0::/me.service\n", UNIFIED))
    assert layout.limits_memory, layout.why_not
    assert not (own / "kaji" / cgroup_layout.TRIAL).exists()


def test_machine_without_control_groups(tmp_path: Path) -> None:
    layout = cgroup_layout.detect("kaji", lambda path: True, fake_machine(tmp_path, "", ""))
    assert not layout.limits_memory
    assert layout.why_not


def test_a_group_that_no_process_may_enter_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "cg/memory/me").mkdir(parents=True)
    proc = fake_machine(tmp_path, "4:memory:/me\n", "35 31 0:32 / ROOT/cg/memory rw - cgroup cgroup rw,memory\n")
    layout = cgroup_layout.detect("kaji", lambda path: False, proc)
    assert layout.hierarchies == ()
    assert not (tmp_path / "cg/memory/me/kaji").exists()


def test_gpus_are_detected_or_overridden() -> None:
    """Real GPUs have UUIDs; an override limits their number, or invents GPUs if there are none."""
    listing = "GPU-aa, NVIDIA H100 80GB HBM3, 81559\nGPU-bb, NVIDIA H100 80GB HBM3, 81559\n"
    found = detection.detect_gpus(run=lambda: listing)
    assert [(gpu.identifier, gpu.product) for gpu in found] == [
        ("GPU-aa", "NVIDIA-H100-80GB-HBM3"),
        ("GPU-bb", "NVIDIA-H100-80GB-HBM3"),
    ]
    assert len(detection.detect_gpus(1, run=lambda: listing)) == 1

    def missing() -> str:
        raise FileNotFoundError("nvidia-smi")

    assert detection.detect_gpus(run=missing) == ()
    assert [gpu.identifier for gpu in detection.detect_gpus(2, run=missing)] == ["0", "1"]


@pytest.fixture
def ability(tmp_path: Path) -> detection.MountAbility:
    ability = detection.try_mounts(tmp_path / "probe/root")
    if not ability.possible:
        pytest.skip(ability.why_not)
    return ability


def namespace(
    tmp_path: Path, ability: detection.MountAbility, *mounts: tuple[str, str, str, bool]
) -> dict[str, object]:
    (tmp_path / "scratch").mkdir(exist_ok=True)
    return {
        "user_namespace": ability.user_namespace,
        "scratch": str(tmp_path / "scratch"),
        "mounts": [
            {"source": source, "sub_path": sub, "target": target, "read_only": read_only}
            for source, sub, target, read_only in mounts
        ],
    }


async def test_volumes_appear_at_their_paths(bench: Bench, tmp_path: Path, ability: detection.MountAbility) -> None:
    """Volumes also appear at paths that the machine does not have and does not get; read-only is kept."""
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "f").write_text("content\n")
    top, deep = f"/kajitori-test-{os.getpid()}", f"/mnt/kajitori-test-{os.getpid()}/deep"
    container = bench.container()
    script = f"cat {top}/f {deep}/f; echo x > {deep}/g; echo y > {top}/g && echo written; ls /etc/passwd"
    await container.launch(
        bench.shell(
            script,
            mount_namespace=namespace(tmp_path, ability, (str(volume), "", top, False), (str(volume), "", deep, True)),
        )
    )
    await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)
    text = bench.text()
    assert text.count("content\n") == 2
    assert "Read-only file system" in text
    assert "written\n" in text
    assert (volume / "g").read_text() == "y\n"
    assert not Path(top).exists()
    assert not Path(deep).exists()
    assert subprocess.run(["grep", "-c", str(tmp_path), "/proc/self/mounts"], capture_output=True).stdout == b"0\n"


async def test_sub_path_cannot_leave_the_volume(bench: Bench, tmp_path: Path, ability: detection.MountAbility) -> None:
    """`subPath` does not follow a symlink out of the volume."""
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    volume.mkdir()
    outside.mkdir()
    (volume / "escape").symlink_to(outside)
    container = bench.container()
    target = str(tmp_path / "here")
    state = await container.launch(
        bench.shell("true", mount_namespace=namespace(tmp_path, ability, (str(volume), "escape", target, False)))
    )
    assert state.status == "failed"
    assert not list(outside.iterdir())


async def test_a_missing_sub_path_is_created(bench: Bench, tmp_path: Path, ability: detection.MountAbility) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    container = bench.container()
    target = str(tmp_path / "here")
    await container.launch(
        bench.shell(
            f"echo x > {target}/f",
            mount_namespace=namespace(tmp_path, ability, (str(volume), "a/b", target, False)),
        )
    )
    await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)
    assert (volume / "a/b/f").read_text() == "x\n"


async def test_exec_sees_the_same_files(bench: Bench, tmp_path: Path, ability: detection.MountAbility) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    top = f"/kajitori-test-{os.getpid()}"
    container = bench.container()
    await container.launch(
        bench.shell("sleep 1000", mount_namespace=namespace(tmp_path, ability, (str(volume), "", top, False)))
    )
    null = os.open(os.devnull, os.O_RDWR)
    execution = await container.execute(["touch", f"{top}/made"], (null, null, null))
    os.close(null)
    assert await asyncio.wait_for(execution.wait(), BOUND_SECONDS) == 0
    execution.close()
    assert (volume / "made").exists()
