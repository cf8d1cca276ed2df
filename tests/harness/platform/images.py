"""Builds images from the Dockerfiles below deploy/ without a registry, by buildah or podman, and runs commands in them.

This machine's /usr stands for an image of Python. An index in a folder has wheels of the installed libraries, and
the lock files of the build context have the hashes of these wheels: nothing else of the Dockerfiles differs.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.tags import sys_tags

ROOT = Path(__file__).parents[3]
BASE = "localhost/python"
INDEX = "file:///simple"
BUILD_SECONDS = 600
NOTHING_TO_INSTALL = "#!/bin/sh\nexit 0\n"
"""Replaces apt-get, which would need a network."""


class ImageBuilder:
    """Builds and runs images. All of its storage is below a folder."""

    def __init__(self, tool: str, folder: Path) -> None:
        self._tool = tool
        self._folder = folder
        self.context = folder / "context"
        trusting = folder / "policy.json"
        trusting.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        self._building = ["--isolation=chroot", f"--signature-policy={trusting}", "--volume=/usr:/usr:ro"]

    async def build(self, file: str, name: str) -> None:
        """Build an image from a Dockerfile of the context, with the base and index of `base`."""
        arguments = [f"--build-arg=PYTHON={BASE}", f"--build-arg=INDEX={INDEX}"]
        words = [*self._building, *arguments, f"--file={self.context / file}", f"--tag={name}", str(self.context)]
        done = await self._call("build", *words)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    async def run(self, image: str, *command: str, options: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run a command in an image, as the image's user unless options name another one."""
        given = ["--volume=/usr:/usr:ro", *options]
        if self._tool == "buildah":
            made = await self._call("from", image)
            return await self._call("run", "--isolation=chroot", *given, made.stdout.strip(), "--", *command)
        closed = ["--network=none", "--cgroups=disabled", "--ulimit=host", "--read-only", "--entrypoint="]
        done = await self._call("run", "--rm", *closed, *given, image, *command)
        if "not compatible with NoCgroups" in done.stderr:
            pytest.skip(
                "the image is built, but podman has no runtime that starts without cgroups: apt-get install crun"
            )
        if "Operation not permitted" in done.stderr:
            pytest.skip(f"the image is built, but podman may not run it here: {done.stderr[:200]}")
        return done

    async def base(self, packages: Iterable[str]) -> None:
        """Build the base: folders and links, an index of wheels of these installed packages, and a lock of it."""
        base = self._folder / "base"
        for folder in ("usr", "etc", "proc", "dev", "sys", "tmp", "root", "stubs"):
            (base / folder).mkdir(parents=True)
        for link in ("bin", "lib", "lib64", "sbin"):
            (base / link).symlink_to(f"usr/{link}")
        (base / "tmp").chmod(0o1777)
        (base / "stubs" / "apt-get").write_text(NOTHING_TO_INSTALL)
        (base / "stubs" / "apt-get").chmod(0o755)
        locked = [f"{name}=={metadata.version(name)} --hash=sha256:{_pack(name, base / 'simple')}" for name in packages]
        self._copy_context("\n".join(locked) + "\n")
        file = self._folder / "Base"
        file.write_text("FROM scratch\nCOPY . /\nENV PATH=/stubs:/usr/bin:/usr/sbin\n")
        done = await self._call("build", f"--file={file}", *self._building[:2], f"--tag={BASE}", str(base))
        assert done.returncode == 0, done.stderr

    def _copy_context(self, lock: str) -> None:
        """Copy what the Dockerfiles copy; both lock files have the hashes of our wheels."""
        without = shutil.ignore_patterns("__pycache__")
        for name in ("src", "deploy"):
            shutil.copytree(ROOT / name, self.context / name, ignore=without)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, self.context / name)
        (self.context / "requirements.lock").write_text(lock)
        (self.context / "deploy" / "image" / "requirements.txt").write_text(lock)

    async def _call(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        places = [f"--root={self._folder}/root", f"--runroot={self._folder}/run", "--storage-driver=overlay"]
        command = [self._tool, *places, verb, *words]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder)}
        options: dict[str, Any] = {"env": environment, "cwd": ROOT, "capture_output": True, "text": True}
        return await asyncio.to_thread(lambda: subprocess.run(command, **options, timeout=BUILD_SECONDS, check=False))


@contextmanager
def image_builder() -> Iterator[ImageBuilder]:
    """Yield a builder. Its images are deleted at the end. Skip the test if no image can be built here."""
    tool = next((name for name in ("buildah", "podman") if shutil.which(name)), None)
    if tool is None:
        pytest.skip("neither buildah nor podman is installed: apt-get install buildah")
    if os.geteuid() != 0:
        pytest.skip("only root can build images without user namespaces: run as root")
    command = ["/usr/bin/python3", "-I", "-c", "import ensurepip, pip, sys; print(*sys.version_info[:2])"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        answer = ""
    if answer.split() != [str(number) for number in sys.version_info[:2]]:
        pytest.skip("/usr/bin/python3 has another version, or no pip or venv: apt-get install python3-pip python3-venv")
    folder = Path(tempfile.mkdtemp(prefix="kaji-", dir="/var/tmp"))  # podman takes short paths only; images are large
    try:
        yield ImageBuilder(tool, folder)
    finally:
        # The storage driver mounts its folder onto itself, and podman leaves that mount behind.
        subprocess.run(["umount", str(folder / "root" / "overlay")], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def needed_by(*wanted: str) -> list[str]:
    """Return the installed packages that requirements need, themselves included. Ours are in pyproject.toml."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    queue = [Requirement(each) for each in wanted]
    while queue:
        requirement = queue.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name == "kajitori":
            project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            extra_lists = [project["optional-dependencies"][extra] for extra in requirement.extras]
            queue += [Requirement(text) for texts in (project["dependencies"], *extra_lists) for text in texts]
            continue
        found[name] = None
        for text in metadata.requires(requirement.name) or ():
            inner = Requirement(text)
            extras = [{"extra": extra} for extra in requirement.extras or [""]]
            if inner.marker is None or any(inner.marker.evaluate(extra) for extra in extras):
                queue.append(inner)
    return list(found)


def _pack(name: str, index: Path) -> str:
    """Write a wheel of an installed package into an index, and return its hash."""
    distribution = metadata.distribution(name)
    tag = fitting_tag(distribution.read_text("WHEEL") or "")
    wheel = f"{re.sub(r'[-_.]+', '_', name)}-{distribution.version}-{tag}.whl"
    folder = index / name
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
    with zipfile.ZipFile(folder / wheel, "w") as packed:
        for file in distribution.files or ():
            if "__pycache__" not in file.parts and ".." not in file.parts:
                packed.write(str(file.locate()), str(file))
    return hashlib.sha256((folder / wheel).read_bytes()).hexdigest()


def fitting_tag(about: str) -> str:
    """Return the tag for this Python in the metadata of a wheel. Some wheels name Python 2 first."""
    tags = [line.removeprefix("Tag: ") for line in about.splitlines() if line.startswith("Tag: ")]
    fitting = set(map(str, sys_tags()))
    return next(tag for tag in tags if tag in fitting)
