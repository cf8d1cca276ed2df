"""Lists of runs as tables: sorting, searching, windows, counts, and the stream of their changes."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx2
import pytest
from tests.helpers.callers.change_events import change_events
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run

from kajitori.api.streams import live_rows, run_rows
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.naming.names import ANNOTATION_NOTE
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.note import Note, write_note

CHANGES = "/v1/runs/changes"
changes = partial(change_events, path=CHANGES)
IDLE = {"since": "2026-11-21T10:00:00Z", "attempt": 1, "gpus": 8, "fewest": 8, "most": 8}
H100 = {"gpu": 8, "gpuType": "h100"}


async def furnish(world: World) -> None:
    """Create three runs of two owners in two namespaces."""
    made: list[tuple[str, str, dict[str, Any]]] = [
        ("bert", "10:02", run("bert", phase="Running", replicas=2, resources=H100)),
        ("gpt", "10:01", run("gpt", phase="Failed", image="Registry/LLM:3")),
        ("vit", "10:03", run("vit", owner="grace", namespace="other", replicas=4)),
    ]
    for name, time, document in made:
        document["metadata"] |= {"creationTimestamp": f"2026-11-21T{time}:00Z", "labels": {"stage": f"of-{name}"}}
        if name == "gpt":
            note = write_note(Note("a good\nstart", "ada", "2026-11-21T11:30:00.5Z"))
            document["metadata"]["annotations"] |= {ANNOTATION_NOTE: note}
        world.kubernetes.put("runs", document)
    await world.caught_up()


async def listed(world: World, **params: Any) -> dict[str, Any]:
    response = await world.http.get("/v1/runs", params=params)
    assert response.status_code == 200, response.text
    page: dict[str, Any] = response.json()
    return page | {"names": [item["name"] for item in page["items"]]}


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("name", ["bert", "gpt", "vit"]),
        ("-name", ["vit", "gpt", "bert"]),
        ("createdAt", ["gpt", "bert", "vit"]),
        ("phase", ["vit", "bert", "gpt"]),
        ("-gpus", ["bert", "vit", "gpt"]),
        ("-members", ["vit", "bert", "gpt"]),
        ("-owner", ["vit", "bert", "gpt"]),
    ],
)
async def test_a_list_is_sorted_in_pages_and_in_windows(world: World, sort: str, expected: list[str]) -> None:
    await furnish(world)
    assert (await listed(world, sort=sort))["names"] == expected
    paged = await listed(world, sort=sort, limit=2)
    rest = await listed(world, sort=sort, **{"continue": paged["continue"]})
    assert paged["names"] + rest["names"] == expected
    assert (await listed(world, sort=sort, offset=1, limit=1))["names"] == expected[1:2]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"search": "BERT"}, ["bert"]),
        ({"search": "registry/llm"}, ["gpt"]),
        ({"search": "stage=of-vit grace"}, ["vit"]),
        ({"search": "vit ada"}, []),
        ({"owner": ["@me", "grace"]}, ["bert", "gpt", "vit"]),
        ({"owner": ["", "grace"]}, ["vit"]),
        ({"namespace": ["team", "other"]}, ["bert", "gpt", "vit"]),
        ({"namespace": ""}, ["bert", "gpt", "vit"]),
        ({"search": "GOOD start gpt"}, ["gpt"]),
        ({"search": "a start"}, ["gpt"]),
        ({"team": "vision"}, ["vit"]),
        ({"team": "vision", "namespace": "team"}, []),
    ],
)
async def test_filters_of_a_table(world: World, params: dict[str, Any], expected: list[str]) -> None:
    """Values of one filter are alternatives; all filters have to match."""
    world.change(policy=PolicyFile(None, without_file=parse_policy("teams: {vision: {namespaces: [other]}}")))
    await furnish(world)
    assert sorted((await listed(world, **params))["names"]) == expected


async def test_single_runs_are_found_by_their_uids(world: World) -> None:
    """A page that waits for the end of other people's runs follows them alone."""
    await furnish(world)
    uids = [run["uid"] for run in (await listed(world))["items"] if run["name"] != "bert"]
    assert sorted((await listed(world, uid=[*uids, ""]))["names"]) == ["gpt", "vit"]
    assert (await listed(world, uid=uids, owner="grace"))["names"] == ["vit"]


