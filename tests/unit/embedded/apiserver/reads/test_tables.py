"""Tables of `kubectl get`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kajitori.embedded.apiserver.reads import durations, rows, tables
from kajitori.embedded.apiserver.registry import built_in
from kajitori.embedded.apiserver.schemas import jsonpath

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (250, "4m10s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (47 * 3600, "47h"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (-60, "<invalid>"),
    ],
)
def test_ages_have_at_most_two_units(seconds: int, shown: str) -> None:
    """As in kubectl."""
    assert durations.human(seconds) == shown


def pod(status: dict[str, Any], **meta: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}
    return {"metadata": {"name": "p", **meta}, "spec": spec, "status": status}


def cells_of(plural: str, obj: dict[str, Any]) -> list[Any]:
    kind = built_in().find("", "v1", plural)
    assert kind is not None
    cells: list[Any] = tables.to_table(kind, [obj], now=NOW)["rows"][0]["cells"]
    return cells


WAITING = {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
DONE = {"name": "i", "state": {"terminated": {"exitCode": 0}}}


@pytest.mark.parametrize(
    ("obj", "shown"),
    [
        (pod({"phase": "Pending"}), "Pending"),
        (pod({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}), "Init:0/1"),
        (
            pod({"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 3}}}]}),
            "Init:ExitCode:3",
        ),
        (
            pod({"phase": "Pending", "initContainerStatuses": [DONE], "containerStatuses": [WAITING]}),
            "ImagePullBackOff",
        ),
        (
            pod({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]}),
            "OOMKilled",
        ),
        (pod({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        (pod({"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:00Z"), "Terminating"),
        (pod({"phase": "Running", "reason": "NodeLost"}, deletionTimestamp="2026-01-01T00:00:00Z"), "Unknown"),
        (pod({"phase": "Succeeded"}, deletionTimestamp="2026-01-01T00:00:00Z"), "Succeeded"),
        (
            pod({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            "SchedulingGated",
        ),
    ],
)
def test_the_status_column_has_the_most_specific_reason(obj: dict[str, Any], shown: str) -> None:
    """That of init containers first, then of containers, then the Pod's own."""
    assert rows.pod_status(obj) == shown


def test_a_pods_row_has_readiness_restarts_address_and_node() -> None:
    """Restarts have the time of the last one."""
    state = {"name": "a", "ready": True, "restartCount": 2, "state": {"running": {}}}
    state["lastState"] = {"terminated": {"finishedAt": "2026-01-01T11:59:00Z"}}
    obj = pod({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [state]})
    obj["metadata"]["creationTimestamp"] = "2026-01-01T11:00:00Z"
    obj["spec"]["nodeName"] = "n1"
    assert rows.pod_restarts(obj, NOW) == "2 (60s ago)"
    cells = cells_of("pods", obj)
    assert (cells[:3], cells[4:]) == (["p", "1/1", "Running"], ["60m", "10.0.0.1", "n1", "<none>", "<none>"])


def test_the_row_of_a_cordoned_node_that_is_not_ready() -> None:
    """Status and roles are joined by commas."""
    obj = {
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/gpu": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "Unknown"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
        },
    }
    assert cells_of("nodes", obj)[:6] == ["n", "NotReady,SchedulingDisabled", "gpu", "<unknown>", "", "10.0.0.9"]


def test_rows_contain_objects_as_requested() -> None:
    """Metadata, everything, or nothing; a watch does not repeat headers."""
    kind = built_in().find("", "v1", "configmaps")
    assert kind is not None
    obj = {"metadata": {"name": "c"}, "data": {"a": "b"}}
    with_metadata = tables.to_table(kind, [obj], now=NOW)
    assert with_metadata["rows"][0]["cells"] == ["c", 1, "<unknown>"]
    assert with_metadata["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert tables.to_table(kind, [obj], include="Object")["rows"][0]["object"] is obj
    bare = tables.to_table(kind, [obj], include="None", headers=False)
    assert "object" not in bare["rows"][0]
    assert bare["columnDefinitions"] is None


DOCUMENT = {
    "spec": {"a.b": 1, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Done", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.list[0].n", ["x"]),
        (".spec.list[-1].n", ["y"]),
        (".spec.list[*].n", ["x", "y"]),
        (".spec['a.b']", [1]),
        (r".spec.a\.b", [1]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".spec.list[?(@.v>1)].n", ["y"]),
        (".spec.list[?(@.n)].v", [1, 2]),
        (".spec.missing.n", []),
        (".spec[", []),
    ],
)
def test_printer_columns_follow_json_paths(path: str, found: list[Any]) -> None:
    """A path that cannot be parsed gives an empty cell and does not fail the list."""
    assert jsonpath.compile_path(path).find(DOCUMENT) == found
