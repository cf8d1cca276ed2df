"""What the listing verbs print for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
import yaml
from tests.unit.cli.fake_web_api import FakeWebApi, cut_after, invoke, ndjson, problem, view


def printed(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


RUNS = [
    view(
        "bert",
        "Queued",
        spec={"replicas": 4, "resources": {"gpu": 8, "gpuType": "h100"}},
        status={"reason": "WaitingForGPU", "members": {"total": 4}},
    ),
    view(
        "gpt",
        spec={"replicas": 2},
        status={
            "members": {"total": 2, "running": 2},
            "restarts": 1,
            "attempt": {"number": 2, "nodes": "cpu-[1-2]"},
        },
        createdAt="2026-11-21T11:55:00Z",
    ),
    view("mnist", "Failed", status={"reason": "ProgramFailed", "exitCode": 3, "members": {"total": 1, "failed": 1}}),
]


def test_ps_is_a_table() -> None:
    """Mine and active by default, in the words that people know."""
    api = FakeWebApi(RUNS)
    result = invoke(api, "ps")
    assert result.exit_code == 0
    assert printed(result.stdout) == [
        "NAME    STATUS       REASON          MEMBERS   GPUS      AGE",
        "bert    Queued       WaitingForGPU   0/4       32 h100   2 hours",
        "gpt     Running                      2/2                 5 minutes",
        "mnist   Failed (3)   ProgramFailed   0/1                 2 hours",
    ]
    assert api.calls[0].query == {"owner": ["@me"], "active": ["true"], "limit": ["500"]}
    assert api.calls[0].authorization == "Bearer token-of-the-test"


def test_ps_wide() -> None:
    """Wide tells who, where and how often."""
    memory = {"peakBytes": 3 * 2**29, "limitBytes": 2**31, "rank": 1}
    status = {**RUNS[1]["status"], "memory": memory}
    run = {**RUNS[1], "spec": {**RUNS[1]["spec"], "image": "bert:3"}, "status": status}
    result = invoke(FakeWebApi([run]), "ps", "-o", "wide")
    assert printed(result.stdout) == [
        "NAME   STATUS    REASON   MEMBERS   GPUS   AGE         NAMESPACE   OWNER   RESTARTS   MEMORY PEAK             "
        "NODES       IMAGE",
        "gpt    Running            2/2              5 minutes   vision      alice   1/3        1.5Gi of 2Gi (rank 1)  "
        " cpu-[1-2]   bert:3",
    ]


def test_ps_on_a_narrow_terminal_cuts_the_reason() -> None:
    """Names and states stay whole where there is little room."""
    result = invoke(FakeWebApi(RUNS[:1]), "ps", width=56)
    assert printed(result.stdout)[1] == "bert   Queued   WaitingForG…   0/4       32 h100   2 hours"[:56].rstrip()


def test_ps_no_trunc_cuts_nothing() -> None:
    """--no-trunc shows every word however narrow the terminal is."""
    result = invoke(FakeWebApi(RUNS[:1]), "ps", "--no-trunc", width=40)
    assert "WaitingForGPU" in result.stdout
    assert "2 hours" in result.stdout


@pytest.mark.parametrize(
    ("args", "query"),
    [
        (["-a"], {"owner": ["@me"]}),
        (["--all-users"], {"active": ["true"]}),
        (["-a", "--all-users", "-N", "nlp"], {"namespace": ["nlp"]}),
        (["--filter", "status=running,FAILED"], {"owner": ["@me"], "phase": ["Running", "Failed"]}),
        (
            ["-a", "--filter", "name=be", "--filter", "label=a=b"],
            {"owner": ["@me"], "name": ["be"], "labelSelector": ["a=b"]},
        ),
        (["-a", "--filter", "owner=bob"], {"owner": ["bob"]}),
    ],
)
def test_ps_asks_for_what_was_meant(args: list[str], query: dict[str, list[str]]) -> None:
    """Filters are the server's work."""
    api = FakeWebApi()
    assert invoke(api, "ps", *args).exit_code == 0
    assert {key: value for key, value in api.calls[0].query.items() if key != "limit"} == query


def test_ps_last_limits() -> None:
    """-n shows ended runs too, and asks for no more than is shown."""
    api = FakeWebApi()
    invoke(api, "ps", "-n", "3")
    assert api.calls[0].query == {"owner": ["@me"], "limit": ["3"]}


