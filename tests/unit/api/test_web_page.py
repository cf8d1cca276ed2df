"""The files of the web page, and the rules under which a browser shows them."""

from __future__ import annotations

import re
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


async def test_all_addresses_of_the_page_are_one_document(world: World, built: Path) -> None:
    """It needs no credentials. Each answer has its own nonce for styles; scripts come from this server alone."""
    numbers = set()
    for path in ("/", "/runs", "/runs/team/bert"):
        answer = await world.http.get(path, headers={"Authorization": ""})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        found = re.search('content="(.+)"', answer.text)
        assert found is not None
        rules = answer.headers["content-security-policy"]
        assert f"'nonce-{found[1]}'" in rules and "script-src 'self';" in rules and "default-src 'none'" in rules
        numbers.add(found[1])
    assert len(numbers) == 3


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
