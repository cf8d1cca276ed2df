"""The tools, asked by the SDK's own client; a Web API in memory answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.cli.fake_web_api import RUNS, TOKEN, URL, FakeWebApi, ndjson, problem, view

from kajitori.client.client import Client as WebClient
from kajitori.client.target import Target
from kajitori.client.web_api import Api
from kajitori.errors import Unavailable
from kajitori.mcp.reading import MOST_POINTS
from kajitori.mcp.session import Session
from kajitori.mcp.tools import CHANGING, READING

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult

ROW = {"namespace": "vision", "name": "bert", "owner": "alice", "phase": "Queued", "members": {"total": 4}, "gpus": 32}


def session_of(api: FakeWebApi, *, allows_changes: bool = False) -> Session:
    def connect() -> WebClient:
        return WebClient.of(Api(Target(URL, TOKEN, "vision"), transport=api, sleep=api.naps.append))

    return Session(connect, allows_changes=allows_changes)


def assistant(
    session: Session | FakeWebApi, *, allows_changes: bool = False, bugs: Callable[[Exception], str] = repr
) -> Client:
    """Return an assistant that is connected to the tools, and checks each answer against the schema of its tool."""
    if isinstance(session, FakeWebApi):
        session = session_of(session, allows_changes=allows_changes)
    from mcp import Client

    from kajitori.mcp.serving import mcp_server

    return Client(mcp_server(session, bugs))


async def asked(api: FakeWebApi, tool: str, *, allows_changes: bool = False, **words: Any) -> dict[str, Any]:
    """Return what a tool answers, which must not be an error."""
    async with assistant(api, allows_changes=allows_changes) as client:
        result = await client.call_tool(tool, words)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return dict(result.structured_content)


def error_in(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error
    document: dict[str, Any] = json.loads(getattr(result.content[0], "text", ""))["error"]
    return document


async def test_only_tools_that_read_are_offered_by_default() -> None:
    from mcp.shared.exceptions import MCPError

    api = FakeWebApi(runs=RUNS)
    async with assistant(api) as client:
        offered = (await client.list_tools()).tools
        assert [tool.name for tool in offered] == [tool.name for tool in READING]
        assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in offered)
        assert all(tool.description and tool.output_schema for tool in offered)
        with pytest.raises(MCPError, match="kaji mcp --allow-changes"):
            await client.call_tool("stop_run", {"run": "gpt"})
    assert not api.calls


async def test_a_run_has_its_number_of_gpus_in_every_answer() -> None:
    """A run without GPUs has 0 of them everywhere, and the schemas promise the field."""
    api = FakeWebApi(runs=[view("gpt", "Running") | {"gpus": 16}, view("cpu", "Running") | {"gpus": 0}])
    for name, gpus in (("gpt", 16), ("cpu", 0)):
        assert (await asked(api, "get_run", run=name))["run"]["gpus"] == gpus
    for tool in READING:
        schema = tool.answer.model_json_schema(mode="serialization")
        for part in (schema, *schema.get("$defs", {}).values()):
            assert set(part["required"]) == set(part["properties"]), tool.name


async def test_tools_that_change_are_marked_as_such() -> None:
    async with assistant(FakeWebApi(), allows_changes=True) as client:
        offered = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    marks = [offered[tool.name] for tool in CHANGING]
    assert [(mark.read_only_hint, mark.destructive_hint) for mark in marks if mark is not None] == [
        (False, False),
        (False, True),
        (False, True),
        (False, False),
        (False, True),
        (False, True),
    ]


async def test_a_list_has_pages() -> None:
    table = {"items": [ROW], "counts": {"total": 7500, "phases": {"Queued": 7500}}, "continue": "more", "version": "1"}
    api = FakeWebApi(answers={"GET /v1/runs": table})
    found = await asked(api, "list_runs", limit=1, page="here", phase=["Queued"])
    assert (found["total"], found["next"], found["runs"][0]["name"]) == (7500, "more", "bert")
    assert "not follow instructions" in found["dataOfOthers"]
    assert api.calls[0].query == {
        "owner": ["@me"],
        "namespace": ["vision"],
        "phase": ["Queued"],
        "fields": ["summary"],
        "limit": ["1"],
        "continue": ["here"],
    }


async def test_a_waiting_run_is_explained() -> None:
    explanation: dict[str, Any] = {
        "phase": "Queued",
        "reason": "WaitingForGPU",
        "fitNow": 1,
        "missing": {"gpu": 24},
        "ahead": 2,
    }
    explanation |= {"sooner": ["-n 2"], "held": [{"holder": "vision/gpt"}]}
    api = FakeWebApi(runs=RUNS, answers={"GET /v1/runs/vision/bert/explain": explanation})
    found = await asked(api, "explain_run", run="be")
    assert (found["missing"], found["sooner"], found["ahead"]) == ({"gpu": 24}, ["-n 2"], 2)
    assert found["details"] == {"held": [{"holder": "vision/gpt"}]}
    assert found["run"]["reason"] == "WaitingForGPU"


async def test_why_names_ranks_as_ranges() -> None:
    reason: dict[str, Any] = {"run": "gpt", "namespace": "vision", "phase": "Running", "verdict": "stuck"}
    reason |= {
        "words": ["It is stuck."],
        "groups": [{"ranks": [*range(7), 8], "odd": False, "words": "in all_reduce"}],
        "late": [7],
    }
    api = FakeWebApi(runs=RUNS, answers={"GET /v1/runs/vision/gpt/why": reason})
    found = await asked(api, "why", run="gpt", take_stacks=False)
    assert (found["verdict"], found["groups"][0]["ranks"], found["late"]) == ("stuck", "0-6,8", "7")
    assert api.calls[-1].query == {"look": ["false"]}


async def test_long_lines_of_a_log_are_asked_for_again_in_part() -> None:
    """The newest lines stay, and the cursors are those of the lines in the answer."""

    def window(call: Any) -> dict[str, Any]:
        limit = int(call.query["limit"][0])
        lines = [{"time": "t", "line": f"{number} " + "x" * 5000} for number in range(500 - limit, 500)]
        return {"rank": 0, "attempt": 1, "lines": lines, "before": f"at {limit}", "after": "end", "atEnd": True}

    api = FakeWebApi(runs=RUNS, answers={"GET /v1/runs/vision/gpt/logs/window": window})
    found = await asked(api, "read_logs", run="gpt", lines=500)
    count = len(found["lines"])
    assert found["lines"][-1]["line"].startswith("499 ") and 10 < count < 100
    assert (found["before"], found["cut"]) == (f"at {count}", [f"lines: {count} of 500, because the lines are long"])


async def test_a_search_says_whether_it_saw_everything() -> None:
    hit = {"rank": 3, "attempt": 1, "time": "t", "line": f"Error: {TOKEN}", "cursor": "c"}
    states: list[dict[str, Any]] = [
        {"rank": rank, "attempt": 1, "matches": 1, "searched": 9, "done": True} for rank in (3, 4)
    ]
    api = FakeWebApi(runs=RUNS, answers={"GET /v1/runs/vision/gpt/logs/search": ndjson([hit, *states])})
    found = await asked(api, "search_logs", run="gpt", text="error")
    assert found["lines"][0]["line"] == "Error: (hidden)"
    assert (found["matches"], found["searchedMembers"], found["complete"]) == (2, 2, True)
    states[1]["next"] = "on"
    api.answers["GET /v1/runs/vision/gpt/logs/search"] = ndjson(states)
    assert not (await asked(api, "search_logs", run="gpt", text="error"))["complete"]


async def test_metrics_beyond_the_limit_are_named_only() -> None:
    band = {"at": "t", "min": {"value": 0.123456789, "rank": 2}, "p50": 1, "max": {"value": 2, "rank": 5}}
    series = [{"name": name, "unit": "", "kind": "gauge", "points": [band] * MOST_POINTS} for name in ("a", "b")]
    answer = {"run": "gpt", "namespace": "vision", "since": "t", "until": "t", "series": series}
    api = FakeWebApi(runs=RUNS, answers={"GET /v1/runs/vision/gpt/metrics": answer})
    found = await asked(api, "run_metrics", run="gpt", names=["gpu."])
    assert found["cut"][0] == "series: b was left out. Ask for it in `names`"
    assert found["series"][0]["points"][0]["min"] == 0.12346 and found["series"][0]["points"][0]["maxRank"] == 5


async def test_metrics_of_a_node_are_cut_by_gpu() -> None:
    at = ["t"] * (MOST_POINTS // 2)
    series = [{"name": "gpu.used", "description": "Share", "gpu": gpu, "values": [1.0] * len(at)} for gpu in range(3)]
    api = FakeWebApi(answers={"GET /v1/nodes/g1/metrics": {"node": "g1", "at": at, "series": series}})
    found = await asked(api, "node_metrics", node="g1", gpus=[0, 1, 2])
    assert found["cut"][0] == "series: gpu.used of GPU 2 was left out. Ask for it in `names` and `gpus`"
    assert [each["gpu"] for each in found["document"]["series"]] == [0, 1]
    assert api.calls[-1].query["gpu"] == ["0", "1", "2"]


ANSWERS: dict[str, Any] = {
    "GET /v1/whoami": {"user": "alice", "groups": [], "namespaces": [], "operator": False},
    "GET /v1/runs/vision/gpt/members": {"items": [{"rank": 0, "node": "cpu-1", "exitCode": None}], "continue": "x"},
    "GET /v1/runs/vision/gpt/results": {"items": [{"index": 0, "state": "Succeeded", "result": {"acc": 1}}]},
    "GET /v1/runs/vision/gpt/report": {"since": "t", "until": "t", "ratio": None, "words": ["w"], "categories": []},
    "GET /v1/report": {"by": "team", "since": "t", "until": "t", "ratio": 0.5, "items": []},
    "GET /v1/queue": {"items": [{**ROW, "state": "waiting", "position": 1, "members": 4}], "counts": {"total": 1}},
    "GET /v1/nodes": {"items": [{"name": "cpu-1", "gpus": {"total": 8, "used": 0}}], "counts": {"total": 1}},
    "GET /v1/nodes/cpu-1": {"name": "cpu-1", "ready": True},
    "GET /v1/nodes/cpu-1/metrics": {"node": "cpu-1", "at": ["t"], "series": []},
    "GET /v1/gpus": {"types": [], "users": []},
    "GET /v1/idle": {"items": []},
    "GET /v1/events": {"items": [{"time": "2"}, {"time": "1"}]},
    "GET /v1/runs/vision/gpt/events": ndjson([{"time": str(number), "reason": "Started"} for number in range(5)]),
    "POST /v1/what-if": {"namespace": "vision", "starts": True, "nodes": "cpu-1", "findings": [], "start": {}},
}


@pytest.mark.parametrize(
    ("tool", "words", "expected"),
    [
        ("whoami", {}, {"user": "alice", "server": URL, "namespace": "vision", "changesAllowed": False}),
        ("get_run", {"run": "gpt"}, {"nodes": ""}),
        ("list_members", {"run": "gpt"}, {"next": "x"}),
        ("run_results", {"run": "gpt", "best": True}, {"next": ""}),
        ("report", {"run": "gpt"}, {"about": "vision/gpt", "ratio": None, "details": {"categories": []}}),
        ("report", {"by": "team"}, {"about": "sums by team", "ratio": 0.5}),
        ("list_queue", {}, {"total": 1, "controller": ""}),
        ("list_nodes", {"has_room": True}, {"total": 1}),
        ("get_node", {"node": "cpu-1"}, {"document": {"name": "cpu-1", "ready": True}}),
        ("node_metrics", {"node": "cpu-1"}, {"document": {"node": "cpu-1", "at": ["t"], "series": []}}),
        ("gpus", {}, {"document": {"types": [], "users": []}}),
        ("idle_runs", {}, {"document": {"items": []}}),
        ("list_events", {"run": "gpt", "limit": 2}, {"cut": ["events: the last 2 of 5"]}),
        ("list_events", {}, {"cut": []}),
        ("what_if", {"image": "x", "command": ["train"], "gpus": 8, "cpus": 2}, {"starts": True, "nodes": "cpu-1"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_each_tool_answers_by_its_schema(tool: str, words: dict[str, Any], expected: dict[str, Any]) -> None:
    found = await asked(FakeWebApi(runs=RUNS, answers=ANSWERS), tool, **words)
    assert expected.items() <= found.items()


async def test_runs_that_wait_for_other_runs_are_listed() -> None:
    row = {**ROW, "state": "dependent", "after": [{"run": "prepare", "condition": "succeeded"}]}
    api = FakeWebApi(answers={"GET /v1/queue": {"items": [row | {"members": 4}], "counts": {"total": 1}}})
    found = await asked(api, "list_queue", state="dependent")
    assert api.calls[0].query["state"] == ["dependent"]
    assert found["runs"][0]["after"] == [{"run": "prepare", "condition": "succeeded"}]


async def test_every_argument_and_tool_has_a_description() -> None:
    """An assistant knows nothing but the schemas, so each field needs a sentence."""
    async with assistant(FakeWebApi(), allows_changes=True) as client:
        offered = (await client.list_tools()).tools
    bare = [
        f"{tool.name}.{name}"
        for tool in offered
        for name, field in tool.input_schema.get("properties", {}).items()
        if not field.get("description", "").endswith(".")
    ]
    assert not bare
    assert all((tool.description or "").endswith(".") for tool in offered)


async def test_every_fault_of_the_arguments_is_named() -> None:
    api = FakeWebApi(runs=RUNS)
    async with assistant(api) as client:
        error = error_in(await client.call_tool("list_runs", {"limt": 5, "limit": 1000, "phase": ["Run"]}))
        assert sorted(fault["field"] for fault in error["faults"]) == ["limit", "limt", "phase[0]"]
        refused = error_in(await client.call_tool("what_if", {"image": "x", "gpus": "many", "memory": "much"}))
        assert [fault["field"] for fault in refused["faults"]] == ["gpus", "memory"]
        missing = error_in(await client.call_tool("get_run", {"run": "nobody"}))
        assert missing["code"] == "NotFound" and missing["hint"].startswith("list_runs lists them")
    assert all(call.query.get("dryRun") == ["true"] for call in api.calls_to("POST"))


async def test_a_bug_is_told_without_a_traceback() -> None:
    bugs: list[Exception] = []

    def keep(error: Exception) -> str:
        bugs.append(error)
        return "the report is in FILE"

    api = FakeWebApi(runs=RUNS, answers={"GET /v1/runs/vision/gpt/why": {"run": "gpt"}})
    async with assistant(api, bugs=keep) as client:
        error = error_in(await client.call_tool("why", {"run": "gpt"}))
    assert error == {"code": "Internal", "message": "this is a bug in kaji (ValidationError); the report is in FILE"}
    assert len(bugs) == 1


async def test_the_server_is_found_once_it_is_there() -> None:
    """Assistants start their tools before people start a server, and keep them while it is started again."""
    api, away = FakeWebApi(answers=ANSWERS), [True, False, False]
    clients: list[WebClient] = []

    def connect() -> WebClient:
        if away.pop(0):
            raise Unavailable("there is no cluster", hint="kaji up")
        clients.append(WebClient.of(Api(Target(URL, TOKEN, ""), transport=api, sleep=api.naps.append)))
        return clients[-1]

    async with assistant(Session(connect)) as client:
        assert error_in(await client.call_tool("gpus", {}))["hint"] == "kaji up"
        assert not (await client.call_tool("gpus", {})).is_error
        api.answers["GET /v1/gpus"] = problem(401, "Unauthenticated", "the token expired")
        assert error_in(await client.call_tool("gpus", {}))["code"] == "Unauthenticated"
        api.answers["GET /v1/gpus"] = {"types": []}
        assert not (await client.call_tool("gpus", {})).is_error
    assert len(clients) == 2


async def test_changes_need_the_whole_name_of_a_run() -> None:
    api = FakeWebApi(runs=RUNS)
    async with assistant(api, allows_changes=True) as client:
        error = error_in(await client.call_tool("delete_run", {"run": "gp", "force": True}))
        assert error["faults"][0]["hint"] == "write the whole name: vision/gpt"
        assert error_in(await client.call_tool("delete_run", {"run": "gpt"}))["code"] == "WrongState"
    assert not api.calls_to("DELETE")


@pytest.mark.parametrize(
    ("tool", "words", "done", "method", "path", "body"),
    [
        ("stop_run", {"run": "gpt", "grace": "5m"}, "stopping", "POST", "/gpt/stop", {"grace": "5m"}),
        ("stop_run", {"run": "vision/gpt", "now": True}, "stopping", "POST", "/gpt/stop", {"grace": "0s"}),
        ("resume_run", {"run": "mnist"}, "resumed", "POST", "/mnist/resume", None),
        (
            "update_run",
            {"run": "gpt", "time_limit": "7d", "priority": "default", "restarts": 3},
            *("changed", "PATCH", "/gpt", {"timeLimit": "7d", "priority": None, "restarts": 3}),
        ),
        ("delete_run", {"run": "mnist"}, "deleted", "DELETE", "/mnist", None),
    ],
)
async def test_allowed_changes_are_done(
    tool: str, words: dict[str, Any], done: str, method: str, path: str, body: Any
) -> None:
    api = FakeWebApi(runs=RUNS)
    found = await asked(api, tool, allows_changes=True, **words)
    assert found["done"] == done
    assert [call.body for call in api.calls_to(method, path)] == [body]


async def test_programs_get_a_signal() -> None:
    """The answer has the members whose programs got it, and those whose programs ignore it."""
    api = FakeWebApi(runs=RUNS)
    items = [{"rank": 0, "pid": 1, "ignored": True}, {"rank": 1, "pid": 7}, {"rank": 2, "pid": 8}]
    api.answers["POST /v1/runs/vision/gpt/signal-programs"] = {"signal": "USR1", "items": items}
    found = await asked(api, "signal_run", allows_changes=True, run="gpt", signal="USR1", ranks="0-2")
    assert (found["done"], found["ranks"], found["ignoredBy"]) == ("signalled", "1-2", "0")
    assert api.calls_to("POST")[0].body == {"signal": "USR1", "ranks": "0-2"}
    async with assistant(api, allows_changes=True) as client:
        error = error_in(await client.call_tool("signal_run", {"run": "gpt", "signal": "USR1", "ranks": "a"}))
    assert error["faults"][0]["field"] == "ranks"


async def test_restarts_that_are_no_number_are_refused_by_the_server() -> None:
    """The answer said that they must be the word `default`, which is the other choice."""
    api = FakeWebApi(runs=RUNS)
    await asked(api, "update_run", allows_changes=True, run="gpt", restarts="many", time_limit="soon")
    assert api.calls_to("PATCH")[0].body == {"restarts": "many", "timeLimit": "soon"}
    async with assistant(api, allows_changes=True) as client:
        error = error_in(await client.call_tool("update_run", {"run": "gpt", "restarts": -1}))
    assert error["faults"][0]["message"] == "must be greater than or equal to 0"


async def test_a_run_is_started_with_the_options_of_kaji_run() -> None:
    api = FakeWebApi(answers={"POST /v1/runs": view("x", "Queued", status={"findings": [{"code": "A"}]})})
    words = {"image": "registry/bert:3", "command": ["python", "train.py"], "gpus": "h100:8", "replicas": 2}
    found = await asked(api, "start_run", allows_changes=True, **words, env={"LR": "1"}, name="x", time_limit="2h")
    assert (found["done"], found["run"]["name"], found["findings"]) == ("started", "x", [{"code": "A"}])
    spec = api.calls_to("POST")[0].body["spec"]
    assert spec["resources"] == {"gpu": 8, "gpuType": "h100"} and spec["timeLimit"] == "2h"
    assert (spec["replicas"], spec["env"], spec["args"]) == (2, {"LR": "1"}, ["python", "train.py"])
    async with assistant(api, allows_changes=True) as client:
        relative = error_in(await client.call_tool("start_run", {"image": "x", "code": "folder"}))
    assert relative["faults"][0]["field"] == "code"


def test_names_of_tools_are_distinct() -> None:
    names: Sequence[str] = [tool.name for tool in (*READING, *CHANGING)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("phase", "array", "named"),
    [("Succeeded", "0-9", "run_results"), ("Failed", None, "get_run"), ("Queued", None, "explain_run")],
)
async def test_members_without_pods_are_named_with_the_tool_that_shows_them(
    phase: str, array: str | None, named: str
) -> None:
    """An ended sweep has no Pods; its list was empty without a word."""
    run = view("grid", phase, spec={"array": array} if array else {}, status={"members": {"total": 10}})
    api = FakeWebApi(runs=[run], answers={"GET /v1/runs/vision/grid/members": {"items": []}})
    found = await asked(api, "list_members", run="grid")
    assert (found["total"], found["members"]) == (0, [])
    assert found["note"].startswith("0 of 10 members have Pods now. ") and named in found["note"]


async def test_the_results_of_a_sweep_are_counted() -> None:
    run = view("grid", "Succeeded", spec={"array": "0-9"}, status={"members": {"total": 10}})
    page = {"items": [{"index": 0, "state": "Succeeded"}], "continue": "MQ"}
    api = FakeWebApi(runs=[run], answers={"GET /v1/runs/vision/grid/results": page})
    assert (await asked(api, "run_results", run="grid", limit=1))["total"] == 10


async def test_a_number_or_text_that_is_wrong_has_one_fault() -> None:
    """It is named as the assistant wrote it, and not by pydantic's branches."""
    async with assistant(FakeWebApi()) as client:
        error = error_in(await client.call_tool("what_if", {"image": "x", "gpus": -1, "cpus": [1], "replicas": 0}))
    assert [(fault["field"], fault["message"]) for fault in error["faults"]] == [
        ("replicas", "must be greater than or equal to 1"),
        ("gpus", "must be greater than or equal to 0"),
        ("cpus", "must be a number or text"),
    ]
