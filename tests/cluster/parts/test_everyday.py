"""Everyday tasks of users, each with the rights of the user's own account."""

from __future__ import annotations

import re
import socket
import sys
from subprocess import PIPE, Popen
from typing import Any

from tests.harness.platform.installation import POLICY, SERVER, TOGETHER, Installation
from tests.harness.waiting import PATIENCE_SECONDS
from tests.helpers.brought_code import assert_all_get_the_same

pytestmark = TOGETHER


def test_an_ordinary_user_runs_a_gang_from_start_to_end(installed: Installation) -> None:
    """Two real processes, their output and an exit code. Logs and exec need further rights."""
    here = ("--node-selector", "kubernetes.io/hostname=here", "--cpus", "0.2", "-m", "64m", "--restarts", "0")
    gang = ("run", "-q", "--name", "pair", "-n", "2", *here, "busybox", "sh", "-c", "echo rank $KAJI_RANK")
    answer = installed.kaji(*gang)
    assert answer.returncode == 0 and "rank 0" in answer.stdout, answer
    logs = installed.kaji("logs", "--all-ranks", "pair").stdout
    assert "rank 0" in logs and "rank 1" in logs
    owner = installed.kubectl("get", "run", "pair", "-n", "vision", "-o", "jsonpath={.metadata.annotations}").stdout
    assert "system:serviceaccount:kajitori:ada" in owner
    assert installed.kaji("logs", "pair", user="grace").returncode == 2
    script = "while true; do sleep 0.2; done"
    long = ("run", "-di", "--name", "long", *here, "busybox", sys.executable, "-c", REVERSE)
    assert installed.kaji(*long).returncode == 0
    installed.until(lambda: installed.phase("long") == "Running", "long runs")
    said = installed.kaji("exec", "long", "sh", "-c", "echo $KAJI_RUN; exit 7")
    assert (said.returncode, said.stdout) == (7, "long\n"), said
    assert_streams_are_refused(installed)
    installed.until(lambda: bool(installed.kaji("logs", "long").stdout), "it listens")
    assert_port_is_forwarded(installed, int(installed.kaji("logs", "long").stdout))
    asked = ("run", "-q", "-i", "--rm", *here, "busybox", "sh", "-c", "echo early; tr a-z A-Z; exit 3")
    filtered = installed.kaji(*asked, stdin="typed")
    assert (filtered.returncode, filtered.stdout) == (3, "early\nTYPED"), filtered
    budgets = ("get", "pdb", "-n", "vision", "-l", "app.kubernetes.io/managed-by=kajitori", "-o", "name")
    installed.until(
        lambda: installed.kubectl(*budgets).stdout.split() == ["poddisruptionbudget.policy/long"], "its budget alone"
    )
    cut_off = ("-d", "--name", "cut-off", "--network=none")
    assert installed.kaji("run", *cut_off, *here, "busybox", "sh", "-c", script).returncode == 0
    installed.until(lambda: "--pod-network namespace" in str(installed.run("cut-off").get("message")), "it is refused")
    restricted = ("get", "netpol", "cut-off", "-n", "vision", "-o", "jsonpath={.spec.policyTypes}")
    assert installed.kubectl(*restricted).stdout == '["Ingress","Egress"]'
    assert installed.kaji("rm", "-f", "long", "pair", "cut-off").returncode == 0
    installed.until(lambda: not installed.kubectl(*budgets).stdout, "no budget left")


def assert_streams_are_refused(installed: Installation) -> None:
    """A user who may see the run, and no more, is told which right is missing. Nothing of the program is shown."""
    for command, right in (
        (("exec", "long", "true"), "pods/exec"),
        (("cp", "long:/etc/hostname", "-"), "pods/exec"),
        (("ssh", "long", "true"), "pods/exec"),
        (("attach", "long"), "pods/attach"),
    ):
        refused = installed.kaji(*command, user="grace")
        assert refused.returncode in (2, 255), refused
        assert f"may not get {right} " in refused.stderr and "a role there" in refused.stderr, refused
        assert not refused.stdout, refused


REVERSE = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    with server.accept()[0] as connection:
        connection.sendall(connection.makefile("rb").read()[::-1])
