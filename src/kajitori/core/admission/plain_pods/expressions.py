"""Parts of expressions in CEL, and names of images as such expressions compare them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from kajitori.core.kubernetes.image_names import DOCKER_HUB, DOCKER_HUB_ALIASES, parse_image_name, pattern_in_full

PLAIN_IMAGE = (
    r"^([a-z0-9]+([-.][-a-z0-9.]*)?(:[1-9][0-9]*)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][-._A-Za-z0-9]*)?(@[A-Za-z][-_+.A-Za-z0-9]*:[0-9a-fA-F]+)?$"
)
"""Image names in lower case. CEL cannot compare other spellings of a registry, for example IPv6 addresses."""

ODD_IMAGE = (
    rf"^({'|'.join(re.escape(name) for name in sorted(DOCKER_HUB_ALIASES))})(:[0-9]+)?/"
    r"|^[^/]*:80/|^([^/]*\.[^/]*|localhost):443/|^[0-9a-f]{64}$"
)
"""Further spellings of a registry, and texts that runtimes take for an image's identifier."""

_FIRST = "c.image.split('/')[0]"
_HAS_DOMAIN = (
    f"(c.image.contains('/') && ({_FIRST}.contains('.') || {_FIRST}.contains(':') || {_FIRST} == 'localhost'))"
)
_NAMED = (
    f"({_HAS_DOMAIN} ? (c.image.startsWith('{DOCKER_HUB}/') && size(c.image.split('/')) == 2"
    f" ? c.image.replace('{DOCKER_HUB}/', '{DOCKER_HUB}/library/') : c.image)"
    f" : (c.image.contains('/') ? '{DOCKER_HUB}/' : '{DOCKER_HUB}/library/') + c.image)"
)
IMAGE_IN_FULL = f"({_NAMED} + (c.image.matches('[:@][^/]*$') ? '' : ':latest'))"
"""The image's full name (`image_names.full_image_name`), for names that are plain and not odd."""


_LETTERS = re.compile(r"\[(!?)((?:[a-z](?:-z)?|[A-Z](?:-Z)?|[0-9](?:-9)?)+)\]", re.ASCII)


def is_plain_image(image: str) -> bool:
    """Return whether an image's name has a spelling that the rules can compare."""
    is_plain = re.search(PLAIN_IMAGE, image) is not None and re.search(ODD_IMAGE, image) is None
    return is_plain and parse_image_name(image) is not None


def regex_of(pattern: str) -> str:
    """Return a pattern of `fnmatch` as a regular expression (RE2, without anchors). Its brackets may contain letters,
    digits and ranges of these only."""
    parts, position = [], 0
    while position < len(pattern):
        letters = _LETTERS.match(pattern, position)
        if letters is not None:
            parts.append(f"[{'^' if letters[1] else ''}{letters[2]}]")
            position = letters.end()
            continue
        letter = pattern[position]
        parts.append({"*": ".*", "?": "."}.get(letter) or re.escape(letter))
        position += 1
    return "".join(parts)


def cel(value: str | Sequence[str]) -> str:
    """Return a text, or a list of texts, as a literal of CEL."""
    if not isinstance(value, str):
        return f"[{', '.join(map(cel, value))}]"
    return json.dumps(value, ensure_ascii=False)


def any_image_of(patterns: Sequence[str]) -> str:
    """Return the regular expression of the full names of images that one of the policy's patterns matches."""
    full = (regex_of(full) for pattern in patterns for full in pattern_in_full(pattern))
    return f"^({'|'.join(full)})$"
