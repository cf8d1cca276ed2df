"""`kaji drain` and `kaji uncordon`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.fake_web_api import FakeWebApi, invoke, problem, view


def node(
    *holders: str, foreign: tuple[str, ...] = (), draining: bool = True, name: str = "gpu-7", ready: bool = True
) -> dict[str, Any]:
    members = [{"holder": holder, "isRun": True} for holder in holders]
    members += [{"holder": holder, "isRun": False} for holder in foreign]
    return {"name": name, "ready": ready, "draining": draining, "members": members}


def test_it_waits_and_says_for_what() -> None:
    """One line as that changes; at the end the name, and who found no other place."""
    api = FakeWebApi(
        [view("bert", "Queued", status={"message": "needs 8 h100; 0 are free"}), view("gpt")],
        answers={"POST /v1/nodes/gpu-7/drain": node("vision/bert", "vision/bert", "vision/gpt")},
        queues={
            "GET /v1/nodes/gpu-7": [
                node("vision/gpt"),
                node("vision/bert"),
                node("vision/bert"),
                node(foreign=("kube-system/proxy",)),
            ]
        },
    )
    result = invoke(api, "drain", "gpu-7")
    assert (result.exit_code, result.stdout) == (0, "gpu-7\n")
    assert result.stderr.splitlines() == [
        "gpu-7: waiting for vision/bert (2), vision/gpt",
        "gpu-7: waiting for vision/bert",
        "note: vision/bert waits for nodes: needs 8 h100; 0 are free",
        "note: Pods that belong to no run stay on gpu-7: kube-system/proxy; to move them: kubectl drain gpu-7 "
        "--ignore-daemonsets",
    ]


def test_it_need_not_wait() -> None:
    api = FakeWebApi(answers={"GET /v1/nodes/gpu-7": node(), "POST /v1/nodes/gpu-7/drain": node("vision/bert")})
    result = invoke(api, "drain", "--no-wait", "gpu-7")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "gpu-7\n", "")
    assert [call.method for call in api.calls] == ["GET", "POST"]


def test_somebody_else_takes_it_back() -> None:
    """Nobody waits for ever for what will not come."""
    api = FakeWebApi(
        [view("bert")],
        answers={
            "POST /v1/nodes/gpu-7/drain": node("vision/bert"),
            "GET /v1/nodes/gpu-7": node("vision/bert", draining=False),
        },
    )
    result = invoke(api, "drain", "gpu-7")
    assert result.exit_code == 0
    assert "take work again" in result.stderr


def test_who_stops_waiting_is_told_that_the_node_is_emptied_all_the_same() -> None:
    """And how to take that back."""

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    api = FakeWebApi(
        answers={"POST /v1/nodes/gpu-7/drain": node("vision/bert"), "GET /v1/nodes/gpu-7": interrupted},
        queues={"GET /v1/nodes/gpu-7": [node()]},
    )
    result = invoke(api, "drain", "gpu-7")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.splitlines()[-1] == "runs leave all the same; to let new ones come again: kaji uncordon gpu-7"


def test_a_dead_node_is_said_to_be_dead() -> None:
    """Its Pods are on it until it is back or is taken out of the cluster: who waits is told."""
    api = FakeWebApi(
        answers={"POST /v1/nodes/gpu-7/drain": node("vision/bert", ready=False)},
        queues={"GET /v1/nodes/gpu-7": [node(), node("vision/bert", ready=False), node(ready=False)]},
    )
    result = invoke(api, "drain", "gpu-7")
    assert (result.exit_code, result.stdout) == (0, "gpu-7\n")
    assert result.stderr.splitlines() == [
        "gpu-7: waiting for vision/bert; it is not ready: its Pods go once it is back, or with: kubectl delete node "
        "gpu-7",
    ]


def test_a_node_that_is_taken_out_of_the_cluster_is_empty() -> None:
    """As was recommended: no failure."""
    missing = problem(404, "NotFound", "there is no node 'gpu-7'")
    api = FakeWebApi(
        [view("bert", "Queued", status={"message": "needs 8 h100; 0 are free"})],
        answers={"POST /v1/nodes/gpu-7/drain": node("vision/bert", foreign=("kube-system/proxy",), ready=False)},
        queues={"GET /v1/nodes/gpu-7": [node(), missing]},
    )
    result = invoke(api, "drain", "gpu-7")
    assert (result.exit_code, result.stdout) == (0, "gpu-7\n")
    assert result.stderr.splitlines()[1:] == [
        "note: gpu-7 is not in the cluster any more",
        "note: vision/bert waits for nodes: needs 8 h100; 0 are free",
    ]


@pytest.mark.parametrize("verb", ["drain", "uncordon"])
def test_of_several_all_are_known_or_none_is_touched(verb: str) -> None:
    """Every unknown one is named, with the one that was probably meant."""
    missing = problem(404, "NotFound", "there is no node 'gpu-9'", hint="did you mean gpu-8?")
    api = FakeWebApi(
        answers={
            "GET /v1/nodes/gpu-7": node(),
            "GET /v1/nodes/gpu-9": missing,
            "GET /v1/nodes/h": problem(404, "NotFound", "there is no node 'h'"),
        }
    )
    result = invoke(api, verb, "gpu-7", "gpu-9", "h")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "kaji: this can't be done, for 2 reasons:",
        "  there is no node 'gpu-9'",
        "      did you mean gpu-8?",
        "  there is no node 'h'",
    ]
    assert api.calls_to("POST") == []


def test_a_name_that_is_empty_is_none() -> None:
    """As that of a variable that is not set."""
    api = FakeWebApi(answers={"GET /v1/nodes/gpu-7": node()})
    result = invoke(api, "drain", "gpu-7", "")
    assert result.exit_code == 2
    assert result.stderr == "kaji: NODE: '' is no node's name\n      see them all: kaji nodes\n"
    assert api.calls_to("POST") == []


def test_nodes_take_work_again() -> None:
    api = FakeWebApi(
        answers={
            "GET /v1/nodes/gpu-7": node(),
            "GET /v1/nodes/gpu-8": node(name="gpu-8"),
            "POST /v1/nodes/gpu-7/uncordon": node(draining=False),
        }
    )
    assert invoke(api, "uncordon", "gpu-7").stdout == "gpu-7\n"
    api.answers["POST /v1/nodes/gpu-8/uncordon"] = problem(403, "Forbidden", "ada may not patch nodes")
    result = invoke(api, "uncordon", "gpu-8")
    assert result.exit_code == 2
    assert "may not patch nodes" in result.stderr
