"""The page about the output of verbs for programs, and its JSON schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from markdown_pages import page, table

from kajitori.cli.help.contract import CONTRACTS, schema_of
from kajitori.cli.help.output_shapes import OWN_SHAPES

_BEGINNING = """\
# Output for programs

`kaji --help -o json` lists all commands with their arguments, options, types, defaults and choices, whether they
change something, and where the schema of their output is. `kaji VERB --help -o json` tells the same about one. Both
are made from the commands themselves.

With `-o json` a verb prints one document, or one a line (`logs`, `stats`, `events -f`). The shapes
are those of [the Web API](api.md#shapes), apart from a few that only the command line has.
[output.schema.json](output.schema.json) has JSON schemas of all of them: of each verb at `#/verbs/VERB`. Fields may be
added, so ignore those that you do not know.

## Errors

With `-o json` each error is one line of JSON on stderr, also for wrong usage. Other lines there are notes for people.

```json
{"error": {"code": "NotFound", "message": "there is no run 'bert'", "hint": "see them all: kaji ps -a",
           "exitCode": 2, "faults": []}}
```

`faults` lists every fault of an input with `field`, `message` and `value`; `hint` is the way out. [Exit
codes](exit-codes.md) lists the codes, and `exitCode` is the exit code for this error.

## Verbs with -o json

`items:X` is an object with a list of X in `items`, `list:X` a list of X, and `X|Y` either of two. `Done` is
`{"done": VERB, "items": [{"namespace", "name", "uid"}]}`: the objects for which the verb did it, without those for
which it failed. `Object` is an object whose fields are not promised yet.
"""


def output_page() -> str:
    """What each verb prints with -o json, and why some have no such form."""
    shapes = [
        (f"`{verb}`", " or ".join(f"`{shape}`" for shape in each.shape.split("|")), "yes" if each.changes else "")
        for verb, each in CONTRACTS.items()
        if each.shape
    ]
    others = [(f"`{verb}`", each.without) for verb, each in CONTRACTS.items() if not each.shape]
    lines = [*table(("verb", "shape", "changes something"), shapes), "", "## Verbs without", ""]
    return page("\n".join([_BEGINNING, *lines, *table(("verb", "why"), others)]))


def output_schemas(document: Mapping[str, Any]) -> str:
    """JSON schemas of what verbs print with -o json: by verb, and the shapes that they name."""
    verbs = {verb: schema_of(each.shape) for verb, each in CONTRACTS.items() if each.shape}
    shapes = {**document["components"]["schemas"], **OWN_SHAPES}
    used: dict[str, Any] = {}
    wanted = {"Error", *_named_shapes(verbs)}
    while wanted:
        used |= {name: _of_output(json.loads(_with_local_references(shapes[name]))) for name in wanted}
        wanted = {name for shape in used.values() for name in _named_shapes(shape)} - used.keys()
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Output of kaji with -o json"}
    ordered = {name: used[name] for name in sorted(used)}
    return json.dumps({**whole, "verbs": verbs, "$defs": ordered}, indent=1, ensure_ascii=False) + "\n"


def _with_local_references(schema: Any) -> str:
    return json.dumps(schema).replace("#/components/schemas/", "#/$defs/")


def _of_output(schema: Any) -> Any:
    """A schema of input refuses unknown fields. The same shape as output may have more of them in a later version."""
    if isinstance(schema, list):
        return [_of_output(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        word: _of_output(part)
        for word, part in schema.items()
        if not (word == "additionalProperties" and part is False)
    }


def _named_shapes(schema: Any) -> set[str]:
    return set(re.findall(r'"#/\$defs/([^"/]+)"', json.dumps(schema)))
