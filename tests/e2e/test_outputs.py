"""The JSON of every verb fits its published schema."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from tests.harness.kaji_up import KajiUp
from tests.harness.waiting import wait_until
from tests.helpers.output_schemas import check_output

from kajitori.cli.app import kaji as kaji_group
from kajitori.cli.context import Cli
from kajitori.cli.help.contract import CONTRACTS

pytestmark = pytest.mark.xdist_group("e2e-up")

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
    """Each verb prints with -o json what the reference promises, at a real server."""
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
