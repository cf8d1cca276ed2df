"""The files of the web page, and the rules under which a browser shows them."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.api.conftest import World

from kajitori.api import web_page


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A page that was built."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "main-1.js").write_text("let x = 1;\n" * 500)
    (tmp_path / "index.html").write_text(f'<meta name="nonce" content="{web_page.NONCE}">')
    monkeypatch.setattr(web_page, "BUILT", tmp_path)
    web_page._read_all.cache_clear()
    yield tmp_path
    web_page._read_all.cache_clear()


OTHER_RULES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src-attr": "'unsafe-inline'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
"""No other server is asked for anything, no script stands in the page, and no other page frames this one."""


async def test_all_addresses_of_the_page_are_one_document(world: World, built: Path) -> None:
    """It needs no credentials. Each answer has its own nonce for styles; scripts come from this server alone."""
    numbers = set()
    for path in ("/", "/runs", "/runs/team/bert"):
        answer = await world.http.get(path, headers={"Authorization": ""})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        found = re.search('content="(.+)"', answer.text)
        assert found is not None
        rules = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
        assert rules.pop("style-src") == f"'self' 'nonce-{found[1]}'"
        assert rules == OTHER_RULES
        numbers.add(found[1])
    assert len(numbers) == 3


@pytest.mark.parametrize(
    ("cookie", "expected"),
    [
        ("", "light dark"),
        ("kaji-colours=dark", "dark"),
        ("a=b; kaji-colours=light", "light"),
        ("kaji-colours=x", "light dark"),
    ],
)
async def test_the_first_paint_has_the_colours_that_the_person_chose(
    world: World, built: Path, cookie: str, expected: str
) -> None:
    """The document says so, since a script that the browser runs first would have to stand in it."""
    shutil.copy(Path(__file__).parents[3] / "web" / "index.html", built / "index.html")
    for path in ("/runs", "/nowhere"):
        answer = await world.http.get(path, headers={"Accept": "text/html", "Cookie": cookie})
        assert f'<meta name="color-scheme" content="{expected}" />' in answer.text


async def test_a_browser_gets_the_page_at_an_address_that_does_not_exist(world: World, built: Path) -> None:
    """A program gets a problem."""
    answer = await world.http.get("/nowhere", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    for path, accept in (("/nowhere", "*/*"), ("/v1/nowhere", "text/html")):
        answer = await world.http.get(path, headers={"Accept": accept})
        assert (answer.status_code, answer.json()["detail"]) == (404, f"there is nothing at {path}")


async def test_scripts_are_compressed_and_kept_by_browsers(world: World, built: Path) -> None:
    answer = await world.http.get("/assets/main-1.js", headers={"Accept-Encoding": "gzip"})
    assert answer.text == "let x = 1;\n" * 500 and answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    again = await world.http.get("/assets/main-1.js", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["main-2.js", "..%2Findex.html", "%2e%2e%2Fapp.py"])
async def test_only_files_of_the_page_are_served(world: World, built: Path, name: str) -> None:
    assert (await world.http.get(f"/assets/{name}")).status_code == 404


async def test_a_page_that_was_not_built_names_the_command(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_page, "BUILT", tmp_path / "missing")
    web_page._read_all.cache_clear()
    answer = await world.http.get("/")
    assert answer.status_code == 503 and "make web" in answer.text
    web_page._read_all.cache_clear()


def test_the_first_page_has_at_most_250_kb() -> None:
    """All that the browser fetches for the list of runs, compressed. Other pages are fetched when they are opened."""
    if not (web_page.BUILT / "index.html").exists():
        pytest.skip("the web page is not built: make web (needs npm)")
    names = set(re.findall(r"assets/[\w.-]+", (web_page.BUILT / "index.html").read_text()))
    sizes = {name: len(gzip.compress((web_page.BUILT / name).read_bytes())) for name in names}
    assert 100_000 < sum(sizes.values()) <= 250_000, sizes


def test_each_page_has_an_address_at_the_server() -> None:
    """Otherwise it is answered with status 404 when it is loaded anew, or opened by a link."""
    session = Path(__file__).parents[3] / "web/src/app/Session.tsx"
    pages = set(re.findall(r'path: "(/[a-z]+)', session.read_text()))
    assert pages == set(web_page.PAGES)
