"""History, usage and the audit trail through the Web API, with the caller's own rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.unit.api.fake_kubernetes import run

from kajitori.api.app import openapi_document, operations
from kajitori.api.audit import _KINDS, CHANGES, NO_CHANGES
from kajitori.api.history import search
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.naming.names import ANNOTATION_NOTE
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.note import Note, write_note
from kajitori.core.usage.records import AttemptRecord, RunRecord, RunState, SegmentRecord
from kajitori.history.audit import OBJECT_KINDS
from kajitori.history.databases.database import Statement
from kajitori.history.store import History

if TYPE_CHECKING:
    from tests.unit.api.conftest import World

NOON = 1795262400
"""2026-11-21T12:00:00Z in seconds since 1970."""


def recorded(name: str, *, namespace: str = "team", gpus: int = 8, minutes: int = 10) -> RunState:
    """Return a removed run of two members that ran for some minutes until noon."""
    document = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-21T11:00:00Z",
            "annotations": {"kajitori.dev/owner": "ada"},
        },
        "spec": {"image": "python:3.12", "command": ["true"], "replicas": 2},
        "status": {"phase": "Failed", "reason": "ProgramFailed", "message": "exit code 3", "exitCode": 3},
    }
    run = RunRecord(
        uid=f"uid-{name}",
        namespace=namespace,
        name=name,
        owner="ada",
        type="batch",
        phase="Failed",
        reason="ProgramFailed",
        created_at=NOON - 3600,
        ended_at=NOON,
        removed_at=NOON + 60,
        members=2,
        gpus=2 * gpus,
        attempts=1,
        document=msgspec.json.encode(document),
    )
    held = SegmentRecord(
        id=7, attempt=1, members=2, since=NOON - 60 * minutes, until=NOON, nodes="g[1-2]", gpu_type="h100", gpus=gpus
    )
    attempt = AttemptRecord(number=1, nodes="g[1-2]", reason="ProgramFailed")
    return RunState(run=run, attempts=(attempt,), segments=(held,), ledger=7, last=7)


async def test_ended_runs_are_searched_for_words_in_labels_and_notes(
    world: World, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer looks through a bounded number of runs, and goes on where it ended."""
    monkeypatch.setattr(search, "MAX_SEARCHED", 2)
    monkeypatch.setattr(search, "BATCH", 1)
    states = [recorded(name) for name in ("a", "b", "c", "d")]
    note = write_note(Note("Diverged at step 9", "ada", "2026-11-21T11:30:00.5Z"))
    marks = {"labels": {"stage": "final"}, "annotations": {ANNOTATION_NOTE: note}}
    for place in (0, 3):
        document = msgspec.json.decode(states[place].run.document)
        document["metadata"] |= marks
        changed = msgspec.structs.replace(states[place].run, document=msgspec.json.encode(document))
        states[place] = msgspec.structs.replace(states[place], run=changed)
    await history.record(states)
    pages: list[list[str]] = []
    token: str | None = ""
    while token is not None:
        asked: dict[str, Any] = {"search": "diverged STAGE=final", "limit": 1, "continue": token}
        answer = (await world.http.get("/v1/history", params=asked)).json()
        pages.append([run["name"] for run in answer["items"]])
        token = answer.get("continue")
    assert [name for page in pages for name in page] == ["d", "a"] and 2 < len(pages) < 6
    answer = (await world.http.get("/v1/history", params={"search": "nowhere", "name": "a"})).json()
    assert answer == {"items": []}


async def test_a_removed_run_is_listed_and_described(world: World, history: History) -> None:
    """By name and by UID, with the last state of its object. Its other routes answer, too."""
    await history.record([recorded("bert"), recorded("gpt")])
    listed = (await world.http.get("/v1/history", params={"name": "be"})).json()["items"]
    assert [(run["name"], run["phase"], run["removedAt"]) for run in listed] == [
        ("bert", "Failed", "2026-11-21T12:01:00Z")
    ]
    assert "run" not in listed[0]
    (detailed,) = (await world.http.get("/v1/history", params={"name": "be", "details": True})).json()["items"]
    view = (await world.http.get("/v1/history/team/bert")).json()
    assert detailed == listed[0] | {"run": {key: view[key] for key in detailed["run"]}}
    assert detailed["run"]["status"]["exitCode"] == 3 and "spec" in detailed["run"]
    for name in ("bert", "uid-bert"):
        view = (await world.http.get(f"/v1/history/team/{name}")).json()
        assert (view["name"], view["status"]["exitCode"], view["attempts"][0]["nodes"]) == ("bert", 3, "g[1-2]")
    assert (await world.http.get("/v1/runs/team/uid-bert/members")).json() == {"items": []}
    assert (await world.http.get("/v1/runs/team/bert")).status_code == 404
    missing = await world.http.get("/v1/history/team/never")
    assert (missing.status_code, missing.json()["hint"]) == (404, "see them all: kaji history")


