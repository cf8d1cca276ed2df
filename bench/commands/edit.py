"""Time from an edited file to the first line that the program prints.

    python -m bench.commands.edit            twenty changes
    python -m bench.commands.edit --small    five

`kaji up` runs in a process of its own. Each time a file among a hundred of a folder is changed, and `kaji run --code .`
typed: the folder is packed and uploaded, the run checked, planned, bound and started with its first step, the code
fetched, and the program's first line printed by the command. Beside it, in turns: the program started by hand.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.harness.kaji_up import installed_kaji_up
from tests.harness.waiting import PATIENCE_SECONDS

from bench.parts.common import Limit, median_and_range, print_limits, print_table
from bench.parts.options import option_parser

LIMIT_SECONDS = 2.0
OTHER_FILES = 99


def main() -> int:
    """Print the figures; return 0 if the promise was kept."""
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="five changes")
    changes = 5 if parser.parse_args().small else 20
    with tempfile.TemporaryDirectory(prefix="kajitori-edit-") as place, installed_kaji_up(Path(place)) as environment:
        project = _project(Path(place) / "project")
        kaji = [
            sys.executable,
            "-m",
            "kajitori.cli",
            "run",
            "-q",
            "--rm",
            "--code",
            ".",
            "python",
            "python3",
            "train.py",
        ]
        by_kaji: list[float] = []
        by_hand: list[float] = []
        for change in range(changes + 1):
            (project / "train.py").write_text(f"print('this is change {change}', flush=True)\n")
            for command, times in ((kaji, by_kaji), ([sys.executable, "train.py"], by_hand)):
                times.append(_first_line_seconds(command, f"this is change {change}", project, environment))
    rows = [
        (name, median_and_range(times[1:]))  # the first also fills caches
        for name, times in (("kaji run --code .", by_kaji), ("by hand", by_hand))
    ]
    print_table(f"from an edited file to the first line, {changes} changes", ("", "seconds"), rows)
    middle = statistics.median(by_kaji[1:])
    return print_limits([Limit("median of kaji run --code", middle, most=LIMIT_SECONDS, unit=" s")])


def _project(folder: Path) -> Path:
    """Create a folder with files that do not change."""
    folder.mkdir()
    for number in range(OTHER_FILES):
        (folder / f"module_{number}.py").write_text(f"ANSWER = {number}\n" * 100)
    return folder


def _first_line_seconds(command: Sequence[str], line: str, folder: Path, environment: dict[str, str]) -> float:
    """Return the seconds from the command's start until its first line was read."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment) as process:
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        seconds = time.monotonic() - began
        code = process.wait(PATIENCE_SECONDS)
    if first != line or code:
        raise RuntimeError(f"{' '.join(command)} printed {first!r} and ended with {code}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