def test_ps_reads_all_pages() -> None:
    """A list that comes in pages is shown whole."""
    api = FakeWebApi(queues={"GET /v1/runs": [{"items": RUNS[:1], "continue": "x"}, {"items": RUNS[1:]}]})
    result = invoke(api, "ps", "-q")
    assert printed(result.stdout) == ["bert", "gpt", "mnist"]
    assert api.calls[1].query["continue"] == ["x"]


def test_ps_names_every_wrong_filter() -> None:
    """Wrong filters are refused together, with the nearest known word, before a server is asked."""
    api = FakeWebApi()
    result = invoke(api, "ps", "--filter", "status=runing", "--filter", "colour=red")
    assert result.exit_code == 2
    assert "did you mean Running?" in result.stderr
    assert "'colour=red' is no filter" in result.stderr
    assert api.calls == []


def test_ps_for_programs() -> None:
    """JSON and YAML are the API's own documents; names alone with -o name."""
    api = FakeWebApi(RUNS)
    assert json.loads(invoke(api, "ps", "-o", "json").stdout) == {"items": RUNS}
    assert yaml.safe_load(invoke(api, "ps", "-o", "yaml").stdout) == {"items": RUNS}
    assert printed(invoke(api, "ps", "-o", "name").stdout) == ["bert", "gpt", "mnist"]


BOARD = {
    "types": [
        {"type": "a100", "total": 64, "used": 0, "free": 64, "broken": 0},
        {"type": "h100", "total": 64, "used": 32, "free": 24, "broken": 8},
    ],
    "users": [
        {
            "owner": "alice",
            "gpus": 32,
            "types": {"h100": 32},
            "runs": [
                {
                    "name": "bert",
                    "namespace": "vision",
                    "gpus": 32,
                    "type": "h100",
                    "nodes": "gpu-[1-4]",
                    "since": "2026-11-20T12:00:00Z",
                }
            ],
        }
    ],
}


def test_gpus_board() -> None:
    """By type and by user, with bars."""
    result = invoke(FakeWebApi(answers={"GET /v1/gpus": BOARD}), "gpus")
    assert printed(result.stdout) == [
        "TYPE   FREE   USED   BROKEN   TOTAL",
        "a100     64      0        0      64   ░░░░░░░░░░░░░░░░░░░░",
        "h100     24     32        8      64   ██████████▒▒░░░░░░░░",
        "",
        "USER    GPUS                TYPES     RUNS",
        "alice     32   ██░░░░░░░░   32 h100   bert",
    ]


def test_gpus_wide_tells_since_when() -> None:
    """Wide lists the runs that hold GPUs, where and since when."""
    result = invoke(FakeWebApi(answers={"GET /v1/gpus": BOARD}), "gpus", "-o", "wide")
    assert printed(result.stdout)[-2:] == [
        "RUN    USER    GPUS   TYPE   SINCE      NODES",
        "bert   alice     32   h100   24 hours   gpu-[1-4]",
    ]


def test_gpus_of_a_cluster_without() -> None:
    """No GPUs is said in words."""
    result = invoke(FakeWebApi(answers={"GET /v1/gpus": {"types": [], "users": []}}), "gpus")
    assert result.stdout == "This cluster has no GPUs.\n"


def node(name: str, **more: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"name": name, "ready": True, "schedulable": True, "why": "", "gpuType": "h100"}
    document |= {"gpus": {"total": 8, "used": 8}, "cpuMillis": {"total": 64000, "used": 32500}}
    document |= {"memoryBytes": {"total": 2**38, "used": 3 * 2**29}, "pods": {"total": 110, "used": 3}}
    document |= {"domains": {"zone": "a", "rack": "r1"}, "taints": ["gpu=:NoSchedule"], "labels": {"a": "b"}}
    return {**document, "createdAt": "2026-11-11T12:00:00Z", **more}


NODES = [
    node("gpu-1"),
    node("gpu-2", ready=False, why="not ready for 5m", gpus={"total": 8, "used": 0}),
    node("cpu-1", gpus={"total": 0, "used": 0}, gpuType="", schedulable=False, why="cordoned"),
]


def test_nodes() -> None:
    """Used of all, and why a node takes no work."""
    result = invoke(FakeWebApi(answers={"GET /v1/nodes": {"items": NODES}}), "nodes")
    assert printed(result.stdout) == [
        "NAME    STATUS            GPUS   TYPE       CPU        MEMORY    PODS   TAKES NO WORK",
        "gpu-1   Ready              8/8   h100   32.5/64   1.5Gi/256Gi   3/110",
        "gpu-2   NotReady           0/8   h100   32.5/64   1.5Gi/256Gi   3/110   not ready for 5m",
        "cpu-1   Ready, cordoned                 32.5/64   1.5Gi/256Gi   3/110   cordoned",
    ]


