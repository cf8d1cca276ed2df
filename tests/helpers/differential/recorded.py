"""Short sequences in which the two servers once differed, with the real server's answers.

They test the embedded server without a real one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.helpers.differential.lockstep import Difference
from tests.helpers.differential.operations import Operation


@dataclass(frozen=True)
class Case:
    """A sequence, and the real server's comparable answer to its last operation (or a watch's events)."""

    name: str
    prefix: str
    operations: tuple[Operation, ...]
    index: int
    """Index of the operation that the answer is for; one past the end: the events of the watch `watched`."""
    watched: str
    really: Any

    @classmethod
    def of(cls, seed: int, operations: Sequence[Operation], difference: Difference) -> Case:
        """Return the case of a difference."""
        watched = difference.operation if difference.index >= len(operations) else ""
        return cls(
            f"{seed} {difference.signature}",
            difference.prefix,
            tuple(operations),
            difference.index,
            watched,
            difference.real,
        )


def append(file: Path, case: Case) -> None:
    """Append one case to a file."""
    fields = asdict(case)
    fields["operations"] = [
        {name: value for name, value in asdict(one).items() if value not in (None, "", (), False)}
        for one in case.operations
    ]
    with file.open("a") as lines:
        lines.write(json.dumps(fields) + "\n")


def load(file: Path) -> list[Case]:
    """Return the cases of a file, one per line."""
    found = []
    for line in file.read_text().splitlines():
        fields = json.loads(line)
        operations = tuple(
            Operation(**{**one, "params": tuple((name, value) for name, value in one.get("params", ()))})
            for one in fields.pop("operations")
        )
        found.append(Case(operations=operations, **fields))
    return found
