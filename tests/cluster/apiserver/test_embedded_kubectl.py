"""Everyday commands of kubectl on the embedded API server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from tests.harness.binaries import find_binary
from tests.harness.commands import output_of
from tests.harness.servers.embedded_server import EmbeddedServer, embedded_server

pytestmark = pytest.mark.skipif(
    find_binary("kubectl") is None, reason="kubectl is not installed: run setup-envtest use, or install it on $PATH"
)

CONFIG = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}'


@pytest.fixture
async def api() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server() as server:
        yield server


async def run(api: EmbeddedServer, *arguments: str, stdin: str = "") -> str:
    return output_of(await api.kubectl(*arguments, stdin=stdin))


async def test_apply_adds_and_removes_fields(api: EmbeddedServer) -> None:
    """Client-side and server-side."""
    assert "created" in await run(api, "apply", "-f", "-", stdin=CONFIG)
    assert "unchanged" in await run(api, "apply", "-f", "-", stdin=CONFIG)
    assert "configured" in await run(api, "apply", "-f", "-", stdin=CONFIG.replace('"x":"1"', '"y":"2"'))
    assert await run(api, "get", "cm", "a", "-o", "jsonpath={.data}") == '{"y":"2"}'
    server = CONFIG.replace('"a"', '"b"')
    assert "serverside-applied" in await run(api, "apply", "--server-side", "-f", "-", stdin=server)
    changed = server.replace('"1"', '"2"')
    refused = await api.kubectl("apply", "--server-side", "--field-manager=me", "-f", "-", stdin=changed)
    assert 'conflict with "kubectl"' in output_of(refused, 1)
    await run(api, "apply", "--server-side", "--field-manager=me", "--force-conflicts", "-f", "-", stdin=changed)
    assert await run(api, "get", "cm", "b", "-o", "jsonpath={.data.x}") == "2"


async def test_commands_on_a_pod(api: EmbeddedServer) -> None:
    """run, get, describe, label, annotate, set image, patch, wait, delete."""
    await run(api, "run", "web", "--image=nginx", "--labels=app=x")
    assert "web" in await run(api, "get", "pods", "-o", "wide")
    assert "Service Account:  default" in await run(api, "describe", "pod", "web")
    await run(api, "label", "pod", "web", "tier=front")
    await run(api, "annotate", "pod", "web", "note=hello")
    await run(api, "set", "image", "pod/web", "web=nginx:2")
    await run(api, "patch", "pod", "web", "-p", '{"metadata":{"labels":{"patched":"yes"}}}')
    pod = json.loads(await run(api, "get", "pod", "web", "-o", "json"))
    assert pod["metadata"]["labels"] == {"app": "x", "tier": "front", "patched": "yes"}
    assert pod["spec"]["containers"][0]["image"] == "nginx:2"
    await run(api, "wait", "pod/web", "--for=jsonpath={.status.phase}=Pending", "--timeout=60s")
    assert 'pod "web" deleted' in await run(api, "delete", "pod", "web", "--timeout=60s")


async def test_commands_on_nodes(api: EmbeddedServer) -> None:
    """cordon, taint, drain, uncordon."""
    await run(api, "apply", "-f", "-", stdin='{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}')
    await run(api, "cordon", "n")
    assert "SchedulingDisabled" in await run(api, "get", "nodes")
    await run(api, "taint", "node", "n", "a=b:NoSchedule")
    await run(api, "drain", "n")
    await run(api, "uncordon", "n")
    node = json.loads(await run(api, "get", "node", "n", "-o", "json"))
    assert {"key": "a", "value": "b", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert not node["spec"].get("unschedulable")


@pytest.mark.parametrize(
    "arguments",
    [
        "create namespace team",
        "create configmap c --from-literal=a=b",
        "create secret generic s --from-literal=a=b",
        "create serviceaccount sa",
        "create quota q --hard=pods=3",
        "create service clusterip svc --tcp=80",
        "create priorityclass high --value=5",
        "create poddisruptionbudget b --min-available=1 --selector=a=b",
        "auth can-i create pods",
        "auth whoami",
        "api-resources",
        "api-versions",
        "cluster-info",
        "explain pod.spec.containers",
        "get all -A",
        "get events -A",
        "version",
    ],
)
async def test_further_commands_succeed(api: EmbeddedServer, arguments: str) -> None:
    await run(api, *arguments.split())


async def test_a_namespace_is_deleted_with_its_contents(api: EmbeddedServer) -> None:
    """kubectl waits until it is gone."""
    await run(api, "create", "namespace", "team")
    await run(api, "run", "web", "--image=x", "-n", "team")
    await run(api, "delete", "namespace", "team", "--timeout=60s")
    assert 'namespaces "team" not found' in output_of(await api.kubectl("get", "namespace", "team"), 1)
