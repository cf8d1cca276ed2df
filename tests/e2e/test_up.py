"""`kaji up` and the other commands as a user types them, with real servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import psutil
import pytest
from click.testing import CliRunner
from tests.harness import commands
from tests.harness.commands import kaji, start_kaji
from tests.harness.kaji_up import KajiUp
from tests.harness.servers.real_server import free_port
from tests.harness.waiting import PATIENCE_SECONDS, wait_until
from tests.helpers.brought_code import assert_all_get_the_same
from tests.helpers.network.networks import in_a_network_of_its_own, ip, needs_networks
from tests.helpers.output_schemas import check_output

from kajitori.cli.app import kaji as kaji_group
from kajitori.cli.context import Cli
from kajitori.cli.help.contract import CONTRACTS


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KajiUp]:
    it = KajiUp(tmp_path_factory.mktemp("up"))
    it.start("--nodes", "4", "--gpus", "8", "--gpu-type", "h100")
    try:
        yield it
    finally:
        if names := it.runs():
            it.kaji("rm", "-f", *names)
            wait_until(lambda: not it.runs())
        it.kill()


pytestmark = pytest.mark.xdist_group("e2e-up")


def test_a_sweep_from_its_submission_to_its_results(up: KajiUp) -> None:
    """Each member is a process with its own index. The run's exit code is that of the failed member."""
    folder = up.home / "grid"
    folder.mkdir()
    script = """import json, os, sys
index = int(os.environ["KAJI_ARRAY_INDEX"])
print("this is", index, "alone in", os.environ["KAJI_WORLD_SIZE"])
if index == 4:
    sys.exit(7)
json.dump({"square": index * index}, open(os.environ["KAJI_RESULT"], "w"))
"""
    (folder / "step.py").write_text(script)
    asked = ("--name", "grid", "--array", "2,4-5%2", "--restarts", "0", "--cpus", "0.5", "-m", "64m")
    answer = up.kaji("run", *asked, "--code", "grid", "python:3", "python3", "step.py")
    assert answer.returncode == 7, answer.stderr
    assert "3 of 3 ended, 1 of them failed" in answer.stderr
    rows = json.loads(up.kaji("results", "grid", "-o", "json").stdout)["items"]
    found = [(row["index"], row["state"], row.get("exitCode"), row.get("result")) for row in rows]
    assert found == [
        (2, "Succeeded", 0, {"square": 4}),
        (4, "Failed", 7, None),
        (5, "Succeeded", 0, {"square": 25}),
    ]
    assert up.kaji("logs", "grid", "--index", "5").stdout == "this is 5 alone in 1\n"
    assert up.kaji("run", "--array", "5-1", "python:3", "true").returncode == 2


def test_the_page_about_python_does_what_it_says(up: KajiUp) -> None:
    """All blocks of the page, as one program: runs, errors, asyncio, functions, maps, pools, and a call found again."""
    page = (Path(__file__).parents[2] / "docs/howto/from-python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?<!-->\n)^```python\n(.*?)^```", page, re.S | re.M)
    assert len(blocks) >= 7
    (up.home / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "page.py"], env=up.environment, cwd=up.home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(": Succeeded")


async def test_an_assistant_reads_a_run_through_kaji_mcp(up: KajiUp) -> None:
    """`kaji mcp` as a child of the SDK's own client, which speaks over stdin and stdout, and checks the answers."""
    import mcp
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    assert up.kaji("run", "-q", "--name", "told", "python:3.12", "python3", "-c", "print(6 * 7)").returncode == 0
    child = StdioServerParameters(
        command=str(Path(sys.executable).parent / "kaji"), args=["mcp"], env=up.environment, cwd=up.home
    )
    async with mcp.Client(stdio_client(child)) as client:
        assert "list_runs" in (client.instructions or "")
        read = await client.call_tool("read_logs", {"run": "told"})
        assert read.structured_content is not None and not read.is_error
        assert [line["line"] for line in read.structured_content["lines"]] == ["42"]
        done = await client.call_tool("get_run", {"run": "told"})
        assert done.structured_content is not None
        assert done.structured_content["run"]["phase"] == "Succeeded"
        assert (await client.call_tool("get_run", {"run": "nobody"})).is_error


