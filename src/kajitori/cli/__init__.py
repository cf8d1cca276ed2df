"""The command line, `kaji`. It reaches a server only through the Web API."""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """What the script `kaji` runs. Ends the process with the exit code."""
    from kajitori.cli.app import kaji

    kaji.main(prog_name="kaji")