def test_gpus_by_node() -> None:
    """Only nodes with GPUs; those of a node that takes no work are broken."""
    result = invoke(FakeWebApi(answers={"GET /v1/nodes": {"items": NODES}}), "gpus", "--nodes")
    assert printed(result.stdout) == [
        "NODE    TYPE   FREE   TOTAL              TAKES NO WORK",
        "gpu-1   h100      0       8   ████████",
        "gpu-2   h100      0       8   ▒▒▒▒▒▒▒▒   not ready for 5m",
    ]


def test_one_node() -> None:
    """A node's page tells what it has and who uses it."""
    used = {"holder": "vision/bert", "owner": "alice", "isRun": True, "pod": "bert-1-0", "rank": 0, "gpus": 8}
    used |= {"cpuMillis": 32500, "memoryBytes": 2**30, "since": "2026-11-21T11:00:00Z"}
    foreign = {"holder": "kube-system/proxy", "isRun": False, "pod": "proxy", "cpuMillis": 100, "memoryBytes": 2**20}
    api = FakeWebApi(answers={"GET /v1/nodes/gpu-1": node("gpu-1", members=[used, foreign])})
    lines = printed(invoke(api, "nodes", "gpu-1").stdout)
    assert lines[:5] == [
        "Name     gpu-1",
        "Status   Ready",
        "Created  10 days ago",
        "GPUs     8/8 h100",
        "CPU      32.5/64",
    ]
    assert lines[-3:] == [
        "  RUN                     RANK   OWNER   GPUS    CPU   MEMORY   SINCE           POD",
        "  vision/bert                0   alice      8   32.5      1Gi   About an hour   bert-1-0",
        "  Pod kube-system/proxy                          0.1      1Mi                   proxy",
    ]


PLACE = {
    "position": 4,
    "of": 9,
    "waitedSeconds": 7200,
    "expectedSeconds": 900,
    "expectedFrom": "similar",
    "size": 0.125,
    "userShare": 0.004,
    "teamShare": 0.5,
    "score": 61.44,
    "overdue": False,
    "boundSeconds": 172800,
}

EXPLANATION = {
    "place": PLACE,
    "behind": [],
    "kept": {"nodes": "gpu-[1-4]", "expectedAt": "2026-11-21T14:00:00Z"},
    "phase": "Queued",
    "reason": "WaitingForGPU",
    "message": "needs 32 h100 for 4 members; there is room for 2",
    "members": 4,
    "fitNow": 2,
    "missing": {"members": 2, "gpu": 16},
    "held": [
        {
            "holder": "nlp/gpt",
            "owner": "bob",
            "isRun": True,
            "gpus": 16,
            "cpuMillis": 64000,
            "memoryBytes": 2**38,
            "nodes": "gpu-[1-2]",
            "since": "2026-11-18T12:00:00Z",
            "until": "2026-11-21T12:05:00Z",
        },
        {
            "holder": "nlp/web",
            "owner": "",
            "isRun": False,
            "gpus": 2,
            "cpuMillis": 1500,
            "memoryBytes": 2**30,
            "nodes": "gpu-3",
            "since": "2026-11-21T11:00:00Z",
            "until": "",
        },
    ],
    "room": {"free": 2, "reserved": 0, "held": 2, "cordoned": 1, "broken": 0},
    "toFree": [
        {
            "kind": "run",
            "name": "nlp/gpt",
            "owner": "bob",
            "why": "",
            "nodes": "gpu-[1-2]",
            "gpus": 16,
            "cpuMillis": 64000,
            "memoryBytes": 2**38,
            "until": "2026-11-21T12:05:00Z",
        },
        {
            "kind": "broken",
            "name": "gpu-8",
            "owner": "",
            "why": "not ready",
            "nodes": "",
            "gpus": 0,
            "cpuMillis": 0,
            "memoryBytes": 0,
            "until": "",
        },
    ],
    "exact": True,
    "ahead": 3,
    "expectedAt": "2026-11-21T14:00:00Z",
    "blocked": [{"why": "cordoned", "nodes": "gpu-9", "count": 1}],
    "sooner": ["--gpu-type a100", "--replicas 2"],
}


