"""The life of runs whose containers an engine runs: a `kaji up` with a Podman, or a Docker, of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.commands import kaji
from tests.harness.engines import ENGINES, IMAGE, TestEngine, container_engine
from tests.harness.kaji_up import KajiUp
from tests.harness.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.root


CDI = Path("/run/cdi")
"""A folder of all engines of this machine. A file of a test describes only a device that nothing else asks for."""
GPU = f"GPU-kaji-{os.getpid()}"


class EngineUp(KajiUp):
    """A `kaji up` whose runs use real images, on a machine with a GPU."""

    def __init__(self, folder: Path, engine: TestEngine) -> None:
        super().__init__(folder)
        self.engine = engine
        del self.environment["KAJI_ENGINE"]
        lister = folder / "nvidia-smi"
        lister.write_text(f"#!/bin/sh\necho {GPU}, NVIDIA A100, 40960\n")
        lister.chmod(0o755)
        self.environment |= {
            "DOCKER_HOST": f"unix://{engine.socket}",
            "PATH": f"{folder}:{self.environment['PATH']}",
        }

    def printed(self, run: str) -> str:
        """Return what a run printed so far."""
        done = kaji("logs", run, timeout=PATIENCE_SECONDS, env=self.environment, cwd=self.home)
        assert done.returncode == 0, done
        return done.stdout

    def run(self, name: str, *arguments: str) -> None:
        done = self.kaji("run", "-d", "--name", name, *arguments)
        assert done.returncode == 0, done

    def until_running(self, name: str) -> None:
        wait_until(lambda: self.status(name).get("members", {}).get("running"), lambda: self.status(name))

    def state(self, run: str) -> dict[str, Any]:
        """Return what the shim of the run's container wrote."""
        for folder in (self.data / "node" / "pods").iterdir():
            record = json.loads((folder / "record.json").read_text())
            if record["pod"]["metadata"]["name"].startswith(f"{run}-"):
                found: dict[str, Any] = json.loads((folder / "containers/main/0/state.json").read_text())
                return found
        raise AssertionError(f"no Pod of {run}")


@pytest.fixture(scope="module", params=ENGINES)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineUp]:
    with container_engine(request.param) as engine, cdi_gpu():
        up = EngineUp(tmp_path_factory.mktemp("up"), engine)
        up.start()
        yield up
        assert up.process is not None
        up.process.terminate()
        up.process.wait()


@contextlib.contextmanager
def cdi_gpu() -> Iterator[None]:
    """Describe a GPU, as `nvidia-ctk cdi generate` does: a device, which is `/dev/null`, and a variable."""
    is_new = not CDI.exists()
    CDI.mkdir(exist_ok=True)
    edits = {"deviceNodes": [{"path": "/dev/gpu", "hostPath": "/dev/null"}], "env": ["BY_CDI=yes"]}
    device = {"name": GPU, "containerEdits": edits}
    file = CDI / f"kajitori-test-{os.getpid()}.json"
    file.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device]}))
    try:
        yield
    finally:
        file.unlink()
        if is_new:
            CDI.rmdir()


def test_a_run_uses_the_image_and_reports_its_exit_code(up: EngineUp) -> None:
    (up.home / "shared").mkdir()
    (up.home / "shared" / "given").write_text("given\n")
    script = "cat /data/given; echo $FROM_IMAGE $OWN; echo wrong >&2; ls /; echo out > /data/made; exit 3"
    options = ("-e", "OWN=set", "-v", f"{up.home}/shared:/data", "-w", "/tmp")
    done = up.kaji("run", "--name", "image", *options, IMAGE, "sh", "-c", script)
    assert done.returncode == 3, done
    # Docker passes the two streams on by different ways, so that their lines change places.
    lines = [line for line in done.stdout.splitlines() if line != "wrong"]
    assert lines[:2] == ["given", "yes set"] and "wrong\n" in done.stdout
    assert "home" not in lines and "busybox" not in lines, "the file system is the image's"
    assert (up.home / "shared" / "made").read_text() == "out\n"
    default = up.kaji("run", "--name", "default", IMAGE)
    assert (default.returncode, default.stdout) == (0, "by default\n"), default
    wait_until(lambda: not up.engine.containers(), "ended containers are removed")


def test_commands_run_beside_the_program_of_a_container(up: EngineUp) -> None:
    up.run("beside", IMAGE, "sh", "-c", "touch /tmp/here; sleep 1000")
    up.until_running("beside")
    command = ("exec", "beside", "sh", "-c", "ls /tmp; echo wrong >&2; exit 4")
    done = up.kaji(*command)
    assert (done.returncode, done.stdout, done.stderr) == (4, "here\n", "wrong\n")
    missing = up.kaji("exec", "beside", "no-such-program")
    assert missing.returncode == 127 and "not found" in missing.stderr
    assert "unixpacket" not in missing.stderr, "words of Podman about itself"
    assert up.kaji("kill", "beside").returncode == 0


