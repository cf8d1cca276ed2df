"""The committed reference agrees with the code."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from kajitori.configuration.web_limits import WebLimits

DOCS = Path(__file__).parents[2] / "docs"


def generator() -> ModuleType:
    """docs/generate.py, which is no part of a package."""
    return load("generate.py")


def load(name: str) -> ModuleType:
    """Load a module below docs/ by its file name."""
    spec = importlib.util.spec_from_file_location(f"docs_{name.removesuffix('.py')}", DOCS / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    made: dict[str, str] = generator().pages()
    return made


@pytest.mark.parametrize(
    "name",
    [
        "cli.md",
        "words.md",
        "run.md",
        "policy.md",
        "networks.md",
        "api.md",
        "exit-codes.md",
        "metrics.md",
        "output.md",
        "output.schema.json",
        "../architecture/code-map.md",
    ],
)
def test_the_reference_is_up_to_date(pages: dict[str, str], name: str) -> None:
    """A change of the code has to come with the pages that are generated from it."""
    written = (DOCS / "reference" / name).read_text(encoding="utf-8")
    assert written == pages[name], "the reference is out of date: make reference"


def test_the_map_of_the_code_has_every_package() -> None:
    """Each is in one of its tables, with the packages in it."""
    code_map = generator().code_map
    assert code_map.grouped_packages() == {init.parent.name for init in code_map.SOURCE.glob("*/__init__.py")}
    rows = re.findall(r"^\| `([\w/]+)` \| [A-Z`]", code_map.map_page(), re.MULTILINE)
    folders = {str(init.parent.relative_to(code_map.SOURCE)) for init in code_map.SOURCE.glob("*/**/__init__.py")}
    assert sorted(rows) == sorted(folders)


def test_a_package_begins_with_a_name_that_exists(tmp_path: Path) -> None:
    """A docstring that names a class which was renamed since then fails."""
    (tmp_path / "cycle.py").write_text("def run_cycle() -> None: ...\n")
    (tmp_path / "__init__.py").write_text('"""The queue. Begin\nwith `cycle.run_cycle`."""')
    code_map = generator().code_map
    assert (code_map.first_sentence(tmp_path), code_map.begin_with(tmp_path)) == ("The queue.", "cycle.run_cycle")
    (tmp_path / "__init__.py").write_text('"""The queue. Begin with `cycle.run`."""')
    with pytest.raises(ValueError, match=r"begins with cycle\.run"):
        code_map.begin_with(tmp_path)


def test_every_reason_of_the_code_has_advice(pages: dict[str, str]) -> None:
    """docs/troubleshooting/advice.yaml covers exactly the reasons that a status can have."""
    written = (DOCS / "troubleshooting" / "reasons.md").read_text(encoding="utf-8")
    assert written == pages["../troubleshooting/reasons.md"], "the reasons are out of date: make reference"


def test_error_messages_are_listed_with_their_hints() -> None:
    """The page is generated from the source; variable parts are shown as an ellipsis."""
    source = """raise NotFound(f"there is no run {name} here", hint="see them all: kaji ps -a")"""
    found = generator().diagnostics.messages_in(ast.parse(source))
    assert list(found) == [("NotFound", "there is no run … here", "see them all: kaji ps -a")]
    assert "## Unavailable" in generator().diagnostics.messages_page()


def test_generated_manifests_are_up_to_date() -> None:
    """The manifests in deploy/ are the same that the installer applies."""
    for name, text in generator().manifests().items():
        assert (DOCS.parent / "deploy" / name).read_text(encoding="utf-8") == text, "make docs"


def test_generating_the_pages_twice_gives_the_same(pages: dict[str, str]) -> None:
    """They depend neither on time and machine nor on the order of a set."""
    assert generator().pages() == pages


def test_no_path_of_this_machine_is_in_the_reference(pages: dict[str, str]) -> None:
    for text in pages.values():
        assert str(Path.home()) not in text
        assert str(DOCS.parent) not in text


def test_every_limit_of_the_web_api_is_documented_with_its_default() -> None:
    """The table for operators has exactly the limits of the code, with their defaults."""
    text = (DOCS / "operate" / "deploying.md").read_text(encoding="utf-8").partition("## What callers may take")[2]
    told = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", text, re.MULTILINE))
    limits = WebLimits()
    assert told == {
        field.name.replace("_", "-"): str(int(getattr(limits, field.name))) for field in dataclasses.fields(limits)
    }


def test_the_site_has_no_links_to_files_outside_of_it() -> None:
    """They become names of files; links between pages, to anchors and to other hosts stay."""
    hooks = load("site_hooks.py")
    page = (
        "[rbac](../../deploy/rbac.yaml), [queue](../concepts/queue.md#x), [log](../../CHANGELOG.md), [k](https://k.io)"
    )
    made = hooks.without_outside_links(page, "operate/upgrades.md")
    assert made == (
        "rbac (`deploy/rbac.yaml` in the repository), [queue](../concepts/queue.md#x), "
        "log (`CHANGELOG.md` in the repository), [k](https://k.io)"
    )
