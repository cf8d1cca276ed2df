"""The options of a benchmark, and its help."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter


def option_parser(docstring: str | None) -> ArgumentParser:
    """Return a parser whose --help shows the docstring of the benchmark's module as it is written.

    argparse by itself fills paragraphs, which runs lines of usage together.
    """
    module = getattr(sys.modules["__main__"], "__spec__", None)
    program = f"python -m {module.name}" if module is not None else None
    return ArgumentParser(prog=program, description=docstring, formatter_class=RawDescriptionHelpFormatter)
