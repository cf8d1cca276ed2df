"""The map of the code: each folder of the source with the first sentence of its docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from markdown_pages import DOCS, page, table

SOURCE = DOCS.parent / "src" / "kajitori"
_GROUPS = {
    "What decides": ("core",),
    "What people and programs use": ("cli", "client", "docker", "mcp"),
    "The Web API": ("api", "openid"),
    "The controller, and what works beside it": ("controllers", "messages", "agent", "relay", "monitoring"),
    "State: Kubernetes, blobs, history": ("kube", "cluster", "blobs", "history", "backup"),
    "Inside of a member": ("member", "codepack"),
    "The embedded cluster": ("embedded",),
    "Processes and installation": ("entrypoints", "configuration", "install"),
}
"""Titles of the tables, each with its packages. A package without a group fails the test of this page."""
_INTRODUCTION = """# A map of the code

Each row is a folder below `src/kajitori`, with the first sentence of the docstring in its `__init__.py` and the name to
begin reading with: a module, or a class or function in it. `tests/unit` has the same folders. The web page has
[a map of its own](../../web/README.md). If you know what you want to change, the table in
[CONTRIBUTING](../../CONTRIBUTING.md) is shorter."""


def map_page() -> str:
    """Return the page, one table per group of packages."""
    lines = [_INTRODUCTION]
    for title, packages in _GROUPS.items():
        rows = [row for package in packages for row in _rows(SOURCE / package)]
        lines += ["", f"## {title}", "", *table(("folder", "contents", "begin with"), rows)]
    return page("\n".join(lines))


def grouped_packages() -> set[str]:
    """Return the names of all packages on the page."""
    return {package for packages in _GROUPS.values() for package in packages}


def _rows(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the row of a folder, then those of the folders in it."""
    name = begin_with(folder)
    yield f"`{folder.relative_to(SOURCE)}`", first_sentence(folder), f"`{name}`" if name else ""
    for init in sorted(folder.glob("*/__init__.py")):
        yield from _rows(init.parent)


def first_sentence(folder: Path) -> str:
    """Return the first sentence of a package's docstring."""
    text = " ".join(_docstring(folder).partition("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", text)[0]


def begin_with(folder: Path) -> str:
    """Return the name that a package's docstring begins with, for example `cycle.run_cycle`; empty if it names none.

    Raises ValueError for a name that is not in the package.
    """
    found = re.search(r"[Bb]egin\s+with\s+`([\w.]+)`", _docstring(folder))
    if found is None:
        return ""
    path, names = folder, found[1].split(".")
    while names and (path / names[0]).is_dir():
        path /= names.pop(0)
    module = path / f"{names.pop(0)}.py" if names else path / "__init__.py"
    code = module.read_text(encoding="utf-8") if module.is_file() else ""
    if not code or not all(re.search(rf"\b(?:def|class) {name}\b", code) for name in names):
        raise ValueError(f"{folder} begins with {found[1]}, which does not exist")
    return found[1]


def _docstring(folder: Path) -> str:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    if not docstring:
        raise ValueError(f"{folder} has no docstring in __init__.py")
    return docstring