def test_explain() -> None:
    """What is missing, who holds it, what stands in the way, what would start now."""
    api = FakeWebApi(RUNS, answers={"GET /v1/runs/vision/bert/explain": EXPLANATION})
    result = invoke(api, "explain", "be")
    assert printed(result.stdout) == [
        "bert: Queued, WaitingForGPU",
        "  needs 32 h100 for 4 members; there is room for 2",
        "",
        "Room for its 4 members",
        "  free               2",
        "  held by others     2",
        "  on cordoned nodes  1",
        "",
        "It starts once all of this has happened",
        "  WHAT                                       FREES     EXPECTED       NODES",
        "  nlp/gpt (bob) ends                         16 GPUs   in 5 minutes   gpu-[1-2]",
        "  node gpu-8 (not ready) is in order again",
        "",
        "Held by others, too",
        "  RUN           GPUS   CPU   MEMORY   SINCE           NODES",
        "  Pod nlp/web      2   1.5      1Gi   About an hour   gpu-3",
        "",
        "Nodes that take no work",
        "  cordoned  1: gpu-9",
        "",
        "It would start now with one of",
        "  --gpu-type a100",
        "  --replicas 2",
        "",
        "Queue",
        "  place              4 of 9, 3 runs before it",
        "  waited             2 hours",
        "  expected to take   15 minutes: as long as similar runs of its user took lately",
        "  asks for           12% of the cluster",
        "  had lately         its user 0.4%, its team 50%",
        "  score              61.4",
        "  kept for it        gpu-[1-4]; others start there only if they do not delay it",
        "  expected to start  in 2 hours, if all takes as long as expected",
    ]
    assert json.loads(invoke(api, "explain", "be", "-o", "json").stdout) == EXPLANATION


def test_explain_whom_it_asks_to_give_way() -> None:
    """First, since it starts by that alone."""
    answer = EXPLANATION | {"asks": ["nlp/cheap", "nlp/cheaper"]}
    said = printed(
        invoke(FakeWebApi(RUNS, answers={"GET /v1/runs/vision/bert/explain": answer}), "explain", "be").stdout
    )
    place = said.index("It asks to give way, and starts once that is done")
    assert said[place + 1 : place + 5] == [
        "  nlp/cheap",
        "  nlp/cheaper",
        "",
        "Without that it starts once all of this has happened",
    ]


def test_explain_where_nothing_helps() -> None:
    """The cluster is too small, and nobody can tell when it grows."""
    too_small = {
        key: value for key, value in EXPLANATION.items() if key not in ("toFree", "exact", "expectedAt", "held")
    }
    place = PLACE | {"position": 1, "expectedFrom": "general", "overdue": True, "score": None}
    answer = too_small | {"reason": "ClusterTooSmall", "ahead": 0, "sooner": [], "blocked": [], "place": place}
    del answer["kept"]
    api = FakeWebApi(RUNS, answers={"GET /v1/runs/vision/bert/explain": answer})
    said = printed(invoke(api, "explain", "be").stdout)
    assert said[-10:] == [
        "Nothing starts it",
        "  The cluster is too small for it, even with all nodes empty and in order.",
        "",
        "Queue",
        "  place              1 of 9, nobody before it",
        "  waited             2 hours; longest of all, and too long: it comes first",
        "  expected to take   15 minutes: as most runs here; nothing is known of it",
        "  asks for           12% of the cluster",
        "  had lately         its user 0.4%, its team 50%",
        "  expected to start  nobody can tell",
    ]


def test_explain_where_too_many_are_before_it() -> None:
    """Nothing is made up; what is enough but perhaps too much is said to be that."""
    unknown = {key: value for key, value in EXPLANATION.items() if key != "toFree"} | {"exact": False}
    said = printed(
        invoke(FakeWebApi(RUNS, answers={"GET /v1/runs/vision/bert/explain": unknown}), "explain", "be").stdout
    )
    assert "  Too many runs are before it to tell." in said
    enough = EXPLANATION | {"exact": False}
    said = printed(
        invoke(FakeWebApi(RUNS, answers={"GET /v1/runs/vision/bert/explain": enough}), "explain", "be").stdout
    )
    assert "It starts once all of this has happened, perhaps sooner" in said