"""
"""A server that answers in reverse what it has read when the client ends its direction."""


def assert_port_is_forwarded(installed: Installation, port: int) -> None:
    """Check that a user with the right to it reaches a port of `long`, and another one does not."""
    for user, expected in (("ada", b"cba"), ("grace", b"")):
        command = [sys.executable, "-m", "kajitori.cli", "port-forward", "long", f":{port}"]
        environment = installed.kaji_environment(user)
        with Popen(command, env=environment, stdout=PIPE, stderr=PIPE, text=True) as process:
            try:
                assert process.stdout is not None and process.stderr is not None
                local = re.search(r":(\d+) -> ", process.stdout.readline())
                assert local is not None, process.stderr.read()
                with socket.create_connection(("127.0.0.1", int(local[1])), PATIENCE_SECONDS) as connection:
                    connection.sendall(b"abc")
                    connection.shutdown(socket.SHUT_WR)
                    assert connection.makefile("rb").read() == expected
                assert expected or "pods/portforward" in process.stderr.readline()
            finally:
                process.kill()


def test_members_of_a_gang_get_the_list_of_their_hosts(installed: Installation) -> None:
    """Only the controller and the Web API can read the Secret with the key for start tickets. They can read no other
    Secret in this namespace or in namespaces of runs, and no other account can read people's channels of messages."""
    here = ("--node-selector", "kubernetes.io/hostname=here", "--cpus", "0.2", "-m", "64m", "--restarts", "0")
    script = 'echo "rank $KAJI_RANK: $(grep -c slots=1 $KAJI_HOSTS) hosts"'
    answer = installed.kaji("run", "-q", "--name", "found", "-n", "2", *here, "busybox", "sh", "-c", script)
    assert answer.returncode == 0, (answer, installed.explain())
    logs = installed.kaji("logs", "--all-ranks", "found").stdout
    assert "rank 0: 2 hosts" in logs and "rank 1: 2 hosts" in logs
    secrets = {"c1": ("kajitori", "kajitori-tickets"), SERVER: ("kajitori", "kajitori-tickets"), "ada": ("", "")}
    for user, (namespace, name) in secrets.items():
        who = f"--as=system:serviceaccount:kajitori:{user}"
        for where in ("kajitori", "vision"):
            for secret in ("kajitori-tickets", "other"):
                asked = ("auth", "can-i", "get", f"secrets/{secret}", "-n", where, who)
                may = installed.kubectl(*asked, check=False).stdout.strip()
                assert may == ("yes" if (where, secret) == (namespace, name) else "no"), asked
    for user in ("ada", "olga", "nodes-of-others"):
        who = f"--as=system:serviceaccount:kajitori:{user}"
        asked = ("auth", "can-i", "list", "secrets", "-n", "kajitori-messages", who)
        assert installed.kubectl(*asked, check=False).stdout.strip() == "no"
    ticket = installed.kubectl("get", "pods", "-n", "vision", "-l", "kajitori.dev/run=found", "-o", "yaml").stdout
    shown = ticket.split("KAJI_START_TICKET")[1].split("value: ")[1].split()[0]
    assert not any(shown in installed.log(part) for part in installed.processes)


def test_every_member_of_every_attempt_gets_the_same_code(installed: Installation) -> None:
    """The code is uploaded to the Web API; members fetch it with their start tickets."""
    here = ("--node-selector", "kubernetes.io/hostname=here", "--cpus", "0.2", "-m", "64m")
    assert_all_get_the_same(installed.kaji, installed.folder / "code", *here)


def test_reading_logs_of_an_ended_attempt_needs_the_right_to_read_logs(installed: Installation) -> None:
    """The controller writes the logs to a store from which the Web API reads them."""
    here = ("--node-selector", "kubernetes.io/hostname=here", "--cpus", "0.2", "-m", "64m", "--restarts", "1")
    script = "echo life $KAJI_ATTEMPT; exit $((2 - KAJI_ATTEMPT))"
    answer = installed.kaji("run", "-q", "--name", "twice", *here, "busybox", "sh", "-c", script)
    assert answer.returncode == 0, answer
    first = installed.kaji("logs", "--attempt", "1", "twice")
    assert (first.returncode, first.stdout) == (0, "life 1\n"), first
    refused = installed.kaji("logs", "--attempt", "1", "twice", user="grace")
    assert refused.returncode == 2 and "pods/log" in refused.stderr, refused


def test_a_user_without_the_right_to_read_logs_can_run_a_program(installed: Installation) -> None:
    """Rights on runs are sufficient to submit, to wait, and to get the exit code."""
    here = ("--node-selector", "kubernetes.io/hostname=here", "--cpus", "0.2", "-m", "64m", "--restarts", "0")
    answer = installed.kaji("run", "--name", "blind", *here, "busybox", "sh", "-c", "exit 4", user="grace")
    assert answer.returncode == 4 and "pods/log" in answer.stderr, answer
    assert installed.kaji("rm", "-f", "blind", user="grace").returncode == 0


def test_an_operator_tests_a_node(installed: Installation) -> None:
    """This machine leaves the pool when it fails the test and returns when it passes. Only the operator's role grants
    the right to test nodes."""
    well = installed.folder / "well"
    script = f"test -e {well} || {{ echo broken; exit 4; }}"
    test: dict[str, Any] = {"image": "busybox", "command": ["sh", "-c", script]}
    test |= {"cpu": 0.2, "memory": "64Mi", "nodes": {"kubernetes.io/hostname": "here"}}
    installed.use_policy(POLICY | {"preflight": test})
    try:
        failed = installed.kaji("preflight", "here", user="olga")
        assert failed.returncode == 1 and "exit code 4: broken" in failed.stdout, (failed, installed.explain())
        shown = installed.kaji("nodes", "here", user="ada").stdout
        assert "unhealthy: PreflightFailed" in shown and "asked for by system:serviceaccount:kajitori:olga" in shown
        well.touch()
        passed = installed.kaji("preflight", "--all", user="olga")
        assert passed.returncode == 0 and "policy has no test for 4 of 5 nodes" in passed.stderr, passed
        assert "unhealthy" not in installed.kubectl("get", "node", "here", "-o", "jsonpath={.spec.taints}").stdout
        for command in (("preflight", "here"), ("nodes", "here", "--healthy")):
            refused = installed.kaji(*command, user="ada")
            assert refused.returncode == 2 and "may not patch nodes" in refused.stderr, refused
    finally:
        installed.use_policy(POLICY)


def test_a_user_without_rights_gets_a_clear_refusal(installed: Installation) -> None:
    """403, exit code 2 and the command that asks Kubernetes about rights. A wrong token: 401, exit code 125."""
    answer = installed.kaji("run", "-d", "busybox", "true", user="eve")
    assert answer.returncode == 2 and "kubectl auth can-i" in answer.stderr
    assert installed.kaji("ps", "-a", user="eve").stdout.count("\n") <= 1
    assert installed.kaji("run", "-d", "busybox", "true", KAJI_TOKEN="wrong").returncode == 125
    for name in ("server", "c1", "c2"):
        assert installed.token_in("ada") not in installed.log(name)
