"""The stored results of a sweep's members."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.blobs.results import NEW_RUN, KeptResults
from kajitori.blobs.stores.opening import open_blobs
from kajitori.core.gang.sweeps.results import MemberResult, parse_result


async def results_in(folder: Path) -> KeptResults:
    return KeptResults(await open_blobs(folder.as_uri()))


async def test_a_stored_result_is_read_back(tmp_path: Path) -> None:
    """The last end of a member counts; missing and invalid records are left out."""
    kept = await results_in(tmp_path)
    first = MemberResult(index=3, state="Failed", attempt=1, exit_code=1, message="no")
    last = MemberResult(index=3, state="Succeeded", attempt=7, exit_code=0, result={"loss": [0.5, None]})
    for results in (first, last):
        await kept.keep("team", "u", results)
    await kept.keep("team", "other", first)
    (tmp_path / "results" / "team" / "u" / "4").write_text("{")
    assert await kept.read("team", "u", [2, 3, 4]) == {3: last}
    await kept.keep("team", "u", MemberResult(index=5, state="Failed"))
    assert await kept.succeeded("team", "u") == {3}
    assert await kept.succeeded("team", "nobody") == set()
    await kept.forget("team", "u")
    assert await kept.read("team", "u", [3]) == {}
    assert await kept.read("team", "other", [3]) == {3: first}


async def test_settled_results_are_read_from_the_store_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the run is resumed, or until the memory is needed for others. What is missing is looked for again."""
    kept = await results_in(tmp_path)
    first = MemberResult(index=3, state="Failed", exit_code=1)
    again = MemberResult(index=3, state="Failed", exit_code=2)
    await kept.keep("team", "u", first)
    assert await kept.read_settled("team", "u", 0, [2, 3]) == {3: first}
    await kept.keep("team", "u", again)
    await kept.keep("team", "u", MemberResult(index=2, state="Succeeded"))
    assert await kept.read_settled("team", "u", 0, [2, 3]) == {2: MemberResult(index=2, state="Succeeded"), 3: first}
    assert await kept.read_settled("team", "u", 1, [3]) == {3: again}
    monkeypatch.setattr("kajitori.blobs.results.MAX_REMEMBERED_BYTES", 10)
    assert await kept.read_settled("team", "u", 1, [2, 3])
    assert await kept.read_settled("team", "u", 0, [3]) == {3: again}


async def test_old_results_without_a_run_are_removed(tmp_path: Path) -> None:
    kept = await results_in(tmp_path)
    for uid in ("there", "gone"):
        await kept.keep("team", uid, MemberResult(index=0, state="Succeeded"))
    assert await kept.collect({"there"}) == 0
    assert await kept.collect({"there"}, least_age=-NEW_RUN) == 1
    assert await kept.read("team", "there", [0])
    assert not await kept.read("team", "gone", [0])


@pytest.mark.parametrize(
    ("message", "succeeded", "result"),
    [
        ("", True, None),
        (' {"loss": 1}\n', True, {"loss": 1}),
        ('{"loss": 1}', False, {"loss": 1}),
        ("0.25", True, 0.25),
        ("all well", True, "all well"),
        ("Traceback: the end of a log", False, None),
        ("[" * 5000, True, "[" * 5000),
    ],
)
def test_the_termination_message_of_a_member_is_its_result(message: str, succeeded: bool, result: object) -> None:
    """For a failed member only JSON counts: if it wrote nothing, Kubernetes takes the end of its log."""
    assert parse_result(message, succeeded=succeeded) == result