OUTPUTS = (
    "ps -a", "describe shown", "explain shown", "what-if --cpus 1 x true", "why shown", "idle", "events shown", "stats",
    "metrics shown", "report", "report shown", "inspect shown", "history --all-users", "files shown", "logs shown",
    "label held stage=final", "note held kept", "update held --restarts 3", "compare held shown",
    "results swept", "top held", "stacks held", "port held", "secret create kept KEY", "secret ls", "secret rm kept",
    "volumes", "gpus", "queue", "nodes", "metrics --node NODE", "team ls", "policy show", "policy explain",
    "policy check --live", "policy diff policy.yaml", "policy audit",
    "traffic", "network ls", "network forecast", "plan network --nodes 10", "usage", "audit log",
    "whoami", "token ls", "notify ls", "context ls", "context show", "version", "stop shown", "wait shown",
    "run --dry-run x", "resume shown", "park held", "wait held", "start held", "kill held", "wait held", "restart held",
    "rm -f shown held", "prune -f", "drain NODE", "uncordon NODE",
)  # fmt: skip
"""Everything with -o json that one machine can do, in this order."""

JOINED = ("inspect", "whoami")
"""Their schemas join two shapes, of which neither names the fields of the other."""

OUTPUTS_ELSEWHERE = {
    **dict.fromkeys(
        ("install", "restore", "token create", "token rm", "notify rm", "keep", "volumes rm"), "help/test_contract.py"
    ),
    "preflight": "verbs/cluster/test_preflight.py",
    "context use": "test_context.py",
    "backup": "verbs/platform/test_backup.py",
    **dict.fromkeys(("notify add", "notify test"), "verbs/people/test_notify.py"),
    **dict.fromkeys(("network check",), "verbs/cluster/test_network.py"),
    "network bench": "network/test_bench.py",
    "audit clients": "verbs/cluster/test_audit.py",
}
"""The unit test of `tests/unit/cli` that checks the output of each other verb against its schema."""


def verb_and_rest(line: str) -> tuple[str, list[str]]:
    words = line.split()
    return (" ".join(words[:2]), words[2:]) if " ".join(words[:2]) in CONTRACTS else (words[0], words[1:])


def test_a_test_checks_the_json_of_every_verb() -> None:
    """A new verb belongs into one of the two tables."""
    checked = {verb_and_rest(line)[0] for line in OUTPUTS} | set(OUTPUTS_ELSEWHERE)
    assert checked == {verb for verb, contract in CONTRACTS.items() if contract.shape}
    for name in OUTPUTS_ELSEWHERE.values():
        assert "check_output(" in (Path(__file__).parents[1] / "unit/cli" / name).read_text(encoding="utf-8"), name


