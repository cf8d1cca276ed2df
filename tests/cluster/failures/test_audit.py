"""`kaji audit clients` against an API server: findings from the server itself and from an audit log."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.harness.servers.kube_server import KubeServer
from tests.helpers.output_schemas import check_output
from tests.unit.kube.test_audit_log import EVENT

from kajitori.cli.app import kaji
from kajitori.cli.context import Cli
from kajitori.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, DAEMON_SETS

pytestmark = pytest.mark.conformance


async def audit(cluster: KubeServer, *options: str) -> tuple[int, str, str]:
    """Run `kaji audit clients` and return its exit code, output and errors."""
    arguments = ["audit", "clients", "--kubeconfig", str(cluster.kubeconfig), *options]
    result = await asyncio.to_thread(CliRunner().invoke, kaji, arguments, obj=Cli(), prog_name="kaji")
    return result.exit_code, result.stdout, result.stderr


async def add_spy(cluster: KubeServer, namespace: str) -> None:
    """Create a DaemonSet whose account may watch all Pods."""
    account = {"kind": "ServiceAccount", "namespace": namespace, "name": "spy"}
    pod = {"serviceAccountName": "spy", "containers": [{"name": "spy", "image": "spy"}]}
    labels = {"app": "spy"}
    async with cluster.client() as client:
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
        await client.create(CLUSTER_ROLES, {"metadata": {"name": namespace}, "rules": rules})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace}
        bound = {"metadata": {"name": namespace}, "roleRef": reference, "subjects": [account]}
        await client.create(CLUSTER_ROLE_BINDINGS, bound)
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        await client.create(DAEMON_SETS, {"metadata": {"name": "spy", "namespace": namespace}, "spec": spec})


def log_of(path: Path, namespace: str) -> Path:
    """Write an audit log: the spy on four nodes lists all Pods every ten seconds for ten minutes."""
    lines: list[dict[str, Any]] = []
    for second in range(0, 601, 10):
        for node in range(4):
            extra = {"authentication.kubernetes.io/node-name": [f"n{node}"]}
            user = {"username": f"system:serviceaccount:{namespace}:spy", "extra": extra}
            at = f"2026-11-22T07:{second // 60:02}:{second % 60:02}.000000Z"
            lines.append(EVENT | {"user": user, "requestReceivedTimestamp": at, "stageTimestamp": at})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


async def test_audit_finds_a_daemonset_that_lists_all_pods(
    kube_server: KubeServer, own_namespace: str, tmp_path: Path
) -> None:
    """The finding says what to change in the DaemonSet. The embedded API server has no DaemonSets and says so; findings
    from an audit log are the same on both."""
    if kube_server.is_real:
        await add_spy(kube_server, own_namespace)
        code, shown, _ = await audit(kube_server, "-o", "json")
        found = json.loads(shown)
        check_output(found, "verbs/audit clients", complete=True)
        assert (code, found["log"]) == (0, None)
        (spy,) = [suspect for suspect in found["suspects"] if suspect["namespace"] == own_namespace]
        assert (spy["name"], spy["reads"]) == ("spy", ["pods"])
        code, shown, _ = await audit(kube_server)
        assert (code, f"{own_namespace}/spy" in shown, "--audit-log FILE" in shown) == (0, True, True)
    else:
        code, shown, complaints = await audit(kube_server)
        assert (code, "Nothing was found" in shown, "daemonsets are not known" in complaints) == (0, True, True)

    log = log_of(tmp_path / "audit.log", own_namespace)
    options = ("--audit-log", str(log), "--nodes", "6000")
    code, shown, _ = await audit(kube_server, *options)
    assert code == 0
    assert "244 requests in 10 minutes, by 1 client." in shown
    if kube_server.is_real:
        assert f"{own_namespace}/spy (spy) = DaemonSet {own_namespace}/spy" in shown
        assert "fieldSelector spec.nodeName=" in shown
