"""The options of a benchmark, and its help."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter


def option_parser(docstring: str | None) -> ArgumentParser:
    """Return a parser that shows the docstring of the benchmark's module unchanged in its --help.

    By default argparse fills paragraphs, so that several lines of usage would become one.
    """
    module = getattr(sys.modules["__main__"], "__spec__", None)
    program = f"python -m {module.name}" if module is not None else None
    return ArgumentParser(prog=program, description=docstring, formatter_class=RawDescriptionHelpFormatter)
