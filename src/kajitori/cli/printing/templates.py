"""Docker's `--format`: a Go template that is filled in for each row of a list.

It supports a part of Go's templates: `{{.Field}}`, `{{.Label "key"}}`, `{{json .}}`, `{{json .Field}}`,
`{{upper .Field}}` and `{{lower .Field}}`; a leading `table` prints titles and columns, `json` alone a document a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kajitori.cli.context import Cli
from kajitori.cli.terminal import echo, json_text
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import Fault, InvalidInput

Row = Mapping[str, str]

_PLACE = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_EXPRESSION = re.compile(r'(?:(json|upper|lower)\s+)?\.(?:Label\s+"([^"]*)"|([A-Za-z]*))')
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class _Place:
    """An expression of a template: the title of its column, and the function that returns its value for a row."""

    title: str
    fill: Callable[[Row, Mapping[str, str]], str]


def print_rows(cli: Cli, template: str, rows: Iterable[tuple[Row, Mapping[str, str]]], fields: Iterable[str]) -> None:
    """Print the rows, each with its labels, as the template says. `fields` are those that every row has.

    Raises InvalidInput with everything that cannot be filled in, before anything is printed.
    """
    text = template.strip()
    is_table = text.split(" ")[0] == "table" and text != "table"
    if is_table:
        text = text.removeprefix("table").lstrip()
    if text == "json":
        text = "{{json .}}"
    parts = _PLACE.split(re.sub(r"\\[tn\\]", lambda found: _ESCAPES[found[0]], text))
    places = _places(parts[1::2], frozenset(fields))
    if not is_table:
        for row, labels in rows:
            echo(_fill_in(parts[::2], [place.fill(row, labels) for place in places]))
        return
    from kajitori.cli.printing.output import Column, print_table

    titles = _fill_in(parts[::2], [place.title for place in places]).split("\t")
    page = [_fill_in(parts[::2], [place.fill(*row) for place in places]).split("\t") for row in rows]
    print_table(cli, [Column(title) for title in titles], page, cut=False)


def _fill_in(texts: Iterable[str], values: Iterable[str]) -> str:
    """Return `texts` with `values` between them. Tabs in values become spaces, since tabs separate columns."""
    between = [*(value.replace("\t", " ") for value in values), ""]
    return "".join(text + value for text, value in zip(texts, between, strict=True))


def _places(expressions: Iterable[str], fields: frozenset[str]) -> list[_Place]:
    places, faults = [], []
    for expression in expressions:
        match = _EXPRESSION.fullmatch(expression)
        field = match[3] or "" if match else ""
        if match is None or (match[2] is None and not field and match[1] != "json"):
            hint = 'write {{.Names}}, {{.Label "team"}}, {{json .}}; or json alone'
            faults.append(Fault("--format", f"{{{{{expression}}}}} is not understood", expression, hint))
        elif field and field not in fields:
            hint = did_you_mean(field, fields, shown=40)
            faults.append(Fault("--format", f"there is no field .{field}", expression, hint))
        else:
            places.append(_place(match[1] or "", match[2], field))
    if faults:
        raise InvalidInput(faults)
    return places


def _place(function: str, label: str | None, field: str) -> _Place:
    converters: dict[str, Callable[[str], str]] = {"json": json_text, "upper": str.upper, "lower": str.lower}
    convert = converters.get(function, str)
    if label is not None:
        return _Place(label, lambda _row, labels: convert(labels.get(label, "")))
    if not field:
        return _Place("", lambda row, _labels: json_text(row))
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", field).upper()
    return _Place(title, lambda row, _labels: convert(row[field]))
