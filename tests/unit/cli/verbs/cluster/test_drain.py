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


def test_drain_sends_the_reason() -> None:
    api = FakeWebApi(answers={"GET /v1/nodes/gpu-7": node(), "POST /v1/nodes/gpu-7/drain": node()})
    assert invoke(api, "drain", "--no-wait", "--reason", "loud fan", "gpu-7").exit_code == 0
    (call,) = api.calls_to("POST", "/drain")
    assert call.body == {"reason": "loud fan"}


def test_drain_waits_and_reports_what_it_waits_for() -> None:
    """It prints a line for each change; at the end it prints the node's name, and which runs found no other place."""
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


def test_drain_with_no_wait_returns_at_once() -> None:
    api = FakeWebApi(answers={"GET /v1/nodes/gpu-7": node(), "POST /v1/nodes/gpu-7/drain": node("vision/bert")})
    result = invoke(api, "drain", "--no-wait", "gpu-7")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "gpu-7\n", "")
    assert [call.method for call in api.calls] == ["GET", "POST"]


def test_drain_ends_if_another_user_uncordons_the_node() -> None:
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


def test_ctrl_c_during_a_drain_says_that_the_drain_goes_on() -> None:
    """It also names the command that undoes the drain."""

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    api = FakeWebApi(
        answers={"POST /v1/nodes/gpu-7/drain": node("vision/bert"), "GET /v1/nodes/gpu-7": interrupted},
        queues={"GET /v1/nodes/gpu-7": [node()]},
    )
    result = invoke(api, "drain", "gpu-7")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.splitlines()[-1] == "runs leave all the same; to let new ones come again: kaji uncordon gpu-7"


def test_drain_reports_that_a_node_is_not_ready() -> None:
    """Its Pods stay until the node is back or is deleted; the user is told so."""
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


def test_a_node_deleted_during_a_drain_counts_as_empty() -> None:
    """This was the recommended way, so it is no failure."""
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
def test_no_node_is_changed_if_one_name_is_unknown(verb: str) -> None:
    """Every unknown name is reported with the most similar node."""
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


def test_an_empty_node_name_is_refused() -> None:
    """An unset variable leads to one."""
    api = FakeWebApi(answers={"GET /v1/nodes/gpu-7": node()})
    result = invoke(api, "drain", "gpu-7", "")
    assert result.exit_code == 2
    assert result.stderr == "kaji: NODE: '' is no node's name\n      see them all: kaji nodes\n"
    assert api.calls_to("POST") == []


def test_uncordon_prints_the_name_or_the_refusal() -> None:
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
