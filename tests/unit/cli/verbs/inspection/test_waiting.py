"""`kaji explain`, `kaji what-if` and `kaji queue`: the output about waiting runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import RUNS, FakeWebApi, invoke, printed, problem

from kajitori.cli.pages.queue_words import expected_words

PLACE = {
    "position": 4,
    "of": 9,
    "waitedSeconds": 7200,
    "expectedSeconds": 900,
    "shortestSeconds": 600,
    "expectedFrom": "similar",
    "expectedRuns": 3,
    "expectedSure": True,
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
            "why": "cannot start: ImagePull",
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
        {
            "kind": "cordoned",
            "name": "gpu-9",
            "owner": "",
            "why": f"drained by olga: {'the noise is loud, ' * 4}",
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


def test_explain_shows_what_is_missing_and_what_would_help() -> None:
    """The holders of the resources, the unavailable nodes, and the options that would let the run start now."""
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
        "  WHAT                                                                  FREES     EXPECTED       NODES",
        "  nlp/gpt (bob, cannot start: ImagePull) ends                           16 GPUs   in 5 minutes   gpu-[1-2]",
        "  node gpu-8 (not ready) is in order again",
        "  node gpu-9 (drained by olga: the noise is loud, the…) is uncordoned",
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
        "  expected to take   10 to 15 minutes, as its last 3 comparable runs",
        "  asks for           12% of the cluster",
        "  had lately         its user 0.4%, its team 50%",
        "  score              61.4",
        "  kept for it        gpu-[1-4]; others start there only if they do not delay it",
        "  expected to start  in 2 hours, if all takes as long as expected",
    ]
    assert json.loads(invoke(api, "explain", "be", "-o", "json").stdout) == EXPLANATION


def test_explain_names_the_runs_that_are_preempted() -> None:
    """They come first, since the run starts once they have ended."""
    answer = EXPLANATION | {"asks": ["nlp/cheap", "nlp/cheaper"]}
    output = printed(
        invoke(FakeWebApi(RUNS, answers={"GET /v1/runs/vision/bert/explain": answer}), "explain", "be").stdout
    )
    place = output.index("It preempts these runs and starts when they have left")
    assert output[place + 1 : place + 5] == [
        "  nlp/cheap",
        "  nlp/cheaper",
        "",
        "Without that it starts once all of this has happened",
    ]


def test_explain_says_that_the_cluster_is_too_small() -> None:
    too_small = {
        key: value for key, value in EXPLANATION.items() if key not in ("toFree", "exact", "expectedAt", "held")
    }
    unsure = {"expectedFrom": "general", "expectedRuns": 40, "shortestSeconds": 3, "expectedSure": False}
    unsure["orderSeconds"] = 300
    place = PLACE | unsure | {"position": 1, "overdue": True, "score": None}
    answer = too_small | {"reason": "ClusterTooSmall", "ahead": 0, "sooner": [], "blocked": [], "place": place}
    del answer["kept"]
    api = FakeWebApi(RUNS, answers={"GET /v1/runs/vision/bert/explain": answer})
    output = printed(invoke(api, "explain", "be").stdout)
    assert output[-11:] == [
        "Nothing starts it",
        "  The cluster is too small for it, even with all nodes empty and in order.",
        "",
        "Queue",
        "  place              1 of 9, nobody before it",
        "  waited             2 hours; longest of all, and too long: it comes first",
        "  expected to take   unknown: most of the last 40 runs of about its size took 3 seconds to 15 minutes",
        "  ordered as         5 minutes: its last runs of this kind had other resources",
        "  asks for           12% of the cluster",
        "  had lately         its user 0.4%, its team 50%",
        "  expected to start  nobody can tell",
    ]


def test_members_of_a_sweep_that_end_together_are_one_line() -> None:
    """The line has the sum of what they free; the sweep is not listed again below."""

    def member(index: int, until: str) -> dict[str, Any]:
        amounts = {"gpus": 8, "cpuMillis": 8000, "memoryBytes": 2**30}
        output = {"kind": "member", "name": f"nlp/grid-2-{index}", "run": "nlp/grid", "owner": "bob", "why": ""}
        return output | amounts | {"nodes": f"gpu-{index + 1}", "until": until}

    soon, later = "2026-11-21T12:05:00Z", "2026-11-21T13:00:00Z"
    steps = [member(3, soon), member(7, later), member(4, soon), member(1, soon)]
    api_says = EXPLANATION | {"toFree": steps, "held": [{"holder": "nlp/grid"}]}
    output = printed(
        invoke(FakeWebApi(RUNS, answers={"GET /v1/runs/vision/bert/explain": api_says}), "explain", "be").stdout
    )
    begin = output.index("It starts once all of this has happened")
    assert [line.split("  ")[1].strip() for line in output[begin + 2 : begin + 4]] == [
        "members 1,3-4 of nlp/grid (bob) end",
        "member 7 of nlp/grid (bob) ends",
    ]
    assert "24 GPUs" in output[begin + 2] and "gpu-[4-5,2]" in output[begin + 2]
    assert not any("Held by" in line for line in output)


def test_explain_with_too_many_runs_ahead_is_marked_as_inexact() -> None:
    """An upper bound is marked as such, and nothing is invented."""
    unknown = {key: value for key, value in EXPLANATION.items() if key != "toFree"} | {"exact": False}
    output = printed(
        invoke(FakeWebApi(RUNS, answers={"GET /v1/runs/vision/bert/explain": unknown}), "explain", "be").stdout
    )
    assert "  Too many runs are before it to tell." in output
    enough = EXPLANATION | {"exact": False}
    output = printed(
        invoke(FakeWebApi(RUNS, answers={"GET /v1/runs/vision/bert/explain": enough}), "explain", "be").stdout
    )
    assert "It starts once all of this has happened, perhaps sooner" in output


def test_what_if_shows_where_a_run_would_start() -> None:
    """It shows how near to each other its members would be, and takes the options of kaji run."""
    answer: dict[str, Any] = {
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
    result = invoke(api, "what-if", "-n", "2-8", "--gpus", "8", "bert:3", "train")
    assert result.stdout.startswith("It would start now: 4 of 2-8 members on gpu-[1-4]")
    sweep = {**answer, "start": {**answer["start"], "most": 100}}
    result = invoke(FakeWebApi(RUNS, answers={"POST /v1/what-if": sweep}), "what-if", "--array", "0-99", "bert:3")
    assert result.stdout.startswith("It would start now: 4 of 100 members on gpu-[1-4]")
    sweep = {**answer, "start": {**answer["start"], "most": 1000}}  # the largest number that is started at a time
    result = invoke(FakeWebApi(RUNS, answers={"POST /v1/what-if": sweep}), "what-if", "--array", "0-9999", "bert:3")
    assert result.stdout.startswith("It would start now: 4 of 10000 members on gpu-[1-4]")
    assert api.calls[0].body["spec"] == {
        "image": "bert:3",
        "args": ["train", "-x"],
        "replicas": 4,
        "resources": {"gpu": 8},
    }
    assert json.loads(invoke(api, "what-if", "-o", "json", "bert:3").stdout) == answer


def test_what_if_explains_a_wait_as_explain_does() -> None:
    """A refusal names options, as kaji run does."""
    waits = {"namespace": "vision", "starts": False, "nodes": "", "domains": {}, "findings": [], "start": EXPLANATION}
    api = FakeWebApi(RUNS, answers={"POST /v1/what-if": waits})
    output = printed(invoke(api, "what-if", "bert:3").stdout)
    assert output[:2] == ["It would wait: WaitingForGPU", "  needs 32 h100 for 4 members; there is room for 2"]
    assert "It starts once all of this has happened" in output
    faults = [{"field": "spec.resources.gpu", "message": "too many", "value": "9", "hint": "use 8"}]
    refused = problem(422, "Refused", "spec.resources.gpu: too many", faults=faults)
    api = FakeWebApi(RUNS, answers={"POST /v1/what-if": refused})
    result = invoke(api, "what-if", "--gpus", "9", "bert:3")
    assert result.exit_code == 2
    assert result.stderr == "kaji: --gpus: too many\n      use 8\n"


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


def test_queue_lists_waiting_runs_with_times_and_notes() -> None:
    """The wide format has the figures behind the order."""
    place = PLACE | {"position": 2, "expectedFrom": "limit", "overdue": True, "score": None}
    second = QUEUED | {"name": "web", "gpus": 0, "gpuType": "", "place": place, "behind": ["vision/bert", "nlp/x"]}
    del second["kept"], second["expectedAt"]
    queue = {"order": "length", "formula": "", "items": [QUEUED, second]}
    api = FakeWebApi(RUNS, answers={"GET /v1/queue": queue})
    assert printed(invoke(api, "queue").stdout) == [
        "#   RUN           OWNER   ASKS FOR    WAITED    EXPECTED TO TAKE     STARTS       NOTE",
        "1   vision/bert   ada     32 h100     2 hours   10 to 15 minutes     in 2 hours   gpu-[1-4] kept for it",
        "2   vision/web    ada     4 members   2 hours   at most 15 minutes   unknown      waited longest, too long; "
        "would delay vision/bert and 1 more",
    ]
    assert "gpu-[1-4] kept for it" in invoke(api, "queue", width=80).stdout  # notes are never cut
    wide = printed(invoke(api, "queue", "-o", "wide").stdout)
    assert "PRIORITY   SIZE   USER HAD   TEAM HAD   SCORE" in wide[0]
    assert "0    12%       0.4%        50%    61.4   gpu-[1-4] kept for it" in wide[1]
    assert json.loads(invoke(api, "queue", "-o", "json").stdout) == queue
    empty = FakeWebApi(RUNS, answers={"GET /v1/queue": queue | {"items": []}})
    assert printed(invoke(empty, "queue").stdout) == ["Nobody waits."]


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"expectedFrom": "unknown"}, "unknown: no comparable run has ended here"),
        ({"expectedFrom": "endless", "sure": True}, "no end is known"),
        ({"expectedFrom": "similar", "runs": 1}, "unknown: its last comparable run took about 2 hours"),
        (
            {"expectedFrom": "similar", "runs": 3, "shortestSeconds": 3},
            "unknown: its last 3 comparable runs took 3 seconds to 2 hours",
        ),
        (
            {"expectedFrom": "similar", "runs": 3, "shortestSeconds": 7000, "sure": True, "goesOn": True},
            "about 2 hours more, as its last 3 comparable runs",
        ),
        ({"expectedFrom": "similar", "sure": True}, "about 2 hours, as its other members"),
        ({"expectedFrom": "corrected"}, "unknown: it has taken longer than expected already"),
    ],
)
def test_an_expected_run_time_is_shown_with_its_evidence(expected: dict[str, Any], words: str) -> None:
    evidence = {"seconds": 7200, "shortestSeconds": 0, "runs": 0, "sure": False, "goesOn": False} | expected
    assert expected_words(evidence) == words


def test_a_run_that_waits_for_others_is_explained_with_their_expected_ends() -> None:
    after = [
        {
            "run": "prepare",
            "condition": "succeeded",
            "phase": "Running",
            "met": False,
            "endsAt": "2026-11-21T12:05:00Z",
        },
        {"run": "fetch", "condition": "ended", "phase": "Failed", "met": True},
        {"run": "later", "condition": "succeeded", "phase": "", "met": False},
    ]
    answer = {"phase": "Queued", "reason": "WaitingForRun", "message": "waits for prepare (Running) to succeed"}
    api = FakeWebApi(RUNS)
    api.answers["GET /v1/runs/vision/bert/explain"] = answer | {"after": after}
    assert printed(invoke(api, "explain", "bert").stdout) == [
        "bert: Queued, WaitingForRun",
        "  waits for prepare (Running) to succeed",
        "",
        "It starts after",
        "  RUN       HAS TO    IS                  EXPECTED TO END",
        "  prepare   succeed   Running             in 5 minutes",
        "  fetch     end       done",
        "  later     succeed   not submitted yet   not known",
        "",
        "Expected to start: not known",
    ]


def test_the_queue_lists_runs_that_wait_for_others_without_a_place() -> None:
    api = FakeWebApi(RUNS)
    others = [{"run": "prepare", "condition": "succeeded"}, {"run": "fetch", "condition": "ended"}]
    waiting = {"name": "train", "namespace": "vision", "owner": "ada", "after": others}
    api.answers["GET /v1/queue"] = {"items": [], "dependents": [waiting]}
    assert printed(invoke(api, "queue").stdout) == [
        "No run waits for nodes.",
        "",
        "Wait for other runs",
        "RUN            OWNER   AFTER",
        "vision/train   ada     prepare (succeeded), fetch (ended)",
    ]