def test_what_if_a_run_would_start() -> None:
    """Where, and how near to each other its members would be; the words of kaji run are those that are sent."""
    answer = {
        "namespace": "vision",
        "starts": True,
        "nodes": "gpu-[1-4]",
        "domains": {"topology.kubernetes.io/zone": 1, "rack": 2},
        "findings": [],
        "start": {"phase": "Queued", "reason": "", "message": "there is room", "fitNow": 4, "toFree": []},
    }
    api = FakeWebApi(RUNS, answers={"POST /v1/what-if": answer})
    result = invoke(api, "what-if", "-d", "--rm", "-n", "4", "--gpus", "8", "bert:3", "train", "-x")
    assert result.stdout == "It would start now: 4 members on gpu-[1-4], in 1 zone and 2 racks\n"
    assert [(call.method, call.path) for call in api.calls] == [("POST", "/v1/what-if")]
    assert api.calls[0].body["spec"] == {
        "image": "bert:3",
        "args": ["train", "-x"],
        "replicas": 4,
        "resources": {"gpu": 8},
    }
    assert json.loads(invoke(api, "what-if", "-o", "json", "bert:3").stdout) == answer


def test_what_if_a_run_would_wait() -> None:
    """As explain tells it of one that waits; what is refused is named by option, as kaji run names it."""
    waits = {"namespace": "vision", "starts": False, "nodes": "", "domains": {}, "findings": [], "start": EXPLANATION}
    api = FakeWebApi(RUNS, answers={"POST /v1/what-if": waits})
    said = printed(invoke(api, "what-if", "bert:3").stdout)
    assert said[:2] == ["It would wait: WaitingForGPU", "  needs 32 h100 for 4 members; there is room for 2"]
    assert "It starts once all of this has happened" in said
    faults = [{"field": "spec.resources.gpu", "message": "too many", "value": "9", "hint": "use 8"}]
    refused = problem(422, "Refused", "spec.resources.gpu: too many", faults=faults)
    api = FakeWebApi(RUNS, answers={"POST /v1/what-if": refused})
    result = invoke(api, "what-if", "--gpus", "9", "bert:3")
    assert result.exit_code == 2
    assert result.stderr == "kaji: --gpus: too many\n      use 8\n"


EVENTS = [
    {
        "time": "2026-11-21T11:00:00Z",
        "type": "Normal",
        "reason": "Planned",
        "object": "Run/gpt",
        "message": "attempt 1 on\n2 nodes",
        "count": 1,
    },
    {
        "time": "2026-11-21T11:58:59Z",
        "type": "Warning",
        "reason": "NodeLost",
        "object": "Pod/gpt-1-0",
        "message": "gone",
        "count": 3,
    },
]


def test_events() -> None:
    """Oldest first; a message on one line; how often."""
    api = FakeWebApi(RUNS, answers={"GET /v1/runs/vision/gpt/events": ndjson(EVENTS)})
    assert printed(invoke(api, "events", "gpt").stdout) == [
        "AGE              TYPE      REASON     OBJECT        MESSAGE",
        "About an hour    Normal    Planned    Run/gpt       attempt 1 on 2 nodes",
        "About a minute   Warning   NodeLost   Pod/gpt-1-0   gone (×3)",
    ]
    assert json.loads(invoke(api, "events", "gpt", "-o", "json").stdout) == {"items": EVENTS}
    followed = invoke(api, "events", "-f", "gpt", "-o", "json")
    assert [json.loads(line) for line in printed(followed.stdout)] == EVENTS
    assert api.calls[-1].query == {"follow": ["true"]}


def test_events_of_all_runs() -> None:
    """Without a run: those of the namespace, the newest last; the last hundred unless somebody wants more."""
    newest_first = {"items": EVENTS[::-1]}
    api = FakeWebApi(answers={"GET /v1/events": newest_first, "GET /v1/events/watch": lambda _: ndjson(EVENTS)})
    assert json.loads(invoke(api, "events", "-o", "json").stdout) == {"items": EVENTS}
    assert api.calls[-1].query == {"namespace": ["vision"], "limit": ["100"]}
    assert printed(invoke(api, "events", "-N", "nlp", "--tail", "all").stdout)[1].endswith("attempt 1 on 2 nodes")
    assert api.calls[-1].query == {"namespace": ["nlp"], "limit": ["500"]}
    followed = invoke(api, "events", "-f", "-n", "0", "-o", "json")
    assert [json.loads(line) for line in printed(followed.stdout)] == EVENTS
    assert api.calls[-1].query == {"namespace": ["vision"], "limit": ["0"]}
    refused = invoke(api, "events", "-f", "-n", "5000")
    assert (refused.exit_code, "at most 1000 with -f" in refused.stderr) == (2, True)