def test_outputs_of_verbs_fit_their_schemas(up: KajiUp) -> None:
    """What a real server makes each verb print with -o json is what the reference promises."""
    server = json.loads((up.data / "kaji.json").read_text())
    environment = up.environment | {"KAJI_SERVER": server["url"], "KAJI_TOKEN": server["token"]}
    node = socket.gethostname().lower()
    policy = up.home / "policy.yaml"
    policy.write_text('defaults: {cpu: "2"}')
    small = ("--cpus", "0.1", "-m", "64m")
    assert up.kaji("run", "-d", "--name", "held", *small, "-p", "8765", "python:3", "sleep", "600").returncode == 0
    assert up.kaji("run", "-d", "--name", "swept", *small, "--array", "0-1", "python:3", "true").returncode == 0
    assert up.kaji("run", "-d", "--name", "shown", *small, "--checkpoint", "/ckpt", "python:3", "echo").returncode == 0
    wait_until(lambda: [up.status(run).get("phase") for run in ("held", "swept")] == ["Running", "Succeeded"])
    wait_until(lambda: up.status("shown").get("phase") == "Succeeded")
    wrong = {}
    for line in OUTPUTS:
        verb, rest = verb_and_rest(line.replace("policy.yaml", str(policy)).replace("NODE", node))
        done = CliRunner().invoke(
            kaji_group, [*verb.split(), "-o", "json", *rest], obj=Cli(environment=environment), input="a value\n"
        )
        try:
            assert done.exit_code in (0, 1), done.stderr
            documents = done.stdout.splitlines() if verb == "logs" else [done.stdout]
            for document in documents:
                check_output(json.loads(document), f"verbs/{verb}", complete=verb not in JOINED)
        except (AssertionError, ValueError, jsonschema.ValidationError) as error:
            wrong[line] = str(error)[:900]
    assert not wrong, json.dumps(wrong, indent=1)
    robot = CliRunner().invoke(kaji_group, ["token", "create", "--for", "ci"], obj=Cli(environment=environment))
    assert "no robot can have rights of its own here" in robot.stderr and "token that its owner has" in robot.stderr


def test_kaji_run_prints_the_programs_output(up: KajiUp) -> None:
    answer = up.kaji("run", "-q", "--name", "sum", "python:3.12", "python3", "-c", "print(6 * 7)")
    assert (answer.returncode, answer.stdout) == (0, "42\n"), answer.stderr


def test_readyz_succeeds_once_this_machine_is_a_node(tmp_path: Path) -> None:
    it = KajiUp(tmp_path)
    port = free_port()

    def answer(path: str) -> tuple[int, Any]:
        token = (it.data / "token").read_text().strip() if (it.data / "token").exists() else ""
        headers = {"Authorization": f"Bearer {token}"}
        try:
            found = httpx2.get(f"http://127.0.0.1:{port}{path}", headers=headers, timeout=PATIENCE_SECONDS)
        except httpx2.TransportError:
            return 0, None
        return found.status_code, found.json()

    with it.log.open("ab") as log:
        it.process = start_kaji(
            "up", "--data", str(it.data), "--port", str(port), env=it.environment, cwd=it.home, log=log
        )
    try:
        wait_until(lambda: answer("/readyz")[0] == 200, it.log.read_text, every=0.002)
        nodes = answer("/v1/nodes")[1]["items"]
        assert [node["ready"] for node in nodes] == [True], nodes
    finally:
        it.kill()


@pytest.mark.parametrize(
    ("command", "code"),
    [(("sh", "-c", "exit 3"), 3), (("no-such-program",), 127), (("sh", "-c", "kill -9 $$"), 137)],
)
def test_the_exit_code_is_the_programs_own(up: KajiUp, command: tuple[str, ...], code: int) -> None:
    answer = up.kaji("run", "-q", "--restarts", "0", "busybox", *command)
    assert answer.returncode == code, answer


def test_a_refused_run_names_every_reason_and_leaves_nothing(up: KajiUp) -> None:
    """Faults of options, spec and policy at once."""
    wrong = ("--env-file", "no.env", "-m", "lots", "--priority", "urgent")
    arguments = ("--gpus", "9", "--gpu-type", "b300", "--privileged", "-v", "/etc:/elsewhere", *wrong)
    answer = up.kaji("run", "--name", "greedy", *arguments, "busybox", "true")
    assert answer.returncode == 2
    for word in ("6 reasons", "b300", "h100", "privileged", "/etc", "no.env", "lots", "urgent"):
        assert word in answer.stderr
    assert "Traceback" not in answer.stderr
    assert up.kaji("describe", "greedy").returncode == 2


