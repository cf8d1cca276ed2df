"""Members of a gang as plain processes: this machine's Python runs their first step, and the members find each
other."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.unit.embedded.kubelet.conftest import Machine, until
from tests.unit.kube.fake_api import serving

from kajitori.codepack.packing import pack
from kajitori.codepack.parts import ARCHIVE_BYTES, compress
from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.naming import first_step, names
from kajitori.core.pods.manifests import MemberPods, launcher_of
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.embedded.kubelet.cluster import Endpoints
from kajitori.entrypoints.parts.run_adapter import FirstStep, RunPods
from kajitori.kube import resources

ADDRESSES = ["127.0.0.1", "127.0.0.2"]
SCRIPT = 'cat "$KAJI_HOSTS"; echo "$MASTER_ADDR"; getent hosts bert-1-1.bert || echo unknown'


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """A Web API that knows the addresses of all members."""

    async def hosts(request: web.Request) -> web.Response:
        return web.json_response({"addresses": ADDRESSES})

    async def code(request: web.Request) -> web.Response:
        return web.Response(body=compress(CODE), headers={ARCHIVE_BYTES: str(len(CODE))})

    app = web.Application()
    app.router.add_get("/v1/members/hosts", hosts)
    app.router.add_get("/v1/members/code", code)
    async with serving(app) as url:
        yield url


def archive() -> tuple[str, bytes]:
    """Return digest and bytes of a folder with a program and a package."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pkg").mkdir()
        (Path(folder) / "pkg/data.py").write_text("X = 42")
        (Path(folder) / "train.py").write_text(
            "import os, pkg.data\nopen('out', 'w')\n"
            "print(pkg.data.X, os.getcwd() == os.path.realpath(os.environ['KAJI_CODE_DIR']), os.getuid())"
        )
        packed = pack(Path(folder))
        return packed.digest, b"".join(packed.listing.read(0, packed.size_bytes))


DIGEST, CODE = archive()


def member(server: str, rank: int, script: str = SCRIPT, **fields: Any) -> dict[str, Any]:
    """Return the Pod of one of two members, as the controller creates it."""
    small = {"cpu": 1, "memory": "64Mi"}
    written = {"image": "x", "command": ["/bin/sh", "-c", script], "replicas": 2, "resources": small, **fields}
    spec = parse_spec(written)
    rules = {
        "start": {"image": "kajitori", "server": server, "deadline": "1m"},
        "security": {"allowRoot": True, "addCapabilities": [], "allowPrivilegeEscalation": True},
    }
    decision = decide(spec, parse_policy(rules), Facts(), run=RunIdentity("bert", "default"))
    pods = MemberPods(
        decision.template, run_name="bert", namespace="default", run_uid="u-1", attempt=1, world_size=2, port=20001,
        launcher=launcher_of(spec), bind_direct=True, key=b"k" * 32,
    )  # fmt: skip
    return {**pods.pod(rank, "node"), "status": {"phase": "Pending"}}


async def started(tmp_path: Path, *, namespaces: bool) -> Machine:
    machine = Machine(tmp_path / "kubelet", adapter=RunPods(), namespaces=namespaces)
    await machine.start()
    return machine


def output(machine: Machine, name: str) -> list[str]:
    return [line.split(" ", 3)[3] for line in machine.log(name).splitlines()]


async def test_without_mounts_variables_name_the_files(tmp_path: Path, server: str) -> None:
    """The hostfile has addresses, since names do not resolve; no file is left afterwards."""
    machine = await started(tmp_path, namespaces=False)
    for rank in range(2):
        await machine.cluster.create(resources.PODS, member(server, rank), "default")
    for rank in range(2):
        await machine.phase(f"bert-1-{rank}", "Succeeded")
        assert output(machine, f"bert-1-{rank}") == ["127.0.0.1 slots=1", "127.0.0.2 slots=1", "127.0.0.1", "unknown"]
    uid = machine.cluster.pod("bert-1-0")["metadata"]["uid"]  # type: ignore[index]
    await until(lambda: not (machine.root / "pods" / uid / "volumes").exists())
    assert first_step.FOLDER[1:] not in os.listdir("/")  # noqa: PTH208
    await machine.tear_down()