def test_the_last_events_of_a_run() -> None:
    """--tail leaves the older ones out, with -f too."""
    api = FakeWebApi(RUNS, answers={"GET /v1/runs/vision/gpt/events": lambda _: ndjson(EVENTS)})
    assert json.loads(invoke(api, "events", "-n", "1", "gpt", "-o", "json").stdout) == {"items": EVENTS[1:]}
    assert json.loads(invoke(api, "events", "-f", "-n", "1", "gpt", "-o", "json").stdout) == EVENTS[1]
    wrong = invoke(api, "events", "-n", "few", "gpt")
    assert (wrong.exit_code, wrong.stderr.splitlines()[0]) == (2, "kaji: --tail: 'few' is not a number of lines")


def test_events_go_on_after_a_break() -> None:
    """Followed events survive a broken connection; none is shown twice."""
    path = "GET /v1/runs/vision/gpt/events"
    api = FakeWebApi(RUNS, queues={path: [cut_after(*ndjson(EVENTS[:1]), b'{"ti'), ndjson(EVENTS)]})
    followed = invoke(api, "events", "-f", "gpt", "-o", "json")
    assert [json.loads(line) for line in printed(followed.stdout)] == EVENTS


def test_describe() -> None:
    """A page in sections: state, what was asked for in Docker's words, members, findings, events."""
    run = view(
        "gpt",
        "Running",
        labels={"team": "x"},
        spec={
            "replicas": 2,
            "launcher": "torchrun",
            "resources": {"gpu": 8, "gpuType": "h100", "memory": "64Gi"},
            "env": {"LR": "3e-4"},
            "volumes": [{"name": "imagenet", "path": "/data", "readOnly": True}],
            "secrets": [{"name": "hub", "key": "token", "env": "TOKEN"}],
            "checkpoint": {"path": "/ckpt", "size": "100Gi"},
            "args": ["python", "train it.py"],
        },
        status={
            "restarts": 1,
            "interruptions": 2,
            "startedAt": "2026-11-21T10:30:00Z",
            "attempt": {"number": 4, "nodes": "gpu-[1-2]"},
            "members": {"total": 2, "running": 2},
            "notable": [{"rank": 1, "attempt": 3, "node": "gpu-7", "reason": "ProgramFailed", "exitCode": 1}],
            "findings": [{"code": "QosGuaranteed", "message": "requests are limits"}],
            "avoidNodes": {"gpu-7": 2, "gpu-8": 1},
            "memory": {
                "peakBytes": 41 * 2**30,
                "limitBytes": 2**36,
                "rank": 1,
                "attempt": 3,
                "node": "gpu-7",
                "at": "2026-11-21T11:00:00Z",
                "totalBytes": 80 * 2**30,
            },
        },
    )
    member = {"attempt": 4, "phase": "Running", "address": "10.1.2.3", "startedAt": "2026-11-21T11:00:00Z"}
    members = [{"rank": rank, "pod": f"gpt-4-{rank}", "node": f"gpu-{rank + 1}", **member} for rank in (0, 1)]
    answers = {"GET /v1/runs/vision/gpt/events": ndjson(EVENTS), "GET /v1/runs/vision/gpt/members": {"items": members}}
    answers["GET /v1/runs/vision/gpt/expected"] = {
        "seconds": 2700,
        "expectedFrom": "limit",
        "endsAt": "2026-11-21T12:45:00Z",
    }
    api = FakeWebApi([run], answers=answers)
    result = invoke(api, "describe", "gpt")
    assert printed(result.stdout) == [
        "Name       gpt",
        "Namespace  vision",
        "Owner      alice",
        "Labels     team=x",
        "Status     Running",
        "Created    2 hours ago",
        "Runs       2 hours",
        "Expected   45 minutes more: its time limit; no similar run has ended yet",
        "Restarts   1/3, and 2 interruptions that do not count",
        "Attempt    4",
        "Nodes      gpu-[1-2]",
        "Avoids     gpu-7 (2 failures)",
        "GPUs       16 h100",
        "Memory     peak 41Gi of 64Gi (rank 1) in attempt 3 on gpu-7, About an hour ago; 80Gi of all members together",
        "Asked for  kaji run --name gpt -n 2 --launcher torchrun --gpus 8 --gpu-type h100 -m 64Gi --restarts 3"
        " -e LR=3e-4 -v imagenet:/data:ro --secret TOKEN=hub/token --checkpoint /ckpt:100Gi registry/bert:3"
        " python 'train it.py'",
        "",
        "Members: 2 (2 running)",
        "  RANK   ATTEMPT   POD       NODE    STATUS    ADDRESS    SINCE           REASON",
        "     0         4   gpt-4-0   gpu-1   Running   10.1.2.3   About an hour",
        "     1         4   gpt-4-1   gpu-2   Running   10.1.2.3   About an hour",
        "",
        "Worth a look",
        "  RANK   ATTEMPT   NODE    REASON          EXIT   SINCE   MESSAGE",
        "     1         3   gpu-7   ProgramFailed      1",
        "",
        "What policy did",
        "  QosGuaranteed  requests are limits",
        "",
        "Last events",
        "  AGE              TYPE      REASON     OBJECT        MESSAGE",
        "  About an hour    Normal    Planned    Run/gpt       attempt 1 on 2 nodes",
        "  About a minute   Warning   NodeLost   Pod/gpt-1-0   gone (×3)",
    ]
    assert json.loads(invoke(api, "describe", "gpt", "-o", "json").stdout) == run


