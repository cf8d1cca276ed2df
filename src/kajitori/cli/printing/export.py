"""Tables for other programs, as CSV or Parquet. Rows are written as they come, so a million need little memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from io import RawIOBase
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, cast

from kajitori.cli.terminal import echo_data, write_as_is
from kajitori.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from arro3.core import DataType, RecordBatch

_ROWS_AT_A_TIME = 5_000
_ROWS_OF_A_GROUP = 100_000
"""Rows that a Parquet file stores together. The library keeps them in memory, compressed, until they are written."""
_MONEY_DIGITS = 38, 6
"""Digits of a decimal, and how many of them follow the point."""


class Kind(Enum):
    """The type of a column's values."""

    TEXT = "text"
    TIME = "time"
    """A time with its zone (RFC 3339), or an empty text."""
    COUNT = "count"
    """An integer."""
    NUMBER = "number"
    MONEY = "money"


Columns = Mapping[str, Kind]
Rows = Iterable[Mapping[str, Any]]


def print_data(form: str, columns: Columns, rows: Rows) -> None:
    """Write these columns of the rows to stdout as `csv` or `parquet`.

    Raises Unsupported without the library for Parquet, and InvalidInput if Parquet would go to a terminal. An error
    while rows are read is passed on; what was written of a Parquet file until then has no end, so no reader takes it.
    """
    if form == "parquet":
        _write_parquet(columns, rows)
        return
    titles = [[*columns]]
    for part in _batches(rows):
        echo_data(_csv_lines([*titles, *([row[name] for name in columns] for row in part)]))
        titles = []
    if titles:
        echo_data(_csv_lines(titles))


def csv_text(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV, with a line of titles."""
    return _csv_lines([titles, *rows])


def _csv_lines(rows: Iterable[Sequence[object]]) -> str:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _batches(rows: Rows) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the rows in lists of a limited length."""
    remaining = iter(rows)
    while part := list(islice(remaining, _ROWS_AT_A_TIME)):
        yield part


def _write_parquet(columns: Columns, rows: Rows) -> None:
    try:
        from arro3.core import Field, RecordBatchReader, Schema
        from arro3.io import write_parquet
    except ModuleNotFoundError as error:
        hint = "pip install 'kajitori[parquet]', or use -o csv"
        raise Unsupported("Parquet needs the library arro3-io", hint=hint) from error
    if _is_terminal():
        hint = "write it to a file: add > data.parquet"
        raise InvalidInput.one("-o", "Parquet is not text for a terminal", value="parquet", hint=hint)
    types, output = _parquet_types(), _Output()
    schema = Schema([Field(name, types[kind]) for name, kind in columns.items()])

    def batches() -> Iterator[RecordBatch]:
        try:
            for part in _batches(rows):
                if output.failure is not None:
                    return
                yield _record_batch(columns, schema, types, part)
        except BaseException as error:  # the library would replace it by an error of its own
            output.failure = error

    reader = RecordBatchReader.from_batches(schema, batches())
    write_parquet(reader, cast("IO[bytes]", output), compression="zstd(3)", max_row_group_size=_ROWS_OF_A_GROUP)
    if output.failure is not None:
        raise output.failure


def _is_terminal() -> bool:
    return sys.stdout.isatty()


class _Output(RawIOBase):
    """Stdout for the library, which ends the process if a write fails. After a failure nothing more is written."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: BaseException | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.failure is None:
            try:
                write_as_is(bytes(data))
            except OSError as error:
                self.failure = error
        return len(data)


def _parquet_types() -> dict[Kind, DataType]:
    from arro3.core import DataType

    return {
        Kind.TEXT: DataType.string(),
        Kind.TIME: DataType.timestamp("ms", tz="UTC"),
        Kind.COUNT: DataType.int64(),
        Kind.NUMBER: DataType.float64(),
        Kind.MONEY: DataType.decimal128(*_MONEY_DIGITS),
    }


def _record_batch(
    columns: Columns, schema: Any, types: Mapping[Kind, DataType], rows: list[Mapping[str, Any]]
) -> RecordBatch:
    from arro3.core import Array, DataType, RecordBatch

    stored = {Kind.TIME: DataType.int64(), Kind.MONEY: DataType.string()}  # the library converts only from these
    arrays = []
    for name, kind in columns.items():
        value = _VALUES.get(kind)
        values = [row[name] if value is None else value(row[name]) for row in rows]
        array = Array(values, type=stored.get(kind, types[kind]))
        arrays.append(array.cast(types[kind]) if kind in stored else array)
    return RecordBatch.from_arrays(arrays, schema=schema)


def _milliseconds(text: str) -> int | None:
    from kajitori.core.formats.times import parse_time

    moment = parse_time(text)
    return round(moment.timestamp() * 1000) if moment is not None else None


def _money(value: float) -> str:
    return f"{value:.{_MONEY_DIGITS[1]}f}"


_VALUES: dict[Kind, Callable[[Any], Any]] = {Kind.TIME: _milliseconds, Kind.MONEY: _money}
"""Conversions of values of the Web API for the library, by kind; values of other kinds stay as they are."""
