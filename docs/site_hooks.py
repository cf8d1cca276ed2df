"""Hooks of mkdocs.yml, for what works in the repository and not in the site.

Links from a page to a file outside docs/ become the file's name, and the words with which docs/capture.py marks fences
are left out.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_FENCE = re.compile(r"^```console [a-z ]+$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Prepare one page; mkdocs calls this before it renders the page."""
    return _FENCE.sub("```console", without_outside_links(markdown, page.file.src_uri))


def without_outside_links(markdown: str, source: str) -> str:
    """Replace each link that leaves docs/ with its text and the path in the repository. source: page below docs/."""

    def replaced(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), target))
        if "://" in target or path == "docs" or path.startswith("docs/"):
            return match[0]
        return text if path in text else f"{text} (`{path}` in the repository)"

    return _LINK.sub(replaced, markdown)
