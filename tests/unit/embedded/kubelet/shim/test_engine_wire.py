"""What a shim says to a container engine, and what it understands."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kajitori.embedded.kubelet.shim import engine, engine_groups, engine_wire
from kajitori.embedded.kubelet.shim.engine_wire import EngineFailure, Frames


@pytest.fixture
def path() -> Iterator[Path]:
    """Return a path for a Unix socket, which holds at most 107 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "s"


def frame(stream: int, content: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(content).to_bytes(4, "big") + content


def test_frames_are_joined_however_they_are_cut() -> None:
    data = frame(1, b"out\n") + frame(2, b"wrong\n") + frame(1, b"") + frame(1, b"end")
    wanted = [("stdout", b"out\n"), ("stderr", b"wrong\n"), ("stdout", b""), ("stdout", b"end")]
    for size in (1, 3, 8, 9, len(data)):
        frames = Frames()
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        assert [found for piece in pieces for found in frames.feed(piece)] == wanted


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[list[bytes]]:
    """Answer one request at a Unix socket. Yields what was asked."""
    asked: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(1)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                asked.append(connection.recv(65536))
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join()


def test_answers_with_a_length_and_in_chunks_are_read(path: Path) -> None:
    with answering(path, b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}") as asked:
        assert engine_wire.call(str(path), "POST", "/containers/create", {"Image": "a"}, 5) == b"{}"
    assert asked[0].startswith(b"POST /containers/create HTTP/1.1\r\n") and asked[0].endswith(b'{"Image": "a"}')
    path.unlink()
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n"
    with answering(path, chunks):
        assert engine_wire.call(str(path), "GET", "/x", None, 5) == b"abcde"


def test_a_refusal_has_the_words_of_the_engine(path: Path) -> None:
    with (
        answering(path, b'HTTP/1.1 404 Not Found\r\n\r\n{"message": "no such image"}'),
        pytest.raises(EngineFailure, match="no such image") as raised,
    ):
        engine_wire.call(str(path), "GET", "/x", None, 5)
    assert raised.value.status == 404
    with pytest.raises(EngineFailure, match="does not answer"):
        engine_wire.call(str(path.with_name("none")), "GET", "/x", None, 5)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('exec: "a": executable file not found in $PATH', 127),
        ('exec: "/a": stat /a: no such file or directory', 127),
        ('exec: "/a": permission denied', 126),
        ("error setting rlimits: operation not permitted", 128),
        ("no such image: a: image not known", 128),
    ],
)
def test_a_program_that_can_not_start_has_a_shells_exit_code(message: str, code: int) -> None:
    assert engine._shell_code(message) == code


def test_a_mount_over_something_of_the_image_is_told_in_a_sentence(tmp_path: Path) -> None:
    """runc's text names a folder of the kubelet, and not what to do (runc 1.1 of Debian 12)."""
    (tmp_path / "f").touch()
    said = 'runc create failed: error mounting "{}" to rootfs at "/lib64": mount {}:/lib64: not a directory: OCI error'
    file, folder = (engine._in_words(said.format(source, source)) for source in (tmp_path / "f", tmp_path))
    assert (
        file == "/lib64 is a folder in the image, and a file can't be mounted over it: name the file, as in /lib64/NAME"
    )
    assert folder == "/lib64 is a file in the image, and a folder can't be mounted over it"
    assert engine._in_words("no such image") == "no such image"


@pytest.mark.parametrize(
    ("lines", "mounts", "wanted"),
    [
        (
            "9:memory:/libpod/c1\n8:cpu,cpuacct:/libpod/c1\n7:pids:/libpod/c1\n0::/libpod/c1\n",
            "cgroup /cg/memory cgroup rw,memory 0 0\ncgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0\n",
            [("/cg/memory/libpod/c1", 1, True), ("/cg/cpu/libpod/c1", 1, False)],
        ),
        ("9:memory:/shared\n", "cgroup /cg/memory cgroup rw,memory 0 0\n", []),
    ],
)
def test_only_control_groups_of_the_container_alone_are_read(
    tmp_path: Path, lines: str, mounts: str, wanted: list[tuple[str, int, bool]]
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "self").mkdir()
    (tmp_path / "7" / "cgroup").write_text(lines)
    (tmp_path / "self" / "mounts").write_text(mounts)
    found = engine_groups.of_container(7, "c1", str(tmp_path))
    assert [(group.path, group.version, group.counts_memory) for group in found] == wanted


def test_the_group_of_version_2_counts_memory_if_it_can(tmp_path: Path) -> None:
    group = tmp_path / "cg" / "libpod-c1.scope"
    group.mkdir(parents=True)
    (group / "memory.current").touch()
    (tmp_path / "7").mkdir()
    (tmp_path / "self").mkdir()
    (tmp_path / "7" / "cgroup").write_text("0::/libpod-c1.scope\n")
    (tmp_path / "self" / "mounts").write_text(f"cgroup2 {tmp_path}/cg cgroup2 rw 0 0\n")
    (found,) = engine_groups.of_container(7, "c1", str(tmp_path))
    assert (found.path, found.version, found.counts_memory) == (str(group), 2, True)


@pytest.mark.parametrize(
    ("mounts", "place", "version"),
    [
        ("cgroup {cg}/cpu cgroup rw,cpu 0 0\ncgroup {cg} cgroup rw,memory 0 0\n", "docker/c1", 1),
        ("cgroup2 {cg} cgroup2 rw 0 0\n", "system.slice/docker-c1.scope", 2),
        (
            "cgroup2 {cg} cgroup2 rw 0 0\n",
            f"user.slice/user-{os.getuid()}.slice/user@{os.getuid()}.service/user.slice/docker-c1.scope",
            2,
        ),
    ],
)
def test_the_group_that_docker_makes_is_found_before_its_first_process_is_known(
    tmp_path: Path, mounts: str, place: str, version: int
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mounts").write_text(mounts.format(cg=tmp_path / "cg"))
    assert engine_groups.memory_of("c1", str(tmp_path)) is None
    group = tmp_path / "cg" / place
    group.mkdir(parents=True)
    (group / "memory.stat").touch()
    found = engine_groups.memory_of("c1", str(tmp_path))
    assert found is not None and (found.path, found.version) == (str(group), version)