async def test_counts_by_phase_ignore_the_filter_of_phases(world: World) -> None:
    """A page shows how many runs another choice of phases would list."""
    await furnish(world)
    page = await listed(world, phase="Running", limit=1)
    assert page["counts"] == {"total": 1, "phases": {"Queued": 1, "Running": 1, "Failed": 1}}
    assert (await listed(world, active="true", owner="ada"))["counts"] == {
        "total": 1,
        "phases": {"Running": 1, "Failed": 1},
    }
    assert (await listed(world, limit=1))["counts"]["total"] == 3


async def test_sweeps_are_listed_and_counted_alone(world: World) -> None:
    """An invalid array, written with kubectl, makes a sweep as well."""
    await furnish(world)
    world.kubernetes.put("runs", run("grid", phase="Running", array="0-99%4"))
    world.kubernetes.put("runs", run("odd", array="0-x"))
    await world.caught_up()
    page = await listed(world, sweep="true", sort="name")
    assert page["names"] == ["grid", "odd"]
    assert page["counts"] == {"total": 2, "phases": {"Running": 1, "Queued": 1}}


async def test_a_row_counts_interruptions_if_there_were_any(world: World) -> None:
    """They are the restarts that `restarts` does not count."""
    interrupted = run("bert", phase="Running")
    interrupted["status"] |= {"restarts": 1, "interruptions": 2}
    world.kubernetes.put("runs", interrupted)
    world.kubernetes.put("runs", run("vit", phase="Running"))
    await world.caught_up()
    page = await listed(world, fields="summary")
    assert [(row["restarts"], row.get("interruptions")) for row in page["items"]] == [(1, 2), (0, None)]


async def test_notebooks_are_listed_alone(world: World) -> None:
    await furnish(world)
    world.kubernetes.put("runs", run("lab", phase="Running", type="notebook"))
    await world.caught_up()
    page = await listed(world, notebook="true")
    assert page["names"] == ["lab"] and page["counts"]["total"] == 1


async def test_fields_narrow_each_run(world: World) -> None:
    await furnish(world)
    page = await listed(world, fields=["name", "owner"], sort="name", limit=1)
    assert page["items"] == [{"name": "bert", "owner": "ada"}]


@pytest.mark.parametrize(
    ("phase", "status", "finding"),
    [
        ("Running", {}, ""),
        ("Running", {"stuck": {"since": "2026-11-21T10:00:00Z"}, "idle": IDLE}, "stuck"),
        ("Running", {"idle": IDLE}, "idle"),
        ("Restarting", {"stuck": {"since": "2026-11-21T10:00:00Z"}}, ""),
    ],
)
async def test_a_summary_names_what_is_suspected_of_a_running_run(
    world: World, phase: str, status: dict[str, Any], finding: str
) -> None:
    document = run("bert", phase=phase)
    document["status"] |= status
    world.kubernetes.put("runs", document)
    await world.caught_up()
    assert (await listed(world, fields="summary"))["items"][0]["finding"] == finding


