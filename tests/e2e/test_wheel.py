"""The wheel, built and installed in an environment with only the libraries of one of its extras."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.harness.waiting import wait_until

ROOT = Path(__file__).parents[2]
NOT_OF_THE_COMMAND_LINE = {"numpy", "fastapi", "aiohttp", "uvicorn", "cryptography", "psutil"}

pytestmark = pytest.mark.xdist_group("e2e-wheel")


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and the libraries of one extra."""

    folder: Path
    libraries: frozenset[str]

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAJI_", "XDG_", "PYTHON"))}
        return {**kept, "HOME": str(self.folder), "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def kaji(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.folder / "bin" / "kaji"), *arguments]
        return subprocess.run(
            command, env=self.environment(), cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def install(wheel: Path, folder: Path, extra: str) -> Installed:
    """Install the wheel alone, and link the libraries that its metadata require: this needs no package index."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    uv = Path(sys.executable).parent / "uv"
    asked = [str(uv), "pip", "install", "-q", "--offline", "--no-deps", "--python", str(python), str(wheel)]
    subprocess.run(asked, check=True, capture_output=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    libraries = needed(wheel, extra)
    for name in libraries:
        link_files(name, site)
    return Installed(folder, frozenset(libraries))


def needed(wheel: Path, extra: str) -> set[str]:
    """Return the distributions that `kajitori[extra]` requires on this machine, directly and indirectly."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        own = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []
    found: set[str] = set()
    waiting = [(Requirement(line), extra) for line in own]
    while waiting:
        requirement, wanted = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": wanted}):
            continue
        if requirement.name == "kajitori":
            waiting += [(Requirement(line), inner) for inner in requirement.extras for line in own]
        elif requirement.name not in found:
            found.add(requirement.name)
            lines = metadata.requires(requirement.name) or []
            waiting += [(Requirement(line), inner) for inner in ("", *requirement.extras) for line in lines]
    return found


def link_files(distribution: str, site: Path) -> None:
    """Link the files of an installed distribution into another environment's site-packages."""
    here = metadata.distribution(distribution)
    for top in {file.parts[0] for file in here.files or () if file.parts[0] not in ("..", "__pycache__")}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(here.locate_file(top))))


@pytest.fixture(scope="module")
def command_line(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(wheel, tmp_path_factory.mktemp("command-line"), "")


@pytest.fixture(scope="module")
def everything(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(wheel, tmp_path_factory.mktemp("everything"), "up")


def test_the_command_line_needs_few_libraries(command_line: Installed) -> None:
    assert not NOT_OF_THE_COMMAND_LINE & command_line.libraries
    assert len(command_line.libraries) <= 13, sorted(command_line.libraries)


def test_everyday_verbs_work_without_the_server_libraries(command_line: Installed) -> None:
    """Without a server, each says how to name one."""
    for verb in (
        ["ps"],
        ["run", "python:3", "true"],
        ["logs", "a"],
        ["exec", "a", "ls"],
        ["cp", "a:x", "y"],
        ["queue"],
    ):
        answer = command_line.kaji(*verb)
        assert answer.returncode != 0 and "no cluster is known" in answer.stderr, (verb, answer.stderr)
        assert "library" not in answer.stderr, (verb, answer.stderr)


@pytest.mark.parametrize(
    ("verb", "extra"), [("up", "up"), ("demo", "up"), ("controller", "server"), ("node", "server"), ("agent", "server")]
)
def test_a_missing_library_names_the_extra(command_line: Installed, verb: str, extra: str) -> None:
    answer = command_line.kaji(verb)
    assert answer.returncode == 125
    assert f"`kaji {verb}` needs the library " in answer.stderr
    assert f"pip install 'kajitori[{extra}]'" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_wheel_starts_a_cluster_and_runs_a_program(everything: Installed, tmp_path: Path) -> None:
    """`kaji up` from the wheel, without the repository."""
    data = tmp_path / "cluster"
    with (tmp_path / "log").open("wb") as log:
        up = subprocess.Popen(
            [str(everything.folder / "bin" / "kaji"), "up", "--data", str(data), "--port", "0"],
            env=everything.environment(),
            cwd=everything.folder,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: (data / "kaji.json").exists() or up.poll() is not None, (tmp_path / "log").read_text)
        assert up.poll() is None, (tmp_path / "log").read_text()
        answer = everything.kaji("run", "-q", "--name", "sum", "python:3", "python3", "-c", "print(6 * 7)")
        assert (answer.returncode, answer.stdout) == (0, "42\n"), answer.stderr
        assert everything.kaji("ps", "-a", "-q").stdout == "sum\n"
        assert everything.kaji("rm", "sum").returncode == 0
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(timeout=60)
