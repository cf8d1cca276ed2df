"""Clients of an API server, found without its audit log."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from tests.unit.kube.fake_api import client_of, serving, status_of

from kajitori.cluster.nodes.client_evidence import evidence_of, open_watches_in, readable_by_account

METRICS = """
# HELP apiserver_longrunning_requests [STABLE] Gauge of all active long-running apiserver requests
# TYPE apiserver_longrunning_requests gauge
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 7
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="namespace",subresource="",verb="WATCH",version="v1"} 3
apiserver_longrunning_requests{component="apiserver",group="apps",resource="daemonsets",scope="cluster",subresource="",verb="WATCH",version="v1"} 2
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="resource",subresource="log",verb="CONNECT",version="v1"} 1
apiserver_request_total{verb="LIST",resource="pods"} 9
"""  # noqa: E501 - as the server writes it


def binding(role: str, *subjects: dict[str, str]) -> dict[str, Any]:
    return {"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": list(subjects)}


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def test_watches_of_everything_are_counted_by_kind() -> None:
    assert open_watches_in(METRICS) == {"pods": 7, "daemonsets.apps": 2}
    assert open_watches_in("") == {}


def test_what_accounts_may_read_is_derived_from_roles_and_bindings() -> None:
    """Only rights to list or watch a whole kind count."""
    roles = [
        role("reads", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "watch"]}),
        role("gets", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}),
        role("one", {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["x"], "verbs": ["list"]}),
        role("all", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
        {"metadata": {"name": "empty"}, "rules": None},
    ]
    account = {"kind": "ServiceAccount", "namespace": "a", "name": "spy"}
    bindings = [
        binding("reads", account, {"kind": "User", "name": "alice"}),
        binding("gets", {"kind": "ServiceAccount", "namespace": "a", "name": "gets"}),
        binding("one", {"kind": "ServiceAccount", "namespace": "a", "name": "one"}),
        binding("all", {"kind": "Group", "name": "system:serviceaccounts:ops"}),
        binding("reads", {"kind": "Group", "name": "system:serviceaccounts"}),
        binding("no such role", account),
        {"roleRef": {"name": "empty"}},
    ]
    assert readable_by_account(roles, bindings) == {
        ("a", "spy"): {"pods"},
        ("ops", ""): {"*"},
        ("", ""): {"pods"},
    }


@pytest.mark.parametrize("refused", [(), ("clusterroles", "metrics")])
async def test_evidence_that_may_not_be_read_is_noted(refused: tuple[str, ...]) -> None:
    """The rest is returned."""
    daemon_set = {
        "metadata": {"namespace": "a", "name": "spy"},
        "spec": {"template": {"spec": {"serviceAccountName": "spy"}}},
        "status": {"desiredNumberScheduled": 3},
    }
    bound = binding("reads", {"kind": "ServiceAccount", "namespace": "a", "name": "spy"})
    alive = {"conditions": [{"type": "Ready", "status": "False"}]}
    lists = {
        "nodes": [{"status": alive}, {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, {}],
        "daemonsets": [daemon_set],
        "clusterroles": [role("reads", {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})],
        "clusterrolebindings": [bound],
    }

    async def answer(request: web.Request) -> web.Response:
        what = request.path.rpartition("/")[2]
        if what in refused:
            return web.json_response(status_of(403, f"{what} are not for you", "Forbidden"), status=403)
        if what == "metrics":
            return web.Response(text=METRICS)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": lists[what]})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with serving(app) as url, client_of(url) as client:
        found = await evidence_of(client)
    (spy,) = found.daemon_sets
    assert (found.nodes, found.kubelets, spy.user, spy.pods) == (3, 1, "system:serviceaccount:a:spy", 3)
    if refused:
        assert (spy.reads, found.open_watches) == ((), {})
        assert [note.partition(":")[0] for note in found.notes] == [
            "clusterroles are not known",
            "open watches are not known",
        ]
    else:
        assert (spy.reads, dict(found.open_watches), found.notes) == (("pods",), {"pods": 7, "daemonsets.apps": 2}, ())
