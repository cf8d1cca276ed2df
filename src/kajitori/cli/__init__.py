"""The command line, `kaji`. It reaches a server only through the Web API."""

from __future__ import annotations

import gc
from typing import NoReturn

ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000
"""Python's 700 make it look for garbage a hundred times among what is being imported, and find none."""


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    from kajitori.cli.app import kaji

    kaji.main(prog_name="kaji")
