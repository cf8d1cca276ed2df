"""The image of members' first step: what its Dockerfile copies is sufficient. If buildah is installed, the image is
built."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import AsyncIterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import zstandard
from aiohttp import web
from tests.unit.kube.fake_api import serving

from kajitori.codepack.packing import Pack, pack
from kajitori.codepack.parts import ARCHIVE_BYTES, compress
from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.parsing import parse_spec
from kajitori.core.words import first_step

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "deploy" / "image" / "Dockerfile"
PLACE = "/opt/kajitori"
NOBODY = 54321
"""A user without a line in /etc/passwd."""


def instructions(kind: str) -> list[list[str]]:
    """Arguments of every instruction of this kind in the Dockerfile."""
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith(f"{kind} ")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """/opt/kajitori as `docker build` would create it, without compiled files."""
    image = tmp_path / "image"
    for *sources, target in instructions("COPY"):
        if sources[0].startswith("--from"):
            continue
        for source in sources:
            assert (ROOT / source).exists(), f"the Dockerfile copies {source}"
            place = image / target.lstrip("/")
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place = place / Path(source).name if target.endswith("/") else place
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)
    found = image / PLACE.lstrip("/")
    shutil.copytree(Path(zstandard.__file__).parent, found / "zstandard")  # stands for pip
    subprocess.run(["chmod", "-R", "a+rX,go-w", str(found)], check=True)
    return found


@pytest.fixture
def packed(tmp_path: Path) -> Pack:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print('hello')\n")
    return pack(tmp_path / "code")


@pytest.fixture
async def server(packed: Pack) -> AsyncIterator[str]:
    """The Web API's answers to a member."""

    async def hosts(request: web.Request) -> web.Response:
        return web.json_response({"addresses": ["10.0.0.1", "10.0.0.2"]})

    async def code(request: web.Request) -> web.Response:
        frames = b"".join(compress(packed.part(number)) for number in range(packed.parts))
        return web.Response(body=frames, headers={ARCHIVE_BYTES: str(packed.size_bytes)})

    app = web.Application()
    app.router.add_get("/v1/members/hosts", hosts)
    app.router.add_get("/v1/members/code", code)
    async with serving(app) as url:
        yield url