async def test_each_removed_run_is_on_exactly_one_page(world: World, history: History) -> None:
    await history.record(recorded(f"run-{number}") for number in range(5))
    names, params = [], {"limit": 2}
    while True:
        page = (await world.http.get("/v1/history", params=params)).json()
        names += [run["name"] for run in page["items"]]
        if "continue" not in page:
            break
        params["continue"] = page["continue"]
    assert sorted(names) == [f"run-{number}" for number in range(5)]


async def test_usage_is_summed_exactly(world: World, history: History) -> None:
    """Between two times, by team or node, and with a total."""
    await history.record([recorded("bert"), recorded("other", namespace="else", gpus=1)])
    params = {"since": "2026-11-21T11:55:00Z", "until": "2026-11-21T12:00:00Z"}
    found = (await world.http.get("/v1/usage", params=params)).json()
    assert [(row["key"], row["gpuSeconds"]) for row in found["items"]] == [
        ("team", 2 * 300 * 8),
        ("else", 2 * 300),
    ]
    assert found["total"]["gpuSeconds"] == 2 * 300 * 9
    by_node = (await world.http.get("/v1/usage", params=params | {"by": "node", "namespace": "team"})).json()
    assert {row["key"]: row["gpuSeconds"] for row in by_node["items"]} == {"g1": 2400, "g2": 2400}
    largest = (await world.http.get("/v1/usage", params=params | {"limit": "1"})).json()
    assert ([row["key"] for row in largest["items"]], largest["count"]) == (["team"], 2)
    assert largest["total"] == found["total"]


async def test_usage_of_each_day_or_hour_is_in_the_order_of_time(world: World, history: History) -> None:
    """Days without usage have a sum of 0, and a run that still has nodes counts until now."""
    await history.record([recorded("bert")])
    part = {"attempt": 1, "ranks": "0-1", "gpus": 4, "gpuType": "a100", "since": "2026-11-21T11:59:00Z"}
    held = run("now", replicas=2) | {
        "status": {"phase": "Running", "attempts": 1, "usage": {"first": 1, "open": [part]}}
    }
    world.kubernetes.put("runs", held)
    await world.caught_up()
    params = {"since": "2026-11-19T13:00:00Z", "by": "day"}
    days = (await world.http.get("/v1/usage", params=params)).json()
    whole = (await world.http.get("/v1/usage", params=params | {"by": "type"})).json()
    assert [(row["key"], row["gpuSeconds"]) for row in days["items"]] == [
        ("2026-11-19", 0),
        ("2026-11-20", 0),
        ("2026-11-21", whole["total"]["gpuSeconds"]),
    ]
    assert (days["total"], days["count"]) == (whole["total"], 3)
    hours = (await world.http.get("/v1/usage", params=params | {"by": "hour", "limit": 2})).json()
    assert [row["key"] for row in hours["items"]] == ["2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"]
    assert (hours["total"], hours["count"]) == (whole["total"], 47)
    refused = await world.http.get("/v1/usage", params={"by": "hour", "since": "2026-10-01T00:00:00Z"})
    assert (refused.status_code, refused.json()["faults"][0]["field"]) == (422, "by")


async def test_the_board_shows_the_last_months_gpu_hours(world: World, history: History) -> None:
    """Without names of people and runs, and without sign-in only if policy says so. A run that goes on counts."""
    await history.record([recorded("bert"), recorded("other", namespace="else", gpus=1), recorded("cpu", gpus=0)])
    part = {"attempt": 1, "ranks": "0-1", "gpus": 4, "gpuType": "a100", "since": "2026-11-21T11:59:00Z"}
    usage = {"first": 1, "open": [part]}
    held = run("now", owner="grace", replicas=2) | {"status": {"phase": "Running", "attempts": 1, "usage": usage}}
    world.kubernetes.put("runs", held)
    await world.caught_up()
    shown = await world.http.get("/v1/board/usage")
    assert shown.json() == {
        "since": "2026-10-22T12:00:00Z",
        "until": "2026-11-21T12:00:00Z",
        "gpuSeconds": 2 * 600 * 9 + 2 * 60 * 4,
        "types": [{"name": "h100", "gpuSeconds": 2 * 600 * 9}, {"name": "a100", "gpuSeconds": 2 * 60 * 4}],
        "teams": [{"name": "team", "gpuSeconds": 2 * 600 * 8 + 2 * 60 * 4}, {"name": "else", "gpuSeconds": 2 * 600}],
        "teamCount": 2,
    }
    assert shown.headers["cache-control"] == "private, max-age=10"
    del world.http.headers["Authorization"]
    assert (await world.http.get("/v1/board/usage")).status_code == 401
    world.change(cluster=ClusterView(world.mirror, PolicyFile(None, without_file=parse_policy({"board": "public"}))))
    assert (await world.http.get("/v1/board/usage")).status_code == 200