def test_a_program_that_ends_before_its_input_loses_no_output(up: EngineUp) -> None:
    """Podman's monitor resets the connection by which the rest of the input comes. In two of three runs the output went
    with it. Programs print a lot, too, while they read."""
    lines = [f"{number:060}\n" for number in range(20_000)]
    for name, program, shown in (("head", "head -n 2", 2), ("head2", "head -n 3", 3), ("cat", "cat", 20_000)):
        words = ("run", "-i", "--rm", "--name", name, IMAGE, *program.split())
        done = kaji(*words, stdin="".join(lines), env=up.environment, cwd=up.home)
        assert (done.returncode, done.stdout == "".join(lines[:shown])) == (0, True), (
            name,
            done.stderr,
            len(done.stdout),
        )


def test_a_container_gets_its_gpus_by_the_container_device_interface(up: EngineUp) -> None:
    """Podman's Docker-compatible API can't do that before 5.4, so Podman's own creates the container. Docker before
    28.2 can't do it, and the run says so."""
    about = json.loads(up.engine.command("info", "--format={{json .}}"))
    if up.engine.name == "docker" and not about.get("CDISpecDirs"):
        up.run("gpu", "--gpus", "1", IMAGE, "true")
        wait_until(lambda: "takes no CDI devices" in json.dumps(up.status("gpu")), lambda: up.status("gpu"))
        assert up.kaji("rm", "-f", "gpu").returncode == 0
    else:
        script = "ls /dev/gpu; echo $BY_CDI $FROM_IMAGE $OWN; exit 3"
        done = up.kaji("run", "--name", "gpu", "--gpus", "1", "-e", "OWN=set", IMAGE, "sh", "-c", script)
        assert (done.returncode, done.stdout) == (3, "/dev/gpu\nyes yes set\n"), done
    without = up.kaji("run", "--name", "no-gpu", IMAGE, "ls", "/dev/gpu")
    assert without.returncode == 1 and "No such file" in without.stdout


def test_what_a_container_can_not_have_is_told_in_the_engines_words(up: EngineUp) -> None:
    # It asks for all of its memory at once, so that its counters are gone soon after its start.
    memory = ("dd", "if=/dev/zero", "of=/dev/null", "bs=300M", "count=1")
    full = up.kaji("run", "--name", "full", "--memory", "16Mi", IMAGE, *memory)
    assert full.returncode == 137 and "OutOfMemory" in full.stderr, full
    missing = up.kaji("run", "--name", "missing", IMAGE, "no-such-program")
    assert missing.returncode == 127 and "not found" in missing.stderr, missing
    up.run("unknown", "registry.invalid/none:1", "true")
    wait_until(lambda: "registry.invalid" in json.dumps(up.status("unknown")), lambda: up.status("unknown"))
    assert "ImagePull" in json.dumps(up.status("unknown"))
    assert up.kaji("rm", "-f", "unknown").returncode == 0


def test_containers_outlive_a_killed_kubelet_and_are_adopted(up: EngineUp) -> None:
    script = "trap 'echo asked; exit 5' TERM; i=0; while true; do i=$((i+1)); echo line $i; sleep 0.05; done"
    up.run("adopted", IMAGE, "sh", "-c", script)
    up.run("orphan", IMAGE, "sleep", "1000")
    up.until_running("adopted")
    up.until_running("orphan")
    unknown = up.engine.command("create", f"--label=kajitori.kubelet={up.data / 'node'}", IMAGE)
    assert up.process is not None
    up.process.kill()
    up.process.wait()
    os.kill(up.state("orphan")["shim_pid"], signal.SIGKILL)
    before = len(_numbers(up.data, "adopted"))
    wait_until(lambda: len(_numbers(up.data, "adopted")) > before, "the log goes on without a kubelet")
    up.start()
    wait_until(lambda: up.status("orphan")["phase"] == "Failed", lambda: up.status("orphan"))
    assert unknown[:12] not in up.engine.command("ps", "--all", "--quiet")
    assert len(up.engine.containers()) == 1, "the container without a shim is gone"
    assert up.kaji("stop", "adopted").returncode == 0
    wait_until(lambda: "asked" in up.printed("adopted"), "it is asked to stop")
    numbers = [int(line.split()[1]) for line in up.printed("adopted").splitlines() if line.startswith("line ")]
    assert numbers == list(range(1, len(numbers) + 1)), "no line is lost or doubled"
    wait_until(lambda: not up.engine.containers(), "nothing is left")


def test_a_container_outlives_a_restart_of_its_engine(up: EngineUp) -> None:
    """With Docker, if its configuration has `live-restore`."""
    up.run("kept", IMAGE, "sh", "-c", "until [ -e /tmp/end ]; do sleep 0.1; done; echo over; exit 6")
    up.until_running("kept")
    up.engine.stop()
    up.engine.start()
    wait_until(lambda: "engine was lost" in up.printed("kept"), lambda: up.printed("kept"))
    assert up.kaji("exec", "kept", "touch", "/tmp/end").returncode == 0
    wait_until(lambda: up.status("kept")["phase"] == "Failed", lambda: up.status("kept"))
    assert "exit code 6" in json.dumps(up.status("kept")) and "over" in up.printed("kept")
    wait_until(lambda: not up.engine.containers(), "nothing is left")


def _numbers(data: Path, run: str) -> list[str]:
    (log,) = (data / "node" / "logs").glob(f"*_{run}-*/main/0.log")
    return log.read_text().splitlines()