def interpreter(user: int) -> str:
    """A Python that this user can run and that loads our libraries. Skips the test if there is none."""
    for candidate in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if candidate is None:
            continue
        command = [os.path.realpath(candidate), "-I", "-c", "import sys; print(*sys.version_info[:2])"]
        try:
            answer = subprocess.run(
                command, **as_user(user), env={}, cwd="/", capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if answer.stdout.split() == [str(number) for number in sys.version_info[:2]]:
            return command[0]
    pytest.skip("no Python of this version that every user may run")


def let_in(folder: Path) -> None:
    """Let every user enter the folders that pytest created."""
    for ancestor in (folder, *folder.parents):
        if not ancestor.stat().st_mode & 0o001:
            if not any(part.startswith("pytest-of-") for part in ancestor.parts):
                pytest.skip(f"not everybody may go into {ancestor}")
            ancestor.chmod(ancestor.stat().st_mode | 0o011)


def as_user(user: int) -> dict[str, Any]:
    return {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": []}


@pytest.mark.parametrize("user", [os.geteuid(), NOBODY])
async def test_every_user_can_run_the_first_step(
    tree: Path, packed: Pack, server: str, tmp_path: Path, user: int
) -> None:
    """The step gets only the command and environment of a Pod, and writes nothing to the image."""
    if user != os.geteuid() and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    let_in(tmp_path)
    folder = tmp_path / "kajitori"
    folder.mkdir()
    folder.chmod(0o777)
    step, environment = first_step_of(packed, server)
    (variables,) = instructions("ENV")
    environment |= dict(variable.split("=", 1) for variable in variables) | {"PYTHONPATH": str(tree)}
    environment[first_step.FOLDER_ENV] = str(folder)
    command = [interpreter(user), *step["command"][1:]]
    before = hash_of(tree)
    options: dict[str, Any] = as_user(user) | {"env": environment, "cwd": "/", "capture_output": True, "text": True}
    done = await asyncio.to_thread(lambda: subprocess.run(command, **options, timeout=60, check=False))
    check_done(done, folder)
    assert hash_of(tree) == before


def first_step_of(packed: Pack, server: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the init container of one of two members, and all variables that a kubelet sets."""
    spec = {"image": "x", "replicas": 2, "code": {"digest": packed.digest, "path": "/code"}, "resources": {"cpu": 1}}
    policy = parse_policy({"start": {"image": "kajitori:1", "server": server}})
    decision = decide(parse_spec(spec), policy, Facts(), run=RunIdentity("bert", "team"))
    (step,) = decision.template["spec"]["initContainers"]
    environment = {variable["name"]: variable["value"] for variable in step["env"]}
    environment |= {"KAJI_RUN": "bert", "KAJI_ATTEMPT": "1", "KAJI_RANK": "1", "KAJI_WORLD_SIZE": "2"}
    return step, environment | {first_step.TICKET_ENV: "ticket"}


def check_done(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    """Check that host list and code are where the program looks for them."""
    assert done.returncode == 0, done
    assert (folder / first_step.HOSTS_FILE).read_text().startswith("bert-1-0.bert slots=1\n")
    assert (folder / first_step.CODE_FOLDER / "train.py").read_text() == "print('hello')\n"


def hash_of(tree: Path) -> str:
    names = sorted(str(path) for path in tree.rglob("*"))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


class Buildah:
    """Builds and runs images below a folder, without network: this machine's /usr stands for an image of Python, and a
    package index in a folder for the one that pip uses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        trusting = folder / "policy.json"
        trusting.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        self._building = ["--isolation=chroot", f"--signature-policy={trusting}", "--volume=/usr:/usr:ro"]

    async def __call__(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        places = [f"--root={self._folder}/root", f"--runroot={self._folder}/run", "--storage-driver=vfs"]
        command = ["buildah", *places, verb, *words]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder)}
        options: dict[str, Any] = {"env": environment, "cwd": ROOT, "capture_output": True, "text": True}
        return await asyncio.to_thread(lambda: subprocess.run(command, **options, timeout=120, check=False))

    async def build(self, file: Path, name: str, **arguments: str) -> None:
        folder = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        done = await self("build-using-dockerfile", *self._building, *folder, f"--file={file}", f"--tag={name}", ".")
        assert done.returncode == 0, done.stderr

    async def base(self, name: str) -> None:
        """Build an image with only folders, links and a package index."""
        base = self._folder / "base"
        for folder in ("usr", "etc", "proc", "dev", "sys", "tmp", "simple/zstandard"):
            (base / folder).mkdir(parents=True)
        for link in ("bin", "lib", "lib64", "sbin"):
            (base / link).symlink_to(f"usr/{link}")
        (base / "tmp").chmod(0o1777)
        version = "cp{}{}".format(*sys.version_info[:2])
        wheel = f"zstandard-{zstandard.__version__}-{version}-{version}-linux_{os.uname().machine}.whl"
        (base / "simple" / "zstandard" / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
        self._pack_installed("zstandard", base / "simple" / "zstandard" / wheel)
        file = self._folder / "Base"
        file.write_text("FROM scratch\nCOPY . /\nENV PATH=/usr/bin\n")
        done = await self("build-using-dockerfile", f"--file={file}", f"--tag={name}", str(base))
        assert done.returncode == 0, done.stderr

    @staticmethod
    def _pack_installed(package: str, wheel: Path) -> None:
        """Write a wheel of an installed package, without files that only other interpreters load."""
        with zipfile.ZipFile(wheel, "w") as packed:
            for file in metadata.files(package) or ():
                if "cffi" not in file.name and "__pycache__" not in file.parts and ".." not in file.parts:
                    packed.write(file.locate(), str(file))


@pytest.fixture
def buildah(tmp_path: Path) -> Buildah:
    """Skip the test if no image can be built here."""
    if shutil.which("buildah") is None:
        pytest.skip("no buildah")
    if os.geteuid() != 0:
        pytest.skip("only root can build without user namespaces")
    try:
        command = ["/usr/bin/python3", "-I", "-c", "import pip, sys; print(*sys.version_info[:2])"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        answer = ""
    if answer.split() != [str(number) for number in sys.version_info[:2]]:
        pytest.skip("no /usr/bin/python3 of this version with pip")
    let_in(tmp_path)
    return Buildah(tmp_path)


async def test_the_built_image_runs_the_first_step_as_any_user(
    buildah: Buildah, packed: Pack, server: str, tmp_path: Path
) -> None:
    """It is built from the unchanged Dockerfile, runs as in a Pod, and no user can write to it."""
    folder = tmp_path / "kajitori"
    folder.mkdir()
    folder.chmod(0o777)
    await buildah.base("localhost/python")
    await buildah.build(DOCKERFILE, "localhost/start", PYTHON="localhost/python", INDEX="file:///simple")
    made = await buildah("from", "localhost/start")
    step, environment = first_step_of(packed, server)
    variables = [f"--env={name}={value}" for name, value in environment.items()]
    places = ["--volume=/usr:/usr:ro", f"--volume={folder}:{environment[first_step.FOLDER_ENV]}"]
    words = ["--isolation=chroot", f"--user={NOBODY}:{NOBODY}", *variables, *places, made.stdout.strip(), "--"]
    check_done(await buildah("run", *words, "/usr/bin/env", *step["command"]), folder)
    writable = await buildah("run", *words, "/usr/bin/find", PLACE, "!", "-type", "l", "-writable")
    assert (writable.returncode, writable.stdout) == (0, ""), writable


def test_the_images_command_and_user_are_those_of_the_pod() -> None:
    """So a namespace that forbids root accepts it."""
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    policy = parse_policy({"start": {"image": "kajitori:1", "server": "http://x"}})
    decision = decide(parse_spec({"image": "x", "replicas": 2}), policy, Facts(), run=RunIdentity("bert", "team"))
    assert decision.template["spec"]["initContainers"][0]["command"] == json.loads(entry)
    ((user,),) = instructions("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a kubelet can only tell a numeric user from root"
    assert {stage[0] for stage in instructions("FROM")} == {"${PYTHON}"}, "no other image is needed"


def test_the_images_requirements_are_pinned_and_fit_this_package() -> None:
    """Each version has its hashes and is in the range that this package allows."""
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    words = (ROOT / "deploy" / "image" / "requirements.txt").read_text().split()
    pins = [word for word in words if "==" in word]
    assert [pin.partition("==")[0] for pin in pins] == ["zstandard"]
    assert any(dependency.startswith("zstandard>=") for dependency in ours)
    assert all(word in (*pins, "\\") or word.startswith("--hash=sha256:") for word in words)