async def test_readiness_says_how_far_history_lags_behind(world: World, history: History) -> None:
    """A server with a history that lags, or whose database does not answer, is ready nevertheless."""
    lag, now = world.api.stores.history_lag, int(world.api.now().timestamp() * 1000)

    async def shown() -> dict[str, Any]:
        await lag.ask()
        answer = await world.http.get("/readyz")
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()["history"]
        return found

    assert await shown() == {"behindSeconds": None, "says": ""}, "server and controller may have started together"
    await history.note_current(now - 3000)
    assert await shown() == {"behindSeconds": 3.0, "says": ""}
    await history.note_current(now - 600_000)
    assert "usage and ended runs since then are missing" in (await shown())["says"]
    await (await history.open()).write([Statement("DROP TABLE history_facts")])
    assert "does not answer" in (await shown())["says"]


@pytest.mark.parametrize("path", ["/v1/history", "/v1/usage", "/v1/audit"])
async def test_a_caller_sees_only_namespaces_where_he_may_list_runs(world: World, history: History, path: str) -> None:
    """The API server decides, also about namespaces without runs."""
    await history.record([recorded("bert"), recorded("secret", namespace="else")])
    world.kubernetes.denied |= {("ada", "list", "runs", ""), ("ada", "list", "runs", "else")}
    found = (await world.http.get(path, params={"by": "run"} if path == "/v1/usage" else {})).json()
    assert "secret" not in str(found)
    assert path != "/v1/audit" or found["namespaces"] == ["team"]
    assert (await world.http.get(path, params={"namespace": "else"})).status_code == 403


async def test_a_bad_time_is_refused_with_the_parameters_name(world: World, history: History) -> None:
    answer = await world.http.get("/v1/usage", params={"since": "yesterday"})
    assert (answer.status_code, answer.json()["faults"][0]["field"]) == (422, "since")


async def test_the_audit_trail_has_changes_and_refusals_with_their_rule(world: World, history: History) -> None:
    """With the user, the object, the rule, and the reason that a person gave. A dry run is not a change."""
    audit = world.app.state.kajitori.audit
    spec = {"image": "python:3.12", "command": ["true"]}
    assert (await world.http.post("/v1/runs?dryRun=true", json={"name": "asked", "spec": spec})).status_code == 200
    assert (await world.http.post("/v1/runs", json={"name": "bert", "spec": spec})).status_code == 201
    refused = spec | {"resources": {"memory": "900Ti"}}
    assert (await world.http.post("/v1/runs", json={"name": "huge", "spec": refused})).status_code == 422
    assert (await world.http.post("/v1/nodes/g1/drain", json={"reason": "loud fan"})).status_code == 200
    assert await audit._flush()
    found = (await world.http.get("/v1/audit")).json()
    assert found["namespaces"] is None, "all, and changes to the cluster"
    rows = found["items"]
    assert [(row["actor"], row["action"], row["object"], row["outcome"], row["rule"]) for row in rows] == [
        ("ada", "drain node", "node g1", "done", ""),
        ("ada", "submit run", "run huge", "refused", "LargerThanAnyNode"),
        ("ada", "submit run", "run bert", "done", ""),
    ]
    assert (rows[0]["message"], rows[1]["namespace"]) == ("loud fan", "team")
    by_name = (await world.http.get("/v1/audit", params={"object": "g1"})).json()["items"]
    assert [row["object"] for row in by_name] == ["node g1"]
    kinds = {_KINDS.get(action, action.split()[-1]) for action in CHANGES.values()}
    assert kinds <= set(OBJECT_KINDS), "a name finds objects of all kinds"
    assert (await world.http.get("/v1/audit", params={"until": "2020-01-01T00:00:00Z"})).json()["items"] == []


def test_every_route_is_listed_as_a_change_or_not() -> None:
    """A new route must be listed for the audit trail."""
    changing = {(method.upper(), path) for path, method, _ in operations(openapi_document()) if method != "get"}
    assert changing == CHANGES.keys() | NO_CHANGES