async def test_a_summary_has_what_a_table_shows(world: World) -> None:
    """GPUs are those of all members; a sweep counts those that may run at once, until it has members."""
    await furnish(world)
    world.kubernetes.put("runs", run("grid", array="0-99%4", resources={"gpu": 2}))
    world.kubernetes.put("runs", run("odd", repliccas="many", array=7, image=[]))
    await world.caught_up()
    rows = {item["name"]: item for item in (await listed(world, fields="summary"))["items"]}
    shown = {key: rows["bert"][key] for key in ("namespace", "owner", "phase", "gpus", "gpuType", "members")}
    counts = {"total": 1, "pending": 0, "running": 0, "succeeded": 0, "failed": 0}
    assert shown == {
        "namespace": "team",
        "owner": "ada",
        "phase": "Running",
        "gpus": 16,
        "gpuType": "h100",
        "members": counts,
    }
    assert (rows["grid"]["gpus"], rows["grid"]["members"]["total"], rows["grid"]["reason"]) == (8, 100, "NotPlannedYet")
    assert rows["odd"]["gpus"] == 0, "an invalid spec, written with kubectl, does not break the list"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"sort": "color"}, "sort"),
        ({"fields": "color"}, "fields"),
        ({"fields": ["summary", "name"]}, "fields"),
        ({"team": "nosuch"}, "team"),
        ({"search": "a " * 17}, "search"),
        ({"sort": "name", "offset": "1"}, "offset"),
        ({"sort": "-name"}, "continue"),
        ({}, "continue"),
    ],
)
async def test_a_list_refuses_what_it_cannot_do(world: World, params: dict[str, Any], field: str) -> None:
    await furnish(world)
    following = (await listed(world, sort="name", limit=1))["continue"]
    more = {"continue": following} if field in ("continue", "offset") else {}
    response = await world.http.get("/v1/runs", params=params | more)
    assert response.status_code == 422
    assert response.json()["faults"][0]["field"].startswith(field)


def names_in(data: dict[str, Any]) -> dict[str, list[str]]:
    return {key: [item["name"] for item in data[key]] for key in ("added", "changed", "removed")}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_rows, "BATCH_SECONDS", 0.0)


async def test_a_stream_shows_a_snapshot_then_changes(world: World, served: httpx2.AsyncClient) -> None:
    """A run that matches no more is removed from the table, and one that matches now is added."""
    await furnish(world)
    async with changes(served, active="true") as events:
        kind, data = await events.next()
        assert (kind, sorted(item["name"] for item in data["items"])) == ("snapshot", ["bert", "vit"])
        assert data["counts"] == {"total": 2, "phases": {"Queued": 1, "Running": 1, "Failed": 1}}
        world.kubernetes.change("runs", "bert", status={"phase": "Running", "message": "half done"})
        kind, data = await events.next()
        assert (kind, names_in(data)) == ("changes", {"added": [], "changed": ["bert"], "removed": []})
        assert data["changed"][0]["message"] == "half done"
        world.kubernetes.change("runs", "gpt", status={"phase": "Restarting"})
        assert names_in((await events.next())[1]) == {"added": ["gpt"], "changed": [], "removed": []}
        world.kubernetes.change("runs", "gpt", status={"phase": "Failed"})
        assert names_in((await events.next())[1]) == {"added": [], "changed": [], "removed": ["gpt"]}
        world.kubernetes.remove("runs", "vit", "other")
        data = (await events.next())[1]
        assert names_in(data) == {"added": [], "changed": [], "removed": ["vit"]}
        assert data["counts"] == {"total": 1, "phases": {"Running": 1, "Failed": 1}}


async def test_a_stream_goes_on_where_a_list_or_stream_ended(world: World, served: httpx2.AsyncClient) -> None:
    """All changes in between are one batch with the newest state of each run."""
    await furnish(world)
    version = (await listed(world, fields="summary"))["version"]
    for message in ("one", "two"):
        world.kubernetes.change("runs", "bert", status={"phase": "Running", "message": message})
        await world.caught_up()
        await listed(world)
    async with changes(served, since=version, items="false") as events:
        kind, data = await events.next()
        assert (kind, [item["message"] for item in data["changed"]]) == ("changes", ["two"])
    world.kubernetes.remove("runs", "gpt")
    await world.caught_up()
    async with changes(served, last_id=events.last_id, since=version) as events:
        assert names_in((await events.next())[1]) == {"added": [], "changed": [], "removed": ["gpt"]}


