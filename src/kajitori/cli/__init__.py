"""The command line, `kaji`. It reaches a server only through the Web API. Begin with `app.Kaji`."""

from __future__ import annotations

import gc
from typing import NoReturn

ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000
"""Number of new objects after which Python looks for garbage. With its default of 700 it would look a hundred times
while modules are imported, and find none."""


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    from kajitori.cli.app import kaji

    kaji.main(prog_name="kaji")
