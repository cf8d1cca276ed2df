"""A container whose shim has it run by an engine."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kajitori.embedded.kubelet.containers.container import Container
from kajitori.embedded.kubelet.containers.launch import EngineContainer, Launch
from kajitori.embedded.kubelet.engine.client import EngineClient, EngineVersion
from kajitori.embedded.kubelet.shim import main as shim

from ..conftest import Bench, alive, until
from ..fake_engine import ID, FakeEngine


@pytest.fixture
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[FakeEngine]:
    # The path of a Unix socket holds 107 bytes.
    with tempfile.TemporaryDirectory() as folder:
        engine = FakeEngine(Path(folder) / "s", *getattr(request, "param", ()))
        await engine.start()
        yield engine
        await engine.end()


def launch(bench: Bench, engine: FakeEngine, *command: str, stdin: bool = False, api: str = "") -> Launch:
    body = {"Image": "a:1", "Cmd": list(command)}
    described = EngineContainer(str(engine.socket), "podman", "one", body, api, f"{api}/containers/create")
    return Launch(argv=(), environment={}, working_dir="/", log_path=bench.log(), engine=described, stdin=stdin)


@pytest.mark.parametrize(
    ("engine", "api"),
    [(("1.41", "1.12"), "/v1.41"), (("1.52", "1.44"), "/v1.44"), (("1.60", "1.50"), "/v1.50")],
    ids=["docker-20.10", "docker-29", "a-later-docker"],
    indirect=["engine"],
)
async def test_the_engine_runs_the_program_and_the_shim_keeps_its_end(
    engine: FakeEngine, bench: Bench, api: str
) -> None:
    """All requests are in the version of the API that both sides know."""
    found = await EngineClient(str(engine.socket)).version()
    assert found == EngineVersion("docker", "9.1", api)
    container = bench.container()
    command = ("sh", "-c", "echo out; echo wrong >&2; exit 3")
    state = await container.launch(launch(bench, engine, *command, api=api))
    await until(container.ended.is_set)
    assert (container.state.status, container.state.exit_code) == (shim.EXITED, 3)
    assert (container.state.container_uri, container.state.image_id) == (f"podman://{ID}", "sha256:1")
    assert state.shim_pid and not engine.containers, "an ended container is removed"
    lines = {tuple(line.split(" ")[1:4]) for line in bench.log().read_text().splitlines()}
    assert lines == {("stdout", "F", "out"), ("stderr", "F", "wrong")}


async def test_a_program_that_does_not_exist_leaves_no_container(engine: FakeEngine, bench: Bench) -> None:
    state = await bench.container().launch(launch(bench, engine, "/no/such/program"))
    assert (state.status, state.exit_code) == (shim.FAILED, 127)
    assert "/no/such/program" in state.message and not engine.containers


async def test_a_container_outlives_its_kubelet_and_a_broken_connection(engine: FakeEngine, bench: Bench) -> None:
    """The next kubelet adopts it, attached clients type into it, and it is asked to stop."""
    first = bench.container()
    await first.launch(
        launch(bench, engine, "sh", "-c", "trap 'exit 5' TERM; while read x; do echo $x; done", stdin=True)
    )
    first.close()
    await engine.stop()
    await engine.start()
    second = Container(first.directory, first.container_id)
    bench.made.append(second)
    assert await second.adopt() and second.state.running
    await until(lambda: b"engine was lost" in bench.log().read_bytes(), "the shim is connected again")
    read, write = os.pipe()
    attachment = await second.attach((write, write))
    os.write(attachment.stdin, b"typed\n")
    await until(lambda: "typed" in bench.text())
    for fd in (read, write, attachment.stdin):
        os.close(fd)
    attachment.close()
    await second.stop(30)
    await second.close_stdin()
    await until(second.ended.is_set)
    assert second.state.exit_code in (0, 5) and not engine.containers


async def test_the_log_says_that_output_is_missing_if_the_container_ends_without_its_engine(
    engine: FakeEngine, bench: Bench
) -> None:
    """Docker stops its containers when it is restarted, and they may say something then."""
    container = bench.container()
    await container.launch(launch(bench, engine, "sleep", "1000"))
    await engine.stop()
    (running,) = engine.containers.values()
    assert running.process is not None
    running.process.terminate()
    await until(running.has_ended.is_set)
    await engine.start()
    await until(container.ended.is_set)
    assert container.state.exit_code == 143 and "engine was lost" in bench.text()


async def test_a_container_whose_shim_was_killed_is_removed(engine: FakeEngine, bench: Bench) -> None:
    container = bench.container()
    state = await container.launch(launch(bench, engine, "sleep", "1000"))
    assert container.pids() == [state.pid]
    os.kill(state.shim_pid, signal.SIGKILL)
    await until(container.ended.is_set)
    assert container.state.lost and container.state.exit_code == 137
    assert not engine.containers
    await until(lambda: not alive(state.pid))


async def test_a_shim_ends_if_its_folder_and_its_engine_are_gone(engine: FakeEngine, bench: Bench) -> None:
    container = bench.container()
    state = await container.launch(launch(bench, engine, "sleep", "1000"))
    await engine.stop()
    engine.socket.unlink()
    shutil.rmtree(container.directory)
    await until(lambda: not alive(state.shim_pid))
