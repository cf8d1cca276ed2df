"""Decisions about a Pod's next steps: cases in a table, and invariants."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.embedded.kubelet.pods.steps import Observed, RestartBackoff, next_steps

NOW = 10_000.0
BACKOFF = RestartBackoff()


def pod(policy: str = "Always", mains: int = 1, inits: tuple[str, ...] = ()) -> dict[str, Any]:
    """Build a Pod; `inits` are kinds: `init` or `side`."""
    return {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {
            "restartPolicy": policy,
            "initContainers": [
                {"name": f"i{number}"} | ({"restartPolicy": "Always"} if kind == "side" else {})
                for number, kind in enumerate(inits)
            ],
            "containers": [{"name": f"c{number}"} for number in range(mains)],
        },
    }


NEVER = Observed()
RUNS = Observed(attempt=0, running=True, started_at=NOW - 5)


def ended(code: int, *, ago: float = 0.0, ran: float = 5.0, attempt: int = 0, row: int = 0) -> Observed:
    return Observed(attempt, False, code, NOW - ago - ran, NOW - ago, row)


@pytest.mark.parametrize(
    ("policy", "containers", "starts", "phase"),
    [
        ("Always", [NEVER], ["c0"], "Pending"),
        ("Always", [RUNS], [], "Running"),
        ("Always", [ended(0)], ["c0"], "Running"),
        ("Never", [ended(0)], [], "Succeeded"),
        ("Never", [ended(1)], [], "Failed"),
        ("OnFailure", [ended(0)], [], "Succeeded"),
        ("OnFailure", [ended(1)], ["c0"], "Running"),
        ("Never", [RUNS, ended(1)], [], "Running"),
        ("Never", [ended(0), ended(1)], [], "Failed"),
        ("OnFailure", [ended(0), ended(3)], ["c1"], "Running"),
    ],
)
def test_steps_of_main_containers(policy: str, containers: list[Observed], starts: list[str], phase: str) -> None:
    observed = {f"c{number}": one for number, one in enumerate(containers)}
    steps = next_steps(pod(policy, len(containers)), observed, BACKOFF, NOW)
    assert (steps.start, steps.phase) == (starts, phase)


@pytest.mark.parametrize(
    ("inits", "containers", "starts", "phase"),
    [
        (("init", "init"), {"i0": NEVER, "i1": NEVER}, ["i0"], "Pending"),
        (("init", "init"), {"i0": RUNS, "i1": NEVER}, [], "Pending"),
        (("init", "init"), {"i0": ended(0), "i1": NEVER}, ["i1"], "Pending"),
        (("init",), {"i0": ended(0)}, ["c0"], "Pending"),
        (("init",), {"i0": ended(1)}, [], "Failed"),
        (("side",), {"i0": NEVER}, ["i0"], "Pending"),
        (("side",), {"i0": RUNS}, ["c0"], "Pending"),
        (("side",), {"i0": Observed(attempt=0, running=True, started=False)}, [], "Pending"),
    ],
)
def test_steps_of_init_containers_and_sidecars(
    inits: tuple[str, ...], containers: dict[str, Observed], starts: list[str], phase: str
) -> None:
    """Init containers run in order, sidecars beside their successors; a failure ends a Pod that never restarts."""
    steps = next_steps(pod("Never", 1, inits), containers | {"c0": NEVER}, BACKOFF, NOW)
    assert (steps.start, steps.phase) == (starts, phase)


def test_sidecars_end_last() -> None:
    steps = next_steps(pod("Never", 1, ("side",)), {"i0": RUNS, "c0": ended(0)}, BACKOFF, NOW)
    assert (steps.stop, steps.phase) == (["i0"], "Running")
    steps = next_steps(pod("Never", 1, ("side",)), {"i0": ended(143), "c0": ended(0)}, BACKOFF, NOW)
    assert (steps.start, steps.phase) == ([], "Succeeded")


@pytest.mark.parametrize(("row", "delay"), [(0, 0.0), (1, 10.0), (2, 20.0), (5, 160.0), (6, 300.0), (1000, 300.0)])
def test_the_restart_backoff_doubles(row: int, delay: float) -> None:
    steps = next_steps(pod(), {"c0": ended(1, row=row)}, BACKOFF, NOW)
    assert steps.start == (["c0"] if delay == 0 else [])
    assert steps.backing_off == ({"c0": delay} if delay else {})
    assert steps.wake_at == (NOW + delay if delay else None)


def test_a_clock_that_was_set_back_makes_no_pause_longer() -> None:
    """A container that ended three hours in the future would have waited for three hours."""
    assert next_steps(pod(), {"c0": ended(1, ago=-10_800, row=2)}, BACKOFF, NOW).start == ["c0"]
    moment_ago = next_steps(pod(), {"c0": ended(1, ago=-0.1, row=2)}, BACKOFF, NOW)
    assert (moment_ago.start, moment_ago.backing_off) == ([], {"c0": 20.0})


def test_the_restart_backoff_is_reset_after_a_long_run() -> None:
    assert next_steps(pod(), {"c0": ended(1, ran=700, row=6)}, BACKOFF, NOW).start == ["c0"]
    assert BACKOFF.next_restarts_in_a_row(ended(1, ran=700, row=6)) == 1
    never_started = Observed(attempt=0, exit_code=127, started_at=0.0, finished_at=NOW, restarts_in_a_row=3)
    assert BACKOFF.next_restarts_in_a_row(never_started) == 4


observations = st.builds(
    Observed,
    attempt=st.integers(0, 3),
    running=st.just(False),
    exit_code=st.sampled_from([0, 1, 137]),
    started_at=st.just(NOW - 10),
    finished_at=st.floats(NOW - 9, NOW),
    restarts_in_a_row=st.integers(0, 8),
) | st.sampled_from([NEVER, RUNS])


@given(
    st.sampled_from(["Always", "OnFailure", "Never"]),
    st.lists(observations, min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from(["init", "side"]), observations), max_size=3),
)
def test_invariants_of_a_pods_steps(policy: str, mains: list[Observed], inits: list[tuple[str, Observed]]) -> None:
    """No running container is started, none starts in a final phase, `Never` restarts only sidecars, and a waiting Pod
    is woken."""
    shape = pod(policy, len(mains), tuple(kind for kind, _ in inits))
    observed = {f"c{n}": one for n, one in enumerate(mains)} | {f"i{n}": one for n, (_, one) in enumerate(inits)}
    steps = next_steps(shape, observed, BACKOFF, NOW)
    sidecars = {f"i{n}" for n, (kind, _) in enumerate(inits) if kind == "side"}
    assert not any(observed[name].running for name in steps.start)
    assert not set(steps.start) & set(steps.backing_off)
    if steps.phase in ("Succeeded", "Failed"):
        assert not steps.start
        assert not steps.stop
    if policy == "Never":
        assert all(observed[name].attempt < 0 for name in set(steps.start) - sidecars)
    if steps.backing_off:
        assert steps.wake_at is not None
        assert steps.wake_at > NOW
    if policy == "Always":
        assert steps.phase in ("Pending", "Running")