def test_what_a_server_says_cannot_drive_the_terminal() -> None:
    """Escape sequences in a message are taken out."""
    run = view("gpt", status={"notable": [{"rank": 0, "message": "\x1b]0;evil\x07 and\x1b[2J"}]})
    assert "\x1b" not in invoke(FakeWebApi([run]), "describe", "gpt").stdout


def test_policy_show() -> None:
    """The policy in force as YAML; why a newer file was not taken stands on stderr."""
    answer = {"path": "/p.yaml", "version": 2, "policy": {"defaults": {"cpu": "1"}}}
    answer["faults"] = [{"field": "defaults.memry", "message": "there is no field 'memry'"}]
    result = invoke(FakeWebApi(answers={"GET /v1/policy": answer}), "policy", "show")
    assert yaml.safe_load(result.stdout) == {"defaults": {"cpu": "1"}}
    assert "/p.yaml is faulty" in result.stderr
    assert "defaults.memry" in result.stderr
    more = {"path": "/p.yaml", "version": 3, "policy": {}, "faults": [], "findings": ["96 h100 are guaranteed"]}
    assert (
        "note: 96 h100 are guaranteed" in invoke(FakeWebApi(answers={"GET /v1/policy": more}), "policy", "show").stderr
    )
    without = {"path": "", "version": 1, "policy": {}, "faults": []}
    assert "There is no policy file" in invoke(FakeWebApi(answers={"GET /v1/policy": without}), "policy", "show").stderr


def test_version_of_both_ends() -> None:
    """The client's version, the server's, and who one is there."""
    answers = {"GET /v1/version": {"version": "0.1.0", "kubernetes": "v1.36.2", "user": "alice"}}
    result = invoke(FakeWebApi(answers=answers), "version", "-o", "json")
    document = json.loads(result.stdout)
    assert document["server"] == {
        "url": "http://kaji.test",
        "version": "0.1.0",
        "kubernetes": "v1.36.2",
        "user": "alice",
    }
    assert document["client"]["version"]


QUEUED = {
    "name": "bert",
    "namespace": "vision",
    "owner": "ada",
    "phase": "Queued",
    "reason": "WaitingForGPU",
    "priority": 0,
    "members": 4,
    "gpus": 32,
    "gpuType": "h100",
    "place": PLACE | {"position": 1},
    "behind": [],
    "kept": {"nodes": "gpu-[1-4]", "expectedAt": "2026-11-21T14:00:00Z"},
    "expectedAt": "2026-11-21T14:00:00Z",
}


