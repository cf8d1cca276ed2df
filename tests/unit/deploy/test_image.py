"""The image of members' first step: what its Dockerfile copies is sufficient, and the built image works if one can be
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
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from aiohttp import web
from tests.harness.platform.images import ImageBuilder, image_builder
from tests.unit.kube.fake_api import serving

from kajitori.codepack.packing import Pack, pack
from kajitori.codepack.parts import ARCHIVE_BYTES, compress
from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.naming import first_step
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reading.parsing import parse_spec

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
def images() -> Iterator[ImageBuilder]:
    with image_builder() as builder:
        yield builder


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
    pytest.skip("no Python of this version that other users can run: apt-get install python3")


def let_in(folder: Path) -> None:
    """Let every user enter the folders that pytest created."""
    for ancestor in (folder, *folder.parents):
        if not ancestor.stat().st_mode & 0o001:
            if not any(part.startswith("pytest-of-") for part in ancestor.parts):
                pytest.skip(f"other users cannot enter {ancestor}: chmod o+x {ancestor}")
            ancestor.chmod(ancestor.stat().st_mode | 0o011)


def as_user(user: int) -> dict[str, Any]:
    return {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": []}


@pytest.mark.parametrize("user", [os.geteuid(), NOBODY])
async def test_every_user_can_run_the_first_step(
    tree: Path, packed: Pack, server: str, tmp_path: Path, user: int
) -> None:
    """The step gets only the command and environment of a Pod, and writes nothing to the image."""
    if user != os.geteuid() and os.geteuid() != 0:
        pytest.skip("only root can become another user: run as root")
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


async def test_the_built_image_runs_the_first_step_as_any_user(
    images: ImageBuilder, packed: Pack, server: str, tmp_path: Path
) -> None:
    """It is built from the unchanged Dockerfile, runs as in a Pod, and no user can write to it."""
    let_in(tmp_path)
    folder = tmp_path / "kajitori"
    folder.mkdir()
    folder.chmod(0o777)
    await images.base(["zstandard"])
    await images.build("deploy/image/Dockerfile", "localhost/start")
    step, environment = first_step_of(packed, server)
    user = f"--user={NOBODY}:{NOBODY}"
    variables = [f"--env={name}={value}" for name, value in environment.items()]
    options = [user, *variables, f"--volume={folder}:{environment[first_step.FOLDER_ENV]}"]
    check_done(await images.run("localhost/start", "/usr/bin/env", *step["command"], options=options), folder)
    search = ("/usr/bin/find", PLACE, "!", "-type", "l", "-writable")
    writable = await images.run("localhost/start", *search, options=[user])
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