async def test_a_reader_that_is_too_far_behind_gets_a_snapshot(
    world: World, served: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for a version of another filter or another process."""
    monkeypatch.setattr(live_rows, "LOG_LENGTH", 1)
    await furnish(world)
    version = (await listed(world, fields="summary"))["version"]
    for name in ("bert", "gpt"):
        world.kubernetes.change("runs", name, status={"phase": "Failed", "message": "again"})
        await world.caught_up()
        await listed(world)
    for last_id in (version, "other.1.1", (await listed(world, fields="summary", owner="ada"))["version"]):
        async with changes(served, last_id=last_id, items="false") as events:
            kind, data = await events.next()
            assert (kind, data["items"], data["counts"]["total"]) == ("snapshot", [], 3)


async def test_streams_of_one_selection_share_their_batches(world: World) -> None:
    """Two hundred open pages cost one encoding, and no request to the API server."""
    await furnish(world)
    rows, selected = world.api.runs.rows, run_rows.RunFilter(owners=frozenset({"ada"}))
    with rows.selecting(selected) as first, rows.selecting(selected) as second:
        assert first is second
        since, _ = rows.snapshot(first, items=True)
        world.kubernetes.change("runs", "bert", status={"phase": "Stopped"})
        await world.caught_up()
        batch = rows.changes(first, since)
        assert b"bert" in batch[1] and rows.changes(second, since)[1] is batch[1]
        world.kubernetes.change("runs", "vit", "other", status={"phase": "Stopped"})
        await world.caught_up()
        assert rows.changes(first, batch[0])[1] == b"", "nothing that the reader sees has changed"


async def test_a_stream_shows_only_namespaces_that_the_caller_may_read(
    world: World, served: httpx2.AsyncClient
) -> None:
    """A namespace that gets its first run later is shown as soon as it has one."""
    await furnish(world)
    world.kubernetes.denied |= {("ada", "list", "runs", namespace) for namespace in ("", "other")}
    assert (await served.get(CHANGES, params={"namespace": "other"})).status_code == 403
    async with changes(served) as events:
        assert sorted(item["name"] for item in (await events.next())[1]["items"]) == ["bert", "gpt"]
        world.kubernetes.change("runs", "vit", "other", status={"phase": "Failed"})
        world.kubernetes.put("runs", run("new", namespace="late"))
        kind, data = await events.next()
        assert (kind, sorted(item["name"] for item in data["items"])) == ("snapshot", ["bert", "gpt", "new"])
        world.kubernetes.denied.add(("ada", "list", "runs", "late"))
        await world.api.callers.sessions.recheck()
        with pytest.raises(httpx2.RemoteProtocolError):
            await events.next()


async def test_a_browser_reads_a_stream_in_its_session(world: World, served: httpx2.AsyncClient) -> None:
    """Scripts of a page cannot send a token with an EventSource; the cookie is enough."""
    await furnish(world)
    code = (await served.post("/v1/sign-in-links")).json()["code"]
    origin = str(served.base_url).rstrip("/")
    async with httpx2.AsyncClient(base_url=origin) as browser:
        answer = await browser.post("/sign-in/link", headers={"Kajitori-Link": code, "Origin": origin})
        assert answer.status_code == 204
        cookies = "; ".join(value.partition(";")[0] for value in answer.headers.get_list("set-cookie"))
        browser.headers["Cookie"] = cookies
        async with changes(browser, owner="@me") as events:
            assert sorted(item["name"] for item in (await events.next())[1]["items"]) == ["bert", "gpt"]


async def test_a_heartbeat_names_the_version_that_the_reader_has(world: World) -> None:
    """A change that a list has counted, but the stream has not sent, would be lost if the reader resumed after it."""
    await furnish(world)
    rows = world.api.runs.rows
    with rows.selecting(run_rows.RunFilter()) as selection:
        since, _ = rows.snapshot(selection, items=False)
        world.kubernetes.change("runs", "bert", status={"phase": "Stopped"})
        await world.caught_up()
        await listed(world)
        token, kind, data = rows.heartbeat(selection, since).decode().splitlines()[:3]
        assert (kind, data) == ("event: heartbeat", "data: {}"), "a browser hands only events with data to the page"
        assert rows.version_of(token.removeprefix("id: "), selection) == since


async def test_a_list_is_refused_while_the_cluster_does_not_define_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty list would be misleading, also of one namespace."""
    monkeypatch.setattr(world.mirror, "lacks", lambda resource: True)
    for path in ("/v1/runs", CHANGES):
        response = await world.http.get(path, params={"namespace": "team"})
        assert "CustomResourceDefinition" in response.json()["detail"]
