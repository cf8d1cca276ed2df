"""The help of benchmarks."""

from __future__ import annotations

from bench.parts.options import option_parser


def test_the_help_keeps_the_lines_of_usage_as_they_are_written() -> None:
    """argparse's own formatter fills them into one paragraph, from which nobody can copy a command."""
    usage = "    python -m bench.x            all of it\n    python -m bench.x --small    a tenth\n"
    assert usage in option_parser(f"What it measures.\n\n{usage}").format_help()
