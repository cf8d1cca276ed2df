"""The web page packs a folder as the command line does: `web/src/code/code.test.ts` reads the same example."""

from __future__ import annotations

import json
from pathlib import Path

from kajitori.codepack.ignoring import Rules
from kajitori.codepack.packing import pack

EXAMPLE = Path(__file__).parents[3] / "web/src/code/cases.json"


def test_patterns_mean_the_same_in_browsers() -> None:
    for line, path, excluded in json.loads(EXAMPLE.read_text())["patterns"]:
        assert bool(Rules([line]).verdict(path)) == excluded, (line, path)


def test_the_example_for_browsers_is_what_the_command_line_packs(tmp_path: Path) -> None:
    example = json.loads(EXAMPLE.read_text())
    for path, content in example["files"].items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    for path in example["empty"]:
        (tmp_path / path).mkdir(parents=True)
    packed = pack(tmp_path)
    assert [found.entry.path for found in packed.listing.found] == example["kept"]
    assert (packed.size_bytes, packed.digest) == (example["size"], example["digest"])
