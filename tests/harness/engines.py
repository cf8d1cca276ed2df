"""A container engine of a test's own: Podman or Docker with its own storage, and an image of this machine's busybox."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.harness.waiting import wait_until

from kajitori.embedded.kubelet.engine.detection import Engine, find

IMAGE = "localhost/kajitori-test:1"
ENGINES = ("podman", "docker")
_NEEDED = {"podman": ("podman", "conmon", "runc"), "docker": ("docker", "dockerd", "containerd", "runc")}
_PACKAGES = {"podman": "podman runc conmon", "docker": "docker.io"}
_BUSYBOX = Path("/bin/busybox")


class TestEngine:
    """An engine that serves its API at a socket, with all of its storage in a folder."""

    __test__ = False

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.environment = kept | (_podman_settings if name == "podman" else _docker_settings)(folder)
        self._service: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self.folder / "s"

    async def found(self) -> Engine:
        """Return this engine as a kubelet finds it."""
        engine = await find(self.name, {"DOCKER_HOST": f"unix://{self.socket}"})
        assert engine is not None
        return engine

    def command(self, *arguments: str) -> str:
        """Run a command of this engine's own client, and return its output."""
        done = subprocess.run(
            [self.name, *arguments], env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def containers(self) -> list[str]:
        """Return the names of all containers, running or not."""
        return self.command("ps", "--all", "--format", "{{.Names}}").split()

    def start(self) -> None:
        """Serve the API. Containers of an earlier start go on."""
        self._service = subprocess.Popen(
            _serve(self.name, self.folder),
            cwd=self.folder,  # conmon leaves a file `oom` in this folder if a container dies of memory
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "log").open("ab"),
        )
        wait_until(self._answers, f"{self.name} serves its API")

    def stop(self) -> None:
        if self._service is not None:
            self._service.terminate()
            self._service.wait()

    def _answers(self) -> bool:
        assert self._service is not None
        if self._service.poll() is not None:
            pytest.skip(f"{self.name} can't serve here: {(self.folder / 'log').read_text()[-500:]}")
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.socket)) == 0


@contextlib.contextmanager
def container_engine(name: str) -> Iterator[TestEngine]:
    """Serve the API of this engine. Skips the test if a program is missing, or this machine can't run containers."""
    missing = [program for program in _NEEDED[name] if shutil.which(program) is None]
    if missing or not _is_static(_BUSYBOX):
        needed = ", ".join(missing or ["a static busybox"])
        pytest.skip(f"no {needed}: apt-get install --no-install-recommends {_PACKAGES[name]} busybox-static")
    if os.geteuid() != 0:
        pytest.skip("a container engine with a storage of its own needs root here")
    # The path of a Unix socket holds 107 bytes.
    with tempfile.TemporaryDirectory(prefix="kaji-engine-") as temporary:
        engine = TestEngine(name, Path(temporary))
        try:
            engine.start()
            changes = ("--change=ENV FROM_IMAGE=yes", '--change=CMD ["echo", "by default"]')
            engine.command("import", *changes, _tar(engine.folder), IMAGE)
            try:
                engine.command("run", "--rm", "--network=host", IMAGE, "true")
            except AssertionError as error:
                pytest.skip(f"{name} can't run containers on this machine: {error}")
            yield engine
        finally:
            with contextlib.suppress(AssertionError):
                if left := engine.containers():
                    engine.command("rm", "--force", *(["--time=0"] if name == "podman" else []), *left)
            engine.stop()
            _end_commands(engine.folder)


def _end_commands(folder: Path) -> None:
    """End the processes that Podman keeps for five minutes after each command beside a program."""
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "conmon" and str(folder) in " ".join(process.info["cmdline"] or ()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _serve(name: str, folder: Path) -> list[str]:
    if name == "podman":
        return ["podman", "system", "service", "--time=0", f"unix://{folder / 's'}"]
    # Its mounts end with it. It changes no interface and no firewall rule of this machine.
    own = ["unshare", "--mount", "--propagation=slave", "dockerd", f"--config-file={folder}/daemon.json"]
    storage = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", "--storage-driver=vfs"]
    network = ["--bridge=none", *(f"--{option}=false" for option in ("iptables", "ip6tables", "ip-forward", "ip-masq"))]
    return [*own, *storage, *network, f"--host=unix://{folder}/s", f"--pidfile={folder}/pid", "--live-restore"]


def _podman_settings(folder: Path) -> dict[str, str]:
    (folder / "containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


def _docker_settings(folder: Path) -> dict[str, str]:
    (folder / "daemon.json").write_text("{}")
    return {"DOCKER_HOST": f"unix://{folder}/s", "DOCKER_CONFIG": str(folder)}


def _is_static(program: Path) -> bool:
    return program.exists() and b"ld-linux" not in program.read_bytes()[:4096]


def _tar(folder: Path) -> str:
    """Write the image's file system: busybox, its applets, a user, and the folders that programs expect."""
    file = folder / "image.tar"
    with tarfile.open(file, "w") as archive:
        archive.add(_BUSYBOX, "bin/busybox")
        listed = subprocess.run([_BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
        for name in sorted(set(listed) - {"busybox"}):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        for name in ("tmp", "proc", "sys", "dev", "etc", "root"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        users = b"root:x:0:0:root:/root:/bin/sh\n"
        passwd = tarfile.TarInfo("etc/passwd")
        passwd.size = len(users)
        archive.addfile(passwd, io.BytesIO(users))
    return str(file)
