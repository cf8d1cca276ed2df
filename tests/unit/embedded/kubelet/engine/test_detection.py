"""Which container engine is used, and what is said if none answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.embedded.kubelet.engine import detection
from kajitori.embedded.kubelet.engine.client import EngineVersion
from kajitori.embedded.kubelet.engine.detection import Engine, find
from kajitori.errors import Unavailable


def test_docker_host_excludes_other_engines() -> None:
    told = {"DOCKER_HOST": "unix:///one.sock", "XDG_RUNTIME_DIR": "/run/user/7"}
    assert detection.candidates(told) == ["/one.sock"]
    del told["DOCKER_HOST"]
    assert detection.candidates(told) == [
        "/run/podman/podman.sock",
        "/run/user/7/podman/podman.sock",
        "/run/user/7/docker.sock",
        "/var/run/docker.sock",
    ]
    assert "tcp://far:1" not in detection.candidates({"DOCKER_HOST": "tcp://far:1"})


@pytest.mark.parametrize(
    ("wanted", "answers", "found"),
    [
        ("auto", "docker", "docker"),
        ("auto", "podman", "podman"),
        ("docker", "docker", "docker"),
        ("process", "docker", ""),
    ],
)
async def test_the_engine_that_answers_is_taken(tmp_path: Path, wanted: str, answers: str, found: str) -> None:
    socket = tmp_path / "s"
    socket.touch()

    async def ask(path: str) -> EngineVersion:
        return EngineVersion(answers, "9.1")

    engine = await find(wanted, {"DOCKER_HOST": f"unix://{socket}"}, ask)
    assert engine == (Engine(str(socket), found, "9.1") if found else None)
    assert (found in detection.described(wanted, engine)) if found else not detection.described(wanted, engine)


async def test_auto_falls_back_to_processes_and_a_named_engine_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An engine that is there but does not answer is named, for example one that this user may not use."""
    socket = tmp_path / "s"
    socket.touch()

    async def ask(path: str) -> EngineVersion:
        raise Unavailable("nobody is there")

    told = {"DOCKER_HOST": f"unix://{socket}"}
    assert await find("auto", told, ask) is None
    assert caplog.messages == ["nobody is there; it is not used"]
    assert "apt-get install podman" in detection.described("auto", None)
    with pytest.raises(Unavailable) as raised:
        await find("podman", told, ask)
    assert f"{socket} (nobody is there)" in raised.value.message
    assert "apt-get install podman" in raised.value.hint
    with pytest.raises(Unavailable, match="does not exist"):
        await find("docker", {"DOCKER_HOST": f"unix://{tmp_path}/none"}, ask)


async def test_another_engine_than_the_wanted_one_is_named(tmp_path: Path) -> None:
    socket = tmp_path / "s"
    socket.touch()

    async def ask(path: str) -> EngineVersion:
        return EngineVersion("podman", "5.4")

    with pytest.raises(Unavailable, match="is podman"):
        await find("docker", {"DOCKER_HOST": f"unix://{socket}"}, ask)
