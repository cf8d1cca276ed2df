"""A container engine of a test's own: Podman with its own storage, and an image built from this machine's busybox."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.harness.waiting import wait_until

from kajitori.embedded.kubelet.engine.detection import Engine, find

IMAGE = "localhost/kajitori-test:1"
_NEEDED = ("podman", "conmon", "runc")
_BUSYBOX = Path("/bin/busybox")


@dataclass(frozen=True)
class TestEngine:
    """A Podman that serves its API at a socket."""

    __test__ = False

    folder: Path
    environment: dict[str, str]

    @property
    def socket(self) -> Path:
        return self.folder / "s"

    async def found(self) -> Engine:
        """Return this engine as a kubelet finds it."""
        engine = await find("podman", {"DOCKER_HOST": f"unix://{self.socket}"})
        assert engine is not None
        return engine

    def podman(self, *arguments: str) -> str:
        """Return what a `podman` command of the same storage prints."""
        done = subprocess.run(
            ["podman", *arguments], env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def containers(self) -> list[str]:
        """Return the names of all containers, running or not."""
        return self.podman("ps", "--all", "--format", "{{.Names}}").split()


@contextlib.contextmanager
def podman_engine() -> Iterator[TestEngine]:
    """Serve Podman's API. Skips the test if a program is missing, or this machine can't run containers."""
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing or not _is_static(_BUSYBOX):
        needed = ", ".join(missing or ["a static busybox"])
        pytest.skip(f"no {needed}: apt-get install podman runc conmon busybox-static")
    if os.geteuid() != 0:
        pytest.skip("Podman with a storage of its own needs root here")
    # The path of a Unix socket holds 107 bytes.
    with tempfile.TemporaryDirectory(prefix="kaji-engine-") as temporary:
        folder = Path(temporary)
        engine = TestEngine(folder, _environment(folder))
        engine.podman(
            "import", "--change=ENV FROM_IMAGE=yes", '--change=CMD ["echo", "by default"]', _tar(folder), IMAGE
        )
        service = subprocess.Popen(
            ["podman", "system", "service", "--time=0", f"unix://{engine.socket}"],
            cwd=folder,  # conmon leaves a file `oom` in this folder if a container dies of memory
            env=engine.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(engine.socket.exists, "Podman serves its API")
            try:
                engine.podman("run", "--rm", "--network=host", IMAGE, "true")
            except AssertionError as error:
                pytest.skip(f"Podman can't run containers on this machine: {error}")
            yield engine
        finally:
            with contextlib.suppress(AssertionError):
                engine.podman("rm", "--all", "--force", "--time=0")
            service.terminate()
            service.wait()


def _environment(folder: Path) -> dict[str, str]:
    (folder / "containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


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
