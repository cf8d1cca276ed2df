"""The process kubelet as a node of the embedded and of a real API server: kubectl works as with other kubelets."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.harness.kubelet_node import ANY_SERVER, Node
from tests.harness.waiting import PATIENCE_SECONDS

from kajitori.kube.resources import NODES, PODS


@ANY_SERVER
async def test_node_is_ready(node: Node) -> None:
    """The node has no taint that only a node lifecycle controller would remove."""
    await node.kubectl("wait", "--for=condition=Ready", "node/node", "--timeout=60s")
    found = await node.client.get(NODES, "node")
    assert not found["spec"].get("taints")
    assert found["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.36")


@ANY_SERVER
async def test_logs(node: Node, tmp_path: Path) -> None:
    """A log can be followed to its end, and its last lines can be read."""
    gate = tmp_path / "gate"
    script = f"echo line 1; until [ -e {gate} ]; do sleep 0.1; done; echo line 2; echo line 3"
    await node.run("p", "/bin/sh", "-c", script)
    await node.wait("p", "jsonpath={.status.phase}=Running")
    following = await node.start("logs", "-f", "p")
    assert following.stdout is not None
    first = await asyncio.wait_for(following.stdout.readline(), PATIENCE_SECONDS)
    gate.touch()
    rest, err = await asyncio.wait_for(following.communicate(), PATIENCE_SECONDS)
    assert (first + rest, err) == (b"line 1\nline 2\nline 3\n", b"")
    await node.wait("p", "jsonpath={.status.phase}=Succeeded")
    assert await node.kubectl("logs", "--tail=1", "p") == "line 3\n"


async def test_exec(node: Node) -> None:
    """The command's output and exit code are returned, its input ends, and a missing program is an error."""
    await node.run("p", "sleep", "1000")
    await node.wait("p", "condition=Ready")
    assert await node.kubectl("exec", "p", "--", "echo", "hello") == "hello\n"
    said = await node.kubectl("exec", "p", "--", "/bin/sh", "-c", "echo oops >&2; exit 7", code=7)
    assert "oops" in said
    assert await node.kubectl("exec", "-i", "p", "--", "cat", stdin=b"data") == "data"
    data = b"x" * (3 << 20)
    assert (await node.kubectl("exec", "-i", "p", "--", "wc", "-c", stdin=data)).strip() == str(len(data))
    assert len(await node.kubectl("exec", "p", "--", "head", "-c", "3000000", "/dev/zero")) == 3_000_000
    assert "no-such-program" in await node.kubectl("exec", "p", "--", "no-such-program", code=127)


@ANY_SERVER
async def test_the_exit_code_of_a_failed_pod_is_in_its_status(node: Node) -> None:
    await node.run("fails", "/bin/sh", "-c", "exit 3")
    await node.wait("fails", "jsonpath={.status.phase}=Failed")
    pod = await node.client.get(PODS, "fails", "default")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


@ANY_SERVER
async def test_a_deleted_pod_ends_and_its_object_is_deleted(node: Node) -> None:
    await node.run("p", "sleep", "1000")
    await node.wait("p", "condition=Ready")
    await node.kubectl("delete", "pod", "p", "--wait=true")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while node.kubelet.workers:
        assert time.monotonic() < deadline, node.kubelet.workers
        await asyncio.sleep(0.01)
