"""The image of members' first step, without building it: what its Dockerfile copies is all that the step needs."""

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
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from aiohttp import web
from tests.unit.kube.fake_api import serving

from kajitori.codepack.packing import Pack, pack
from kajitori.codepack.parts import ARCHIVE_BYTES, compress
from kajitori.core import first_step
from kajitori.core.decide import Facts, RunIdentity, decide
from kajitori.core.policy import parse_policy
from kajitori.core.run import parse_spec

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "deploy" / "image" / "Dockerfile"
PLACE = "/opt/kajitori"
NOBODY = 54321
"""A user without a line in /etc/passwd."""


def instructions(kind: str) -> list[list[str]]:
    """The words of every instruction of a kind."""
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith(f"{kind} ")]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What `docker build` would make of /opt/kajitori, from the folder that it is given; without the compiled files."""
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
    """What a member asks the Web API for."""

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
    """One that this user can run, and that loads what ours does; the test is skipped where there is none."""
    for candidate in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if candidate is None:
            continue
        asked = [os.path.realpath(candidate), "-I", "-c", "import sys; print(*sys.version_info[:2])"]
        try:
            said = subprocess.run(asked, **as_user(user), env={}, cwd="/", capture_output=True, text=True, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        if said.stdout.split() == [str(number) for number in sys.version_info[:2]]:
            return asked[0]
    pytest.skip("no Python of this version that anybody may run")


def let_in(folder: Path) -> None:
    """Lets everybody pass through the folders that pytest made."""
    for each in (folder, *folder.parents):
        if not each.stat().st_mode & 0o001:
            if not any(part.startswith("pytest-of-") for part in each.parts):
                pytest.skip(f"not everybody may go into {each}")
            each.chmod(each.stat().st_mode | 0o011)


def as_user(user: int) -> dict[str, Any]:
    return {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": []}


@pytest.mark.parametrize("user", [os.geteuid(), NOBODY])
async def test_it_does_the_first_step_as_anybody(
    tree: Path, packed: Pack, server: str, tmp_path: Path, user: int
) -> None:
    """With the command and the environment that a Pod gives it, and no other; nothing is written to the image."""
    if user != os.geteuid() and os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    let_in(tmp_path)
    given = tmp_path / "kajitori"
    given.mkdir()
    given.chmod(0o777)
    spec = {"image": "x", "replicas": 2, "code": {"digest": packed.digest, "path": "/code"}, "resources": {"cpu": 1}}
    policy = parse_policy({"start": {"image": "kajitori:1", "server": server}})
    decision = decide(parse_spec(spec), policy, Facts(), run=RunIdentity("bert", "team"))
    (step,) = decision.template["spec"]["initContainers"]
    (said,) = instructions("ENV")
    environment = dict(variable.split("=", 1) for variable in said) | {"PYTHONPATH": str(tree)}
    environment |= {variable["name"]: variable["value"] for variable in step["env"]}
    environment |= {"KAJI_RUN": "bert", "KAJI_ATTEMPT": "1", "KAJI_RANK": "1", "KAJI_WORLD_SIZE": "2"}
    environment |= {first_step.TICKET_ENV: "ticket", first_step.FOLDER_ENV: str(given)}
    command = [interpreter(user), *step["command"][1:]]
    before = hash_of(tree)
    options: dict[str, Any] = as_user(user) | {"env": environment, "cwd": "/", "capture_output": True, "text": True}
    done = await asyncio.to_thread(lambda: subprocess.run(command, **options, timeout=60, check=False))
    assert done.returncode == 0, done
    assert (given / first_step.HOSTS_FILE).read_text().startswith("bert-1-0.bert slots=1\n")
    assert (given / first_step.CODE_FOLDER / "train.py").read_text() == "print('hello')\n"
    assert hash_of(tree) == before


def hash_of(tree: Path) -> str:
    names = sorted(str(path) for path in tree.rglob("*"))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def test_it_starts_as_pods_start_it_and_as_nobody_in_particular() -> None:
    """What a Pod says is what the image does by itself; a namespace that forbids root takes it."""
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    policy = parse_policy({"start": {"image": "kajitori:1", "server": "http://x"}})
    decision = decide(parse_spec({"image": "x", "replicas": 2}), policy, Facts(), run=RunIdentity("bert", "team"))
    assert decision.template["spec"]["initContainers"][0]["command"] == json.loads(entry)
    ((user,),) = instructions("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number, so that a kubelet can tell that it is not root"
    assert {stage[0] for stage in instructions("FROM")} == {"${PYTHON}"}, "no other image is asked for"


def test_what_it_installs_is_what_this_package_needs() -> None:
    """Of the same versions."""
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted = (ROOT / "deploy" / "image" / "requirements.txt").read_text().split()
    assert wanted and set(wanted) <= set(ours)