def test_members_of_a_gang_find_each_other(up: KajiUp) -> None:
    """KAJI_HOSTS lists all of them by rank before the program starts. A run with one member has no such list."""
    script = 'sed "s/^[^ ]*/$KAJI_RANK sees &/" "$KAJI_HOSTS"; echo "meets at $MASTER_ADDR"'
    answer = up.kaji("run", "-q", "--name", "found", "-n", "2", "--cpus", "0.2", "busybox", "sh", "-c", script)
    assert answer.returncode == 0, answer.stderr
    logs = up.kaji("logs", "--all-ranks", "found").stdout
    lines = [line for line in logs.splitlines() if "sees" in line]
    assert len(lines) == 4, logs
    for rank in range(2):
        seen = [line.split("sees ")[1] for line in lines if f"{rank} sees" in line]
        assert seen in (
            ["found-1-0.found slots=1", "found-1-1.found slots=1"],
            ["127.0.0.1 slots=1", "127.0.0.1 slots=1"],  # where names cannot be made to resolve
        )
    alone = up.kaji("run", "-q", "busybox", "sh", "-c", "echo ${KAJI_HOSTS-nobody}")
    assert alone.stdout == "nobody\n"


def test_the_network_of_this_machine_is_measured(up: KajiUp) -> None:
    """By real runs over loopback, which the conclusion says; they are removed afterwards."""
    here = socket.gethostname().lower()
    answer = up.kaji("network", "bench", here, here, "--seconds", "0.2", "--cpus", "0.2", "-o", "json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert [item["kind"] for item in found["items"]] == ["pods", "hosts"]
    assert all(item["bitsPerSecond"] > 0 and item["mtu"] >= 1280 for item in found["items"])
    assert found["conclusions"][0].startswith(f"Both ends are on {here}")
    wait_until(lambda: not any(name.startswith("network-") for name in up.runs()))


def test_a_killed_member_restarts_the_gang_once(up: KajiUp) -> None:
    """kill -9 of one of two members: a new attempt of both."""
    script = "until [ $KAJI_ATTEMPT = 2 ]; do sleep 0.1; done; echo attempt $KAJI_ATTEMPT rank $KAJI_RANK"
    mark = ("-e", f"MARK={up.home}")
    arguments = ("--name", "pair", "-n", "2", "--restarts", "2", "--cpus", "0.2", *mark, "busybox", "sh", "-c", script)
    assert up.kaji("run", "-d", *arguments).returncode == 0
    wait_until(lambda: len(up.members("pair")) == 2 and up.status("pair")["phase"] == "Running")
    os.kill(up.members("pair")[1], signal.SIGKILL)
    assert up.kaji("wait", "pair").stdout.strip() == "0"
    status = up.status("pair")
    assert (status["phase"], status["restarts"], status["attempts"]) == ("Succeeded", 1, 2)
    logs = up.kaji("logs", "--all-ranks", "pair").stdout
    assert "attempt 2 rank 0" in logs and "attempt 2 rank 1" in logs


def test_stacks_name_the_rank_that_the_others_wait_for(up: KajiUp) -> None:
    """A gang of which rank 2 waits for a lock, and the others for rank 2."""
    folder = up.home / "frozen"
    folder.mkdir()
    script = """import os, threading, time
def load_batch(lock):
    lock.acquire()
    lock.acquire()
def wait_for_all():
    while not os.path.exists("done"):
        time.sleep(0.01)
print("ready", flush=True)
load_batch(threading.Lock()) if os.environ["KAJI_RANK"] == "2" else wait_for_all()
"""
    (folder / "train.py").write_text(script)
    asked = ("--name", "frozen", "-n", "4", "--cpus", "0.1", "--code", "frozen", "python:3", "python3", "train.py")
    assert up.kaji("run", "-d", *asked).returncode == 0
    wait_until(lambda: up.kaji("logs", "--all-ranks", "frozen").stdout.count("ready") == 4)
    told: list[str] = []

    def is_told() -> bool:
        told[:] = up.kaji("stacks", "frozen").stdout.splitlines()
        return len(told) == 2

    wait_until(is_told, lambda: "\n".join(told))
    here = socket.gethostname().lower()
    assert told[0] == f"Rank 2 on {here} is in load_batch (train.py:4)."
    assert told[1].startswith("3 ranks (0-1,3) are in wait_for_all (train.py:")
    assert "    load_batch (" in up.kaji("stacks", "--rank", "2", "frozen").stdout
    assert told[0] in up.kaji("why", "frozen").stdout
    up.kaji("rm", "-f", "frozen")


def test_every_member_of_every_attempt_gets_the_same_code(up: KajiUp) -> None:
    assert_all_get_the_same(up.kaji, up.home / "brought", "--cpus", "0.5", "-m", "64m")


def test_explain_says_what_a_waiting_run_lacks_and_who_has_it(up: KajiUp) -> None:
    gang = ("--gpus", "8", "--gpu-type", "h100", "busybox", "sleep", "inf")
    assert up.kaji("run", "-d", "--name", "holder", "-n", "3", *gang).returncode == 0
    wait_until(lambda: up.status("holder")["phase"] == "Running", lambda: up.status("holder"))
    assert up.kaji("run", "-d", "--name", "waiter", "-n", "2", *gang).returncode == 0
    wait_until(lambda: up.status("waiter").get("reason") == "WaitingForGPU", lambda: up.status("waiter"))
    said = up.kaji("explain", "waiter").stdout
    assert "holder" in said and "h100" in said
    assert up.kaji("stop", "holder").returncode == 0
    wait_until(lambda: up.status("waiter")["phase"] == "Running", lambda: up.status("waiter"))
    assert up.kaji("rm", "-f", "holder", "waiter").returncode == 0


def test_a_run_over_its_memory_limit_is_not_started_again(up: KajiUp) -> None:
    hog = "x = []\nwhile True: x.append(bytearray(4 << 20))"
    arguments = ("--name", "hog", "-m", "128m", "--restarts", "5", "python:3.12", "python3", "-c", hog)
    assert up.kaji("run", "-q", *arguments).returncode == 137
    status = up.status("hog")
    assert (status["reason"], status["attempts"], status.get("restarts", 0)) == ("OutOfMemory", 1, 0)


def test_a_checkpoint_is_kept_until_a_run_is_deleted_with_it(up: KajiUp) -> None:
    """The next run of the same name continues from it; after `rm -v` it starts from the beginning."""
    script = "cd $KAJI_CHECKPOINT_DIR; cat step 2>/dev/null || echo 0; echo 1 > step"
    command = ("run", "-q", "--rm", "--name", "saved", "--checkpoint", "/ckpt", "busybox:1", "sh", "-c", script)
    assert up.kaji(*command).stdout == "0\n"
    wait_until(lambda: "saved" not in up.runs())
    assert up.kaji(*(word for word in command if word != "--rm")).stdout == "1\n"
    assert up.kaji("rm", "-v", "saved").returncode == 0
    wait_until(lambda: "saved" not in up.runs())
    assert up.kaji(*command).stdout == "0\n"


STUBBORN = ("bash", "-c", "trap '' TERM; echo ready; sleep 600 & while :; do wait; done")
"""A program that ignores SIGTERM."""


def test_a_name_is_free_when_rm_returns(up: KajiUp) -> None:
    """`rm -f` kills the program, however long its grace is, as docker does."""
    for _ in range(2):
        made = up.kaji("run", "-q", "-d", "--name", "again", "--grace", "1h", "bash:5", *STUBBORN)
        assert made.returncode == 0, made.stderr
        wait_until(lambda: "ready" in up.kaji("logs", "again").stdout, lambda: up.kaji("describe", "again").stdout)
        began = time.monotonic()
        assert up.kaji("rm", "-f", "again").stdout == "again\n"
        assert time.monotonic() - began < 30
        assert "again" not in up.runs()


def test_a_detached_run_with_rm_is_deleted_by_the_cluster(up: KajiUp) -> None:
    """After its end, so that `kaji wait` still sees the exit code."""
    assert up.kaji("run", "-q", "-d", "--rm", "--name", "brief", "python:3.12", "true").returncode == 0
    assert up.kaji("wait", "brief").stdout == "0\n"
    wait_until(lambda: "brief" not in up.runs(), lambda: up.kaji("describe", "brief").stdout)


def test_files_are_copied_into_a_member_and_back(up: KajiUp) -> None:
    """By tar in the member. `kaji top` lists the member's processes only."""
    there, here = up.home / "there", up.home / "here"
    (here / "sub").mkdir(parents=True)
    there.mkdir()
    content = os.urandom(300_000)
    (here / "sub" / "file").write_bytes(content)
    assert up.kaji("run", "-q", "-d", "--name", "desk", "bash:5", *STUBBORN).returncode == 0
    wait_until(lambda: "ready" in up.kaji("logs", "desk").stdout, lambda: up.kaji("describe", "desk").stdout)
    copied = up.kaji("cp", str(here), f"desk:{there}")
    assert copied.returncode == 0, copied.stderr
    assert (there / "here" / "sub" / "file").read_bytes() == content
    copied = up.kaji("cp", f"desk:{there}/here", str(up.home / "back"))
    assert copied.returncode == 0, copied.stderr
    assert (up.home / "back" / "sub" / "file").read_bytes() == content
    missing = up.kaji("cp", f"desk:{there}/nope", str(up.home))
    assert missing.returncode == 2 and "No such file" in missing.stderr, missing
    document = json.loads(up.kaji("top", "desk", "-o", "json").stdout)
    check_output(document, "verbs/top", complete=True)
    shown = document["items"]
    assert sorted(process["command"].split()[0] for process in shown) == ["bash", "sleep"], shown
    assert up.kaji("kill", "desk").stdout == "desk\n"
    assert up.kaji("wait", "desk").returncode == 0
    assert up.kaji("rm", "desk").stdout == "desk\n"


def test_no_other_user_can_read_the_token(up: KajiUp) -> None:
    for name in ("kaji.json", "token", "kubeconfig"):
        assert (up.data / name).stat().st_mode & 0o077 == 0, name


def test_kubectl_sees_the_runs(up: KajiUp) -> None:
    up.kaji("run", "-q", "--name", "seen", "busybox", "true")
    environment = {**up.environment, "KUBECONFIG": str(up.data / "kubeconfig")}
    command = ["kubectl", "get", "run", "seen", "-o", "jsonpath={.status.phase}"]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert answer.stdout == "Succeeded", answer.stderr


def test_a_second_kaji_up_on_the_same_folder_is_refused(up: KajiUp) -> None:
    """It changes no file of the first one, which works on."""
    files = [up.data / name for name in ("kaji.json", "kubeconfig", "token", "ports.json", "pki/ca.crt")]
    before = [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
    answer = up.kaji("up", "--data", str(up.data), "--nodes", "1")
    assert answer.returncode == 125
    assert str(up.data) in answer.stderr and "Traceback" not in answer.stderr
    assert [(file.read_bytes(), file.stat().st_mtime_ns) for file in files] == before
    assert up.kaji("run", "-q", "--rm", "busybox", "echo", "still here").stdout == "still here\n"


def test_kaji_up_names_the_option_that_it_cannot_use(up: KajiUp, tmp_path: Path) -> None:
    """A file in place of a folder, an address of another machine, a port in use: without a traceback."""
    port = json.loads((up.data / "kaji.json").read_text())["url"].rpartition(":")[2]
    file = tmp_path / "file"
    file.touch()
    for options, code, words in (
        (("--data", str(file)), 2, f"--data: {file} cannot be used: it is not a folder"),
        (("--host", "192.0.2.1"), 2, "--host: 192.0.2.1: Cannot assign requested address"),
        (("--port", port), 125, f"cannot listen on 127.0.0.1:{port}: the port is in use"),
    ):
        answer = up.kaji("up", "--data", str(tmp_path / "data"), *options)
        assert (answer.returncode, words in answer.stderr) == (code, True), answer.stderr


def test_kaji_up_says_which_policy_is_in_force(up: KajiUp, tmp_path: Path) -> None:
    """A policy file in the data folder replaces the default for one machine, and the log says so. A missing or faulty
    file is refused before a cluster starts."""
    wait_until(lambda: "The policy is the default for one machine" in up.log.read_text(), up.log.read_text)
    it = KajiUp(tmp_path)
    it.data.mkdir()
    missing = it.kaji("up", "--data", str(it.data), "--policy", "no.yaml")
    assert (missing.returncode, "there is no file no.yaml" in missing.stderr) == (2, True)
    file = it.data / "policy.yaml"
    file.write_text("defaults: {restart: 1}")
    faulty = it.kaji("up", "--data", str(it.data))
    assert (faulty.returncode, "did you mean restarts?" in faulty.stderr) == (2, True)
    assert not (it.data / "kubeconfig").exists()
    file.write_text("defaults: {restarts: 1}")
    try:
        it.start("--no-kubelet", "--nodes", "1", "--memory")
        wait_until(lambda: f"The policy is {file}, which replaces" in it.log.read_text(), it.log.read_text)
    finally:
        it.kill()


def test_other_machines_are_served_with_tls(tmp_path: Path) -> None:
    """Commands and members trust the folder's own authority. No token is sent in plain text."""
    up = KajiUp(tmp_path)
    up.start("--host", "0.0.0.0")
    try:
        said = json.loads((up.data / "kaji.json").read_text())
        assert said["url"].startswith("https://127.0.0.1:")
        assert up.kaji("run", "--rm", "--replicas", "2", "x", "sh", "-c", "cat $KAJI_HOSTS").returncode == 0
        url = next(word for word in up.log.read_text().split() if word.startswith("KAJI_SERVER=https://"))
        token = (up.data / "token").read_text().strip()
        elsewhere = {"KAJI_SERVER": url.partition("=")[2], "KAJI_TOKEN": token}
        trusted = up.environment | elsewhere | {"KAJI_CA": str(up.data / "pki" / "ca.crt")}
        assert kaji("ps", env=trusted, cwd=up.home).returncode == 0
        assert "can't be trusted" in kaji("ps", env=up.environment | elsewhere, cwd=up.home).stderr
        plain = {"KAJI_SERVER": elsewhere["KAJI_SERVER"].replace("https", "http")}
        refused = kaji("ps", env=trusted | plain, cwd=up.home)
        assert (refused.returncode, "plain text" in refused.stderr) == (2, True)
    finally:
        up.kill()


def test_nothing_is_lost_when_kaji_up_is_killed_and_restarted(tmp_path: Path) -> None:
    """SIGKILL of the whole platform: the member runs on, and its end and its log are known afterwards."""
    it = KajiUp(tmp_path)
    it.start()
    try:
        gate = it.home / "gate"
        script = f"echo before; until [ -e {gate} ]; do sleep 0.1; done; echo after; exit 5"
        arguments = ("--name", "survivor", "--restarts", "0", "-e", f"MARK={it.home}", "busybox", "sh", "-c", script)
        assert it.kaji("run", "-d", *arguments).returncode == 0
        wait_until(lambda: it.status("survivor")["phase"] == "Running", lambda: it.status("survivor"))
        pid = it.members("survivor")[0]
        it.kill(signal.SIGKILL)
        answer = it.kaji("ps")
        assert answer.returncode == 125 and "kaji up" in answer.stderr
        assert psutil.pid_exists(pid)
        gate.touch()
        it.start()
        assert it.kaji("wait", "survivor").stdout.strip() == "5"
        assert it.status("survivor")["attempts"] == 1
        assert it.kaji("logs", "survivor").stdout == "before\nafter\n"
        it.kaji("rm", "-f", "survivor")
        wait_until(lambda: not it.runs())
    finally:
        it.kill()


SERVE = "import http.server as h; h.HTTPServer(('', 8000), h.SimpleHTTPRequestHandler).serve_forever()"
ASK = """import os, time, urllib.request
for name in ("one", "two"):
    for _ in range(500):
        try: print(name, "says", urllib.request.urlopen(f"http://{name}:8000/said").read().decode()); break
        except OSError: time.sleep(0.02)
"""


@pytest.mark.root
@needs_networks
@in_a_network_of_its_own
def test_pods_of_kaji_up_have_addresses_of_their_own(tmp_path: Path) -> None:
    """Two programs listen on the same port and are found by name. Members of a gang get their code from the Web API, at
    the address of the bridge. --network none needs no container engine."""
    ip("link set lo up")
    commands._server.cache_clear()  # the server of `kaji` processes has the machine's network
    it, small = KajiUp(tmp_path), ("--cpus", "0.1", "-m", "64m")
    it.start("--pod-network", "namespace", "--engine", "process")
    try:
        for name in ("one", "two"):
            (it.home / name).mkdir()
            (it.home / name / "said").write_text(f"I am {name}")
            place = ("--name", name, "--network", "shop", "-v", f"{it.home}:{it.home}", "-w", str(it.home / name))
            assert it.kaji("run", "-d", *place, *small, "x", sys.executable, "-c", SERVE).returncode == 0
        (it.home / "code").mkdir()
        (it.home / "code" / "ask.py").write_text(ASK)
        gang = ("--name", "asks", "-n", "2", "--network", "shop", "--code", "code", *small)
        asked = it.kaji("run", *gang, "x", sys.executable, "ask.py")
        assert asked.returncode == 0, asked.stderr
        assert it.kaji("logs", "--rank", "1", "asks").stdout == "one says I am one\ntwo says I am two\n"
        alone = it.kaji("run", "--network", "none", *small, "x", "cut", "-d:", "-f1", "-s", "/proc/net/dev")
        assert alone.stdout.split() == ["lo"], alone.stderr
        it.kaji("rm", "-f", *it.runs())
        wait_until(lambda: not it.runs())
    finally:
        it.kill()
    assert not [device for device in Path("/sys/class/net").iterdir() if device.name.startswith("kaji-")]


def test_nothing_runs_twice_on_a_restored_backup(tmp_path: Path) -> None:
    """Members newer than the backup are ended, whether the backup has their run or not. Runs of the backup start
    again."""
    it = KajiUp(tmp_path)
    it.start()
    try:
        mark = ("-e", f"MARK={it.home}", "busybox", "sh", "-c", "sleep 1000; exit")
        assert it.kaji("run", "-d", "--name", "known", "--restarts", "3", *mark).returncode == 0
        wait_until(lambda: it.status("known")["phase"] == "Running", lambda: it.status("known"))
        assert it.process is not None
        it.process.send_signal(signal.SIGSTOP)
        shutil.copytree(it.data, tmp_path / "backup", symlinks=True, ignore=shutil.ignore_patterns("control", "*.sock"))
        it.process.send_signal(signal.SIGCONT)
        os.kill(it.members("known")[0], signal.SIGKILL)
        wait_until(lambda: it.status("known")["attempts"] == 2 and it.status("known")["phase"] == "Running")
        assert it.kaji("run", "-d", "--name", "unknown", *mark).returncode == 0
        wait_until(lambda: bool(it.members("unknown")))
        late = it.members("known") | {-1: it.members("unknown")[0]}
        it.kill(signal.SIGKILL)
        shutil.rmtree(it.data)
        (tmp_path / "backup").rename(it.data)
        (it.data / "kaji.json").unlink()
        it.start()
        wait_until(lambda: it.status("known")["phase"] == "Running" and it.status("known")["attempts"] == 2)
        wait_until(lambda: bool(it.members("known")))
        assert not [pid for pid in late.values() if psutil.pid_exists(pid)]
        assert it.kaji("describe", "unknown").returncode == 2
        it.kaji("rm", "-f", "known")
        wait_until(lambda: not it.runs())
        assert not it.members("known")
    finally:
        it.kill()