async def test_with_mounts_names_of_members_resolve(tmp_path: Path, server: str) -> None:
    """They are in /etc/hosts as in a container, and MASTER_ADDR stays a name. Only the first step can write there."""
    machine = await started(tmp_path, namespaces=True)
    if not machine.kubelet.context.machine.mounts.possible:
        await machine.tear_down()
        pytest.skip(machine.kubelet.context.machine.mounts.why_not)
    script = (
        f"{SCRIPT}; echo $KAJI_HOSTS; touch /kajitori/x 2>/dev/null || echo read-only; grep -c localhost /etc/hosts"
    )
    await machine.cluster.create(resources.PODS, member(server, 0, script), "default")
    await machine.phase("bert-1-0", "Succeeded")
    lines = output(machine, "bert-1-0")
    assert lines[:3] == ["bert-1-0.bert slots=1", "bert-1-1.bert slots=1", "bert-1-0.bert"]
    assert lines[3].split() == ["127.0.0.2", "bert-1-1.bert", "bert-1-1"]
    assert lines[4:6] == ["/kajitori/hosts", "read-only"] and int(lines[6]) > 0
    await machine.tear_down()


async def test_names_in_networks_are_kept_up_to_date_while_a_member_runs(tmp_path: Path, server: str) -> None:
    """Also for members of a gang, whose first step writes an /etc/hosts of theirs, and if the run is put into another
    network meanwhile."""
    machine = await started(tmp_path, namespaces=True)
    if not machine.kubelet.context.machine.mounts.possible:
        await machine.tear_down()
        pytest.skip(machine.kubelet.context.machine.mounts.why_not)
    service = names.network_service("shop")
    await machine.cluster.endpoints.put(("default", [Endpoints(service, (("old", "10.0.0.1"),))]))
    script = "getent hosts bert-1-1.bert; until getent hosts db; do sleep 0.02; done; getent hosts old || echo gone"
    script += "; until getent hosts post; do sleep 0.02; done"
    blog = Endpoints(names.network_service("blog"), (("post", "10.0.0.9"),))
    await machine.cluster.create(resources.PODS, member(server, 0, script, networks=[{"name": "shop"}]), "default")
    await until(lambda: "bert-1-1" in machine.log("bert-1-0"))
    await machine.cluster.endpoints.put(("default", [Endpoints(service, (("db", "10.0.0.2"),)), blog]))
    await until(lambda: "gone" in machine.log("bert-1-0"))
    both = {names.ANNOTATION_NETWORKS: f"{service},{blog.service}"}
    await machine.cluster.patch(resources.PODS, "bert-1-0", {"metadata": {"annotations": both}}, "default")
    await machine.phase("bert-1-0", "Succeeded")
    found = [line.split() for line in output(machine, "bert-1-0")]
    assert found == [["127.0.0.2", "bert-1-1.bert", "bert-1-1"], ["10.0.0.2", "db"], ["gone"], ["10.0.0.9", "post"]]
    await machine.tear_down()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as other users: run as root")
async def test_every_user_can_read_the_host_list(tmp_path: Path, server: str) -> None:
    """Even a user without an entry in /etc/passwd. The step itself needs only what the kubelet can read."""
    os.chmod(tmp_path, 0o755)  # noqa: PTH101
    machine = await started(tmp_path, namespaces=True)
    pod = member(server, 0, 'id -u; cat "$KAJI_HOSTS"', user="54321:54321", workingDir="/")
    await machine.cluster.create(resources.PODS, pod, "default")
    await machine.phase("bert-1-0", "Succeeded")
    assert output(machine, "bert-1-0") == ["54321", "bert-1-0.bert slots=1", "bert-1-1.bert slots=1"]
    await machine.tear_down()


TRAIN = f"exec {sys.executable} train.py"


@pytest.mark.parametrize("namespaces", [False, True])
async def test_a_program_starts_in_the_folder_of_its_code(tmp_path: Path, server: str, namespaces: bool) -> None:
    """The folder may be anywhere, and the program may write to it. A single member does not wait for others."""
    machine = await started(tmp_path, namespaces=namespaces)
    code = {"digest": DIGEST, "path": "/somewhere/code"}
    await machine.cluster.create(resources.PODS, member(server, 0, TRAIN, code=code, replicas=1), "default")
    await machine.phase("bert-1-0", "Succeeded")
    assert output(machine, "bert-1-0") == [f"42 True {os.getuid()}"]
    assert "somewhere" not in os.listdir("/")  # noqa: PTH208
    await machine.tear_down()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as other users: run as root")
