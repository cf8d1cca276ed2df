"""Tables for other programs: typed columns in Parquet, rows that are written as they come, and files that broke off."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from arro3.core import DataType, Table
from arro3.io import read_parquet
from tests.unit.cli.fake_web_api import RUNS, FakeWebApi, invoke, problem

from kajitori.cli.printing import export
from kajitori.cli.printing.export import Kind, print_data
from kajitori.errors import Unsupported

RUN = {"uid": "u", "owner": "ana", "type": "batch", "phase": "Failed", "reason": "", "removedAt": "", "attempts": 2}
TIMES = {"createdAt": "2026-11-20T12:00:00Z", "startedAt": "2026-11-20T13:00:00.5+01:00", "endedAt": ""}
RECORDED: list[dict[str, Any]] = [
    {"name": "bert", "namespace": "vision", "members": 4, "gpus": 32, **RUN, **TIMES},
    {"name": "größe\n", "namespace": "vision", "members": 1, "gpus": 0, **RUN, **TIMES, "startedAt": ""},
]
USED = {"key": "vision", "gpuSeconds": 2**53 + 1, "coreSeconds": 1.5, "memoryGibSeconds": 0.25, "memberSeconds": 60}
AUDIT = dict.fromkeys(("actor", "source", "action", "namespace", "object", "outcome", "rule", "message"), "x")


def parquet(api: FakeWebApi, *arguments: str) -> tuple[Table, list[dict[str, Any]]]:
    """Run a command with `-o parquet`; return its table, and the rows of that."""
    result = invoke(api, *arguments, "-o", "parquet")
    assert (result.exit_code, result.stderr) == (0, "")
    table = read_parquet(io.BytesIO(result.stdout_bytes)).read_all()
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return table, [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def test_history_as_parquet_has_times_and_integers() -> None:
    """Times are in UTC, whatever their zone was; a time that never was is null."""
    table, rows = parquet(FakeWebApi(RUNS, {"GET /v1/history": {"items": RECORDED}}), "history", "--all-users")
    started = datetime(2026, 11, 20, 12, 0, 0, 500_000, tzinfo=UTC)
    assert [row["startedAt"] for row in rows] == [started, None]
    assert [row["name"] for row in rows] == ["bert", "größe\n"]
    assert rows[0] == RECORDED[0] | {
        "createdAt": datetime(2026, 11, 20, 12, tzinfo=UTC),
        "startedAt": started,
        "endedAt": None,
        "removedAt": None,
    }
    assert table.schema.field("startedAt").type == DataType.timestamp("ms", tz="UTC")
    assert table.schema.field("gpus").type == DataType.int64()


def test_usage_as_parquet_has_money_as_decimals() -> None:
    """Seconds are exact beyond what a float holds; 0.1 is 0.1."""
    items = [{**USED, "cost": 0.1}, {**USED, "key": "speech", "cost": 1e-06}]
    table, rows = parquet(FakeWebApi(RUNS, {"GET /v1/usage": {"by": "team", "items": items}}), "usage")
    assert table.column_names[0] == "team"
    assert [row["cost"] for row in rows] == [Decimal("0.1"), Decimal("0.000001")]
    assert rows[0]["gpuSeconds"] == 2**53 + 1


def test_the_audit_trail_is_exported_too() -> None:
    entry = {"at": "2026-11-20T12:00:00Z", **AUDIT}
    api = FakeWebApi(RUNS, {"GET /v1/audit": {"items": [entry]}})
    _, rows = parquet(api, "audit", "log", "--until", "2026-11-21T00:00:00Z")
    assert api.calls[-1].query["until"] == ["2026-11-21T00:00:00Z"]
    assert rows == [AUDIT | {"at": datetime(2026, 11, 20, 12, tzinfo=UTC)}]


def test_an_empty_list_keeps_its_columns() -> None:
    api = FakeWebApi(RUNS, {"GET /v1/history": {"items": []}})
    table, rows = parquet(api, "history")
    assert rows == [] and "createdAt" in table.column_names
    assert invoke(api, "history", "-o", "csv").stdout.startswith("name,namespace,uid,owner,")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_rows_are_written_as_they_come(
    form: str, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """No more than one part of them is held, so a million runs need no more memory than a few thousand."""
    monkeypatch.setattr(export, "_ROWS_AT_A_TIME", 10)
    monkeypatch.setattr(export, "_ROWS_OF_A_GROUP", 20)
    read: list[int] = []
    written: list[int] = []
    original = export._csv_lines if form == "csv" else export._record_batch

    def counting(*arguments: Any) -> Any:
        written.append(len(read))
        return original(*arguments)

    monkeypatch.setattr(export, "_csv_lines" if form == "csv" else "_record_batch", counting)

    def rows() -> Iterator[Mapping[str, Any]]:
        for number in range(95):
            read.append(number)
            yield {"number": number}

    print_data(form, {"number": Kind.COUNT}, rows())
    assert written == [10, 20, 30, 40, 50, 60, 70, 80, 90, 95]
    data = capsysbinary.readouterr().out
    if form == "csv":
        assert [int(row["number"]) for row in csv.DictReader(io.StringIO(data.decode()))] == read
    else:
        table = read_parquet(io.BytesIO(data)).read_all()
        assert table["number"].to_pylist() == read


def test_a_file_that_broke_off_is_no_parquet() -> None:
    """The error is that of the server, and no reader takes half of a history for the whole."""
    answers = iter([{"items": RECORDED, "continue": "more"}])
    lost = problem(503, "Unavailable", "history is away")
    api = FakeWebApi(RUNS, {"GET /v1/history": lambda call: next(answers, lost)})
    result = invoke(api, "history", "--all-users", "-o", "parquet")
    assert result.exit_code != 0 and "history is away" in result.stderr
    assert not result.stdout_bytes.endswith(b"PAR1")


def test_parquet_is_not_written_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kajitori.cli.printing.export._is_terminal", lambda: True)
    result = invoke(FakeWebApi(RUNS, {"GET /v1/history": {"items": []}}), "history", "-o", "parquet")
    assert result.exit_code == 2 and "add > data.parquet" in result.stderr


def test_without_its_library_parquet_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arro3.io", None)
    with pytest.raises(Unsupported, match="arro3-io") as refused:
        print_data("parquet", {}, [])
    assert "pip install 'kajitori[parquet]'" in refused.value.hint
