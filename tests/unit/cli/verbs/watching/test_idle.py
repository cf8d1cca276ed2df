"""Idle GPUs on the command line: the question after a command, the list, and both answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import NOW, RUNS, FakeWebApi, invoke, view

from kajitori.cli.times import later_option
from kajitori.core.formats.times import parse_time
from kajitori.errors import InvalidInput

WORDS = "gpt holds 8 h100 GPUs, idle since 09:00: kaji keep gpt --until 18:00, or kaji park gpt"


def idle(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"run": "gpt", "namespace": "vision", "owner": "alice", "use": "batch"}
    found |= {"since": "2026-11-21T09:00:00Z", "seconds": 10800, "gpus": 8, "gpuType": "h100", "fewest": 8, "most": 8}
    found |= {"peakPercent": 1, "works": False, "gpuHours": 24.0, "cost": 60.0, "currency": "EUR", "answer": "asked"}
    found |= {"askedAt": "2026-11-21T11:00:00Z", "keptUntil": "", "parkAt": "", "says": "8 h100 GPUs idle since 09:00."}
    return found | more


def api_with(*items: dict[str, Any]) -> FakeWebApi:
    api = FakeWebApi(runs=RUNS, own_notice=WORDS)
    listed = {"items": list(items), "total": len(items), "gpuHours": 24.0, "cost": 60.0, "currency": "EUR"}
    api.answers["GET /v1/idle"] = listed
    return api


@pytest.mark.parametrize("words", [("ps",), ("describe", "gpt"), ("run", "-d", "busybox", "true")])
def test_a_command_ends_with_the_question_to_its_user(words: tuple[str, ...]) -> None:
    api = api_with()
    api.answers["POST /v1/runs"] = (201, RUNS[1])
    result = invoke(api, *words)
    assert result.stderr.rstrip().endswith(f"note: {WORDS}"), result.stderr
    assert result.stderr.count(WORDS) == 1
    assert WORDS not in result.stdout
    assert not any("idle" in path for path in (call.path for call in api.calls))


@pytest.mark.parametrize(
    "words",
    [("ps", "-q"), ("ps", "-o", "json"), ("ps", "--format", "json"), ("inspect", "gpt"), ("idle",), ("stop", "gpt")],
)
def test_programs_and_answers_get_no_question(words: tuple[str, ...]) -> None:
    assert WORDS not in invoke(api_with(), *words).output


def test_idle_lists_my_runs_with_the_answer() -> None:
    kept = idle(run="bert", answer="kept", keptUntil="2026-11-21T18:00:00Z", fewest=1, most=4)
    result = invoke(api_with(idle(), kept), "idle")
    assert "keep or park it?" in result.stdout and "kept until 21 Nov" in result.stdout
    assert "1 to 4 of 8 h100" in result.stdout and "60.00" in result.stdout
    assert "none of your runs" in invoke(api_with(), "idle").stderr


def test_idle_shows_evidence_and_which_gpus_nodes_name() -> None:
    api = api_with()
    gpus = [{"rank": 1, "gpu": gpu, "node": "g2"} for gpu in (0, 3)]
    report = {"run": "gpt", "namespace": "vision", "found": idle(), "idleGpus": gpus, "lookedGpus": 16}
    api.answers["GET /v1/runs/vision/gpt/idle"] = report | {"lookedSeconds": 3600}
    api.answers["GET /v1/runs/vision/gpt/metrics"] = {"series": []}
    result = invoke(api, "idle", "gpt")
    assert "8 h100 GPUs idle since 09:00. That is 24.0 GPU hours, 60.00 EUR." in result.stdout
    assert "In the last hour 2 of 16 GPUs were idle" in result.stdout
    assert "rank 1 on g2: GPU 0, 3" in result.stdout
    api.answers["GET /v1/runs/vision/gpt/idle"] = report | {"lookedSeconds": 530}
    assert "In the last 9 minutes 2 of 16 GPUs were idle" in invoke(api, "idle", "gpt").stdout
    assert "kaji park gpt" in result.stderr


def test_describe_names_idle_gpus_and_when_they_are_parked() -> None:
    found = {"since": "2026-11-21T09:00:00Z", "gpus": 8, "gpuType": "h100", "fewest": 8, "most": 8}
    run = view("nb", status={"idle": found | {"parkAt": "2026-11-21T14:00:00Z"}})
    lines = invoke(FakeWebApi(runs=[run]), "describe", "nb").stdout
    assert "Idle GPUs" in lines and "8 h100, for 3 hours; see kaji idle nb; parked at 2026-11-21T14:00:00Z" in lines


def test_keep_and_park_answer_for_each_run() -> None:
    api = api_with()
    api.answers["POST /v1/runs/vision/gpt/keep"] = RUNS[1]
    api.answers["POST /v1/runs/vision/gpt/park"] = RUNS[1]
    kept = invoke(api, "keep", "gpt", "--until", "2d")
    assert (kept.exit_code, kept.stdout) == (0, "gpt\n"), kept.output
    assert api.calls[-1].body == {"until": "2026-11-23T12:00:00Z"}
    assert invoke(api, "park", "gpt").stdout == "gpt\n"


def test_until_is_a_clock_a_duration_or_a_time() -> None:
    assert parse_time(later_option("--until", "2d", NOW)) == NOW + timedelta(days=2)
    assert later_option("--until", "2026-11-25T09:00:00+01:00", NOW) == "2026-11-25T08:00:00Z"
    here = NOW.astimezone()
    for minutes in (-30, 30):
        wanted = (here + timedelta(minutes=minutes)).replace(second=0)
        found = parse_time(later_option("--until", wanted.strftime("%H:%M"), NOW))
        assert found is not None and found > NOW and found.astimezone().strftime("%H:%M") == wanted.strftime("%H:%M")
        assert found - NOW < timedelta(days=1, hours=2)
    with pytest.raises(InvalidInput):
        later_option("--until", "tonight", datetime(2026, 1, 1, tzinfo=UTC))