async def test_the_code_belongs_to_the_user_of_the_program(tmp_path: Path, server: str) -> None:
    os.chmod(tmp_path, 0o755)  # noqa: PTH101
    machine = await started(tmp_path, namespaces=True)
    pod = member(server, 0, "cat train.py > copy && id -u", user="54321:54321", code={"digest": DIGEST}, replicas=1)
    await machine.cluster.create(resources.PODS, pod, "default")
    await machine.phase("bert-1-0", "Succeeded")
    assert output(machine, "bert-1-0") == ["54321"]
    await machine.tear_down()


async def test_code_with_another_digest_never_runs(tmp_path: Path, server: str) -> None:
    machine = await started(tmp_path, namespaces=False)
    other = {"digest": "sha256:" + "0" * 64}
    await machine.cluster.create(resources.PODS, member(server, 0, "echo ran", code=other), "default")
    status = await machine.phase("bert-1-0", "Failed")
    ended = status["initContainerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], "could not be unpacked" in ended["message"]) == (first_step.NO_CODE, True)
    assert not machine.log("bert-1-0")
    await machine.tear_down()


async def test_the_first_step_does_not_need_python_in_the_path(tmp_path: Path, server: str) -> None:
    """The content of its working folder does not matter either."""
    machine = Machine(tmp_path / "kubelet", adapter=RunPods(), extra_env={"PATH": "/nowhere", "HOME": str(tmp_path)})
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    await machine.start()
    await machine.cluster.create(resources.PODS, member(server, 0, "exit 0"), "default")
    await machine.phase("bert-1-0", "Succeeded")
    await machine.tear_down()


async def test_variables_of_a_pod_cannot_change_the_first_step(tmp_path: Path, server: str) -> None:
    """The step runs as the kubelet's user. Only reserved variables of the Pod count, and none decides where it
    writes."""
    (tmp_path / "http").mkdir()
    (tmp_path / "http" / "__init__.py").write_text("raise SystemExit(9)")
    machine = await started(tmp_path, namespaces=False)
    pod = member(server, 0, 'cat "$KAJI_HOSTS" > /dev/null')
    foreign = {"PYTHONHOME": str(tmp_path), "PYTHONPATH": str(tmp_path), "LD_PRELOAD": "/none", "PATH": "/none"}
    variables = foreign | {first_step.FOLDER_ENV: str(tmp_path)}
    env = pod["spec"]["initContainers"][0]["env"]
    env += [{"name": name, "value": value} for name, value in variables.items()]
    await machine.cluster.create(resources.PODS, pod, "default")
    await machine.phase("bert-1-0", "Succeeded")
    assert sorted(os.listdir(tmp_path)) == ["http", "kubelet"]  # noqa: PTH208
    await machine.tear_down()


@pytest.mark.parametrize("source", [{"hostPath": {"path": "/etc"}}, {"secret": {"secretName": "x"}}])
def test_only_a_step_that_writes_to_an_emptydir_is_a_first_step(source: dict[str, Any]) -> None:
    """A Pod that only looks like a member is treated like any other Pod."""
    pod = member("http://x", 0)
    (step,) = pod["spec"]["initContainers"]
    adapter = RunPods()
    assert isinstance(adapter.local_program(pod, step), FirstStep)
    assert adapter.local_program(pod, pod["spec"]["containers"][0]) is None
    assert adapter.local_program({**pod, "metadata": {"annotations": {}}}, step) is None
    deeper = {**step, "volumeMounts": [{**step["volumeMounts"][0], "subPath": "x"}]}
    assert adapter.local_program(pod, deeper) is None
    volumes = [{"name": first_step.VOLUME, **source}]
    assert adapter.local_program({**pod, "spec": {**pod["spec"], "volumes": volumes}}, step) is None


async def test_a_failed_first_step_fails_the_pod_with_its_message(tmp_path: Path) -> None:
    """The program is never started."""

    async def over(request: web.Request) -> web.Response:
        return web.json_response({"code": "AttemptOver", "detail": "attempt 1 is over"}, status=403)

    app = web.Application()
    app.router.add_get("/v1/members/hosts", over)
    machine = await started(tmp_path, namespaces=False)
    async with serving(app) as url:
        await machine.cluster.create(resources.PODS, member(url, 0, "echo ran"), "default")
        status = await machine.phase("bert-1-0", "Failed")
    ended = status["initContainerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == first_step.REFUSED
    assert ended["message"].strip() == f"the Web API at {url} refused: AttemptOver: attempt 1 is over"
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] != "CrashLoopBackOff"
    assert not machine.log("bert-1-0")
    await machine.tear_down()
