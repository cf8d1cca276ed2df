"""The size of the built web page, as a browser fetches it."""

from __future__ import annotations

import gzip
import re

import pytest

from kajitori.api.web_page import BUILT

FIRST_PAGE_BYTES = 250_000
"""Largest size of all that the list of runs needs, each file compressed by gzip."""


def first_files(document: str) -> list[str]:
    """Return the files that a browser fetches before it shows anything: the scripts and styles that the document names,
    and everything that these scripts import, in turn."""
    found = re.findall(r'(?:src|href)="/(assets/[^"]+)"', document)
    for name in found:
        text = (BUILT / name).read_text(encoding="utf-8") if name.endswith(".js") else ""
        imported = re.findall(r'(?:from|import)\s*"\./([^"]+)"', text)  # `import("./x.js")` comes when it is needed
        found += [f"assets/{other}" for other in dict.fromkeys(imported) if f"assets/{other}" not in found]
    return found


@pytest.mark.skipif(not (BUILT / "index.html").exists(), reason="the web page is not built: make web")
def test_the_first_page_is_small() -> None:
    """A browser far away shows it soon, too. All other pages are fetched when they are opened."""
    document = (BUILT / "index.html").read_bytes()
    sizes = {name: len(gzip.compress((BUILT / name).read_bytes())) for name in first_files(document.decode())}
    has_list = any("Select all rows" in (BUILT / name).read_text(encoding="utf-8") for name in sizes)
    assert has_list, "the list of runs is fetched in another way; count that too"
    whole = len(gzip.compress(document)) + sum(sizes.values())
    largest = sorted(sizes.items(), key=lambda entry: -entry[1])[:5]
    assert whole <= FIRST_PAGE_BYTES, f"{whole} bytes in {len(sizes)} files; the largest: {largest}"
