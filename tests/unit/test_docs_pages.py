"""References in the documentation resolve: links, anchors, the site's table of contents, named tests."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")])

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_IMAGE = re.compile(r"<(?:img|source)[^>]* (?:src|srcset)=\"([^\"]+)\"")
_TITLE = re.compile(r"#{1,6} (.+)")


def without_fences(text: str) -> Iterator[str]:
    """Return the lines of a page outside its code blocks."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield line


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page that GitHub and the site derive alike; pages may link to no others."""
    found = set()
    for line in without_fences(page.read_text(encoding="utf-8")):
        if title := _TITLE.fullmatch(line):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title[1]).replace("`", "").strip().lower()
            on_github = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
            on_site = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip())
            if on_github == on_site:
                found.add(on_site)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_and_anchors_resolve(page: Path) -> None:
    """After moving a page or renaming a heading, links have to be updated."""
    broken = []
    for line in without_fences(page.read_text(encoding="utf-8")):
        for target in [*_LINK.findall(re.sub(r"`[^`]*`", "", line)), *_IMAGE.findall(line)]:
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            if not found.exists() or (anchor and (found.suffix != ".md" or anchor not in anchors(found))):
                broken.append(target)
    assert not broken


def test_the_site_names_every_page_once() -> None:
    """A page that is missing from mkdocs.yml cannot be found by readers of the site."""
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    made_for_the_site_only = "troubleshooting/messages.md"
    kept = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {made_for_the_site_only}
    assert sorted(named_pages(settings["nav"])) == sorted([*kept, made_for_the_site_only])


def named_pages(part: object) -> Iterator[str]:
    """Return the pages below one entry of the table of contents."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        for inner in part.values():
            yield from named_pages(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from named_pages(inner)


def test_every_promise_names_tests_and_benchmarks_that_exist() -> None:
    """Each row of docs/promises.md ends with what shows it."""
    text = (DOCS / "promises.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert len(rows) > 30
    for row in rows:
        shown_by = re.findall(r"`([^`]+)`", row.rstrip(" |").rpartition(" | ")[2])
        assert shown_by, row
        for name in shown_by:
            bench = re.fullmatch(r"python -m bench\.([\w.]+)", name)
            assert (ROOT / (f"bench/{bench[1].replace('.', '/')}.py" if bench else name)).is_file(), name


@pytest.mark.parametrize("name", ["src", "deploy", "bench", "tests"])
def test_code_and_manifests_name_pages_that_exist(name: str) -> None:
    """Messages and comments may refer to pages below docs/."""
    for file in (ROOT / name).rglob("*"):
        if file.suffix not in (".py", ".yaml", ".json") or "node_modules" in file.parts:
            continue
        for page in re.findall(r"(?<![\w/.-])docs/[\w/-]+\.md", file.read_text(encoding="utf-8")):
            assert (ROOT / page).is_file(), f"{file.relative_to(ROOT)} names {page}"


def test_the_readme_is_at_most_one_page() -> None:
    """Details belong below docs/; pictures come from the repository."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert not re.findall(r"!\[[^\]]*\]\(https?:", text)


def test_the_architecture_names_every_package() -> None:
    """The table of packages has a row for each package of the source, and no others."""
    text = (DOCS / "architecture" / "index.md").read_text(encoding="utf-8").partition("## Packages")[2]
    rows = set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE))
    assert rows == {init.parent.name for init in (ROOT / "src" / "kajitori").glob("*/__init__.py")}


def test_each_step_of_a_run_names_functions_of_its_modules() -> None:
    """The table that follows a run through the code is true after a function has another name."""
    text = (DOCS / "architecture" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \|.*\| (.+) \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) == 12
    for modules, names in rows:
        paths = [ROOT / "src" / "kajitori" / name for name in re.findall(r"`([^`]+\.py)`", modules)]
        code = "".join(path.read_text(encoding="utf-8") for path in paths)
        for name in re.findall(r"`([^`]+)`", names):
            for part in name.split("."):
                assert re.search(rf"\b(?:def|class) {part}\b", code), f"{name} is not in {modules}"


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", *sorted((DOCS / "architecture").glob("*.md"))], ids=str)
def test_pages_about_the_code_name_modules_that_exist(page: Path) -> None:
    """`core/gang` and `cli/app.py` in a page follow the code when it moves."""
    source = ROOT / "src" / "kajitori"
    packages = "|".join(sorted(path.parent.name for path in source.glob("*/__init__.py")))
    for name in re.findall(rf"`((?:{packages})/[a-z_/]*[a-z_](?:\.py)?)`", page.read_text(encoding="utf-8")):
        assert (source / name).exists() or (source / f"{name}.py").exists(), name


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_lists_and_tables_begin_after_an_empty_line(page: Path) -> None:
    """The site shows them as plain text otherwise, although GitHub does not."""
    item = re.compile(r"(?:[-*]|\d+\.) ")
    before = ""
    for line in without_fences(page.read_text(encoding="utf-8")):
        starts_list = item.match(line) and not item.match(before) and not before.startswith(" ")
        starts_table = line.startswith("|") and not before.startswith("|")
        assert not (starts_list or starts_table) or not before.strip(), line
        before = line