def test_the_queue() -> None:
    """Who waits, how long that took and will, and what is special about it; wide with what makes the order."""
    place = PLACE | {"position": 2, "expectedFrom": "limit", "overdue": True, "score": None}
    second = QUEUED | {"name": "web", "gpus": 0, "gpuType": "", "place": place, "behind": ["vision/bert", "nlp/x"]}
    del second["kept"], second["expectedAt"]
    queue = {"order": "length", "formula": "", "items": [QUEUED, second]}
    api = FakeWebApi(RUNS, answers={"GET /v1/queue": queue})
    assert printed(invoke(api, "queue").stdout) == [
        "#   RUN           OWNER   ASKS FOR    WAITED    EXPECTED TO TAKE     STARTS       NOTE",
        "1   vision/bert   ada     32 h100     2 hours   15 minutes           in 2 hours   gpu-[1-4] kept for it",
        "2   vision/web    ada     4 members   2 hours   at most 15 minutes   unknown      waited longest, too long; "
        "would delay vision/bert and 1 more",
    ]
    wide = printed(invoke(api, "queue", "-o", "wide").stdout)
    assert "PRIORITY   SIZE   USER HAD   TEAM HAD   SCORE" in wide[0]
    assert "0    12%       0.4%        50%    61.4   gpu-[1-4] kept for it" in wide[1]
    assert json.loads(invoke(api, "queue", "-o", "json").stdout) == queue
    empty = FakeWebApi(RUNS, answers={"GET /v1/queue": queue | {"items": []}})
    assert printed(invoke(empty, "queue").stdout) == ["Nobody waits."]


GRID = view(
    "grid",
    spec={"array": "0-99%8", "resources": {"gpu": 2, "gpuType": "h100"}},
    status={"members": {"total": 100, "running": 8, "succeeded": 35, "failed": 2}},
)
ROWS = [
    {
        "index": 0,
        "state": "Succeeded",
        "attempt": 1,
        "exitCode": 0,
        "node": "gpu-1",
        "startedAt": "2026-11-21T11:00:00Z",
        "endedAt": "2026-11-21T11:01:30Z",
        "peakBytes": 3 << 30,
        "result": {"loss": 0.5, "note": "a,b"},
    },
    {"index": 1, "state": "Failed", "restarts": 2, "exitCode": 7, "reason": "ProgramFailed", "message": "exit code 7"},
    {"index": 2, "state": "Running", "startedAt": "2026-11-21T11:59:50Z"},
    {"index": 3, "state": "Succeeded", "exitCode": 0, "result": "fine"},
    {"index": 4, "state": "Waiting"},
]


def test_ps_counts_the_members_of_a_sweep_that_have_ended() -> None:
    """And the GPUs of those that may be there at once."""
    result = invoke(FakeWebApi([GRID]), "ps")
    assert printed(result.stdout)[1] == "grid   Running            37/100 ended   16 h100   2 hours"


def results_of(*args: str) -> str:
    api = FakeWebApi([GRID])
    pages = [{"items": ROWS[:2], "continue": "x"}, {"items": ROWS[2:], "incomplete": "no store"}]
    api.queues["GET /v1/runs/vision/grid/results"] = [(200, page) for page in pages]
    result = invoke(api, "results", "grid", *args)
    assert result.exit_code == 0
    assert "some details are missing: no store" in result.stderr
    assert [call.query.get("continue") for call in api.calls_to("GET", "/results")] == [None, ["x"]]
    return result.stdout


def test_results_are_a_table() -> None:
    """All pages of it: how each member ended, how long it took, what it said or why it failed."""
    assert printed(results_of()) == [
        "INDEX   STATE       EXIT   RESTARTS    TIME   RESULT",
        "    0   Succeeded      0          0   1m30s   loss=0.5 note=a,b",
        "    1   Failed         7          2           ProgramFailed: exit code 7",
        "    2   Running                   0     10s",
        "    3   Succeeded      0          0           fine",
        "    4   Waiting                   0",
    ]
    wide = printed(results_of("-o", "wide"))
    assert "MEMORY" in wide[0]
    assert "3Gi" in wide[1]
    assert "gpu-1" in wide[1]


def test_results_for_programs() -> None:
    """A column for each key of the results in CSV; in JSON as the API has them."""
    rows = list(csv.DictReader(io.StringIO(results_of("-o", "csv"))))
    assert [row["index"] for row in rows] == ["0", "1", "2", "3", "4"]
    first = rows[0]
    assert (first["result.loss"], first["result.note"], first["seconds"], first["result"]) == ("0.5", "a,b", "90", "")
    assert (rows[1]["restarts"], rows[1]["message"], rows[3]["result"]) == ("2", "exit code 7", "fine")
    assert json.loads(results_of("-o", "json"))["items"] == ROWS


def test_results_of_some_states() -> None:
    api = FakeWebApi([GRID])
    api.answers["GET /v1/runs/vision/grid/results"] = {"items": []}
    assert invoke(api, "results", "grid", "--state", "failed", "--state", "NOTRUN").exit_code == 0
    assert api.calls_to("GET", "/results")[0].query["state"] == ["Failed", "NotRun"]
    assert invoke(api, "results", "grid", "--state", "lost").exit_code == 2
