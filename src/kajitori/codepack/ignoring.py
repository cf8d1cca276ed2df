"""Finds the files to leave out of an archive: by `.gitignore`, as git reads it, and `.kajiignore`, which has
precedence.

In each folder the lines of `.kajiignore` count as if they were at the end of its `.gitignore`: they exclude more, or
include (`!model.bin`) what git excludes. As with git, nothing below an excluded folder can be included. A user's own
git settings (`core.excludesFile`, `.git/info/exclude`) are ignored, because they are not part of the folder.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence

from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from kajitori.errors import InvalidInput

GIT_FOLDER = ".git"
IGNORE_FILES = (".gitignore", ".kajiignore")
MAX_IGNORE_BYTES = 1 << 20

_BYTES = "latin-1"
_TAILS = (("/**", "/**/*"), ("/**/", "/**/*/"))
_STARS = re.compile(r"(?<!\\)\*{2,}")
_CLASS = re.compile(r"(\[[^\]/]*)\[:([a-z]+):\]")
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \t",
    "digit": "0-9",
    "lower": "a-z",
    "space": " \t\n\v\f\r",
    "upper": "A-Z",
    "xdigit": "a-fA-F0-9",
}
_FOLDER_MARK = "(?P<ps_d>/)"
_SHORT_FORMS = {".": ".+", "/": ".*/"}  # pathspec's expressions for everything, and for every folder


class Rules:
    """The rules in one folder's ignore files."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._rules: list[tuple[bool, re.Pattern[str]]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # `re` warns of sets that git accepts
            for line in reversed(lines):
                try:
                    pattern = GitIgnoreSpecPattern(_as_pathspec(line))
                except (GitIgnorePatternError, re.error):
                    continue  # git ignores invalid lines, too
                if pattern.include is not None and pattern.regex is not None:
                    self._rules.append((pattern.include, _whole_path_regex(pattern.regex.pattern)))
            self._any = re.compile("|".join(f"(?:{regex.pattern})" for _, regex in self._rules), re.DOTALL)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, path: str) -> bool | None:
        """Return whether the last rule that matches this entry itself excludes it; None if none matches.

        `path` is relative to the rules' folder, and ends with a slash for a folder. Rules on the folders above
        were applied before, so a match of the whole path is required, while pathspec also matches an entry
        below a matching folder.
        """
        if not self._any.fullmatch(path):  # true for most entries: one match instead of one per rule
            return None
        return next(excludes for excludes, regex in self._rules if regex.fullmatch(path))


class Ignoring:
    """The rules that apply in one folder: its own, and those of the folders above."""

    def __init__(self, prefix: str = "", rules: tuple[tuple[int, Rules], ...] = ()) -> None:
        self._prefix = prefix
        self._rules = rules

    @classmethod
    def above(cls, folder: str) -> Ignoring:
        """Return the rules of the repository around a folder, if the folder is not the repository's top.

        They do not apply if they exclude the whole folder: the user who names it wants it.
        """
        top = os.path.abspath(folder)
        names: list[str] = []
        while not os.path.lexists(os.path.join(top, GIT_FOLDER)):
            top, name = os.path.split(top)
            if not name:
                return cls()
            names.insert(0, name)
        ignoring, prefix = cls(), ""
        for name in names:
            ignoring = ignoring.entered(os.path.join(top, prefix), prefix)
            prefix += f"{name}/"
            if ignoring.excludes(prefix):
                return cls()
        return cls(_one_character_per_byte(prefix), ignoring._rules)

    def entered(self, folder: str, path: str) -> Ignoring:
        """Return the rules in a subfolder.

        `path` is relative to the top and ends with a slash; for the top itself it is empty.
        """
        rules = Rules([line for name in IGNORE_FILES for line in _ignore_lines(os.path.join(folder, name))])
        if not rules:
            return self
        return Ignoring(self._prefix, ((len(self._prefix) + len(_one_character_per_byte(path)), rules), *self._rules))

    def excludes(self, path: str) -> bool:
        """Return whether an entry is left out. `path` is relative to the top; a folder's ends with a slash."""
        whole = self._prefix + path if path.isascii() else self._prefix + _one_character_per_byte(path)
        for begin, rules in self._rules:
            verdict = rules.verdict(whole[begin:])
            if verdict is not None:
                return verdict
        return False


def _ignore_lines(file: str) -> list[str]:
    """Return the lines of an ignore file; nothing if there is none. Like git, it does not follow symbolic links."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    with os.fdopen(handle, "rb") as opened:
        try:
            content = opened.read(MAX_IGNORE_BYTES + 1)
        except OSError:
            return []
    if len(content) > MAX_IGNORE_BYTES:
        raise InvalidInput.one(file, f"has more than {MAX_IGNORE_BYTES >> 20} MiB", hint="write patterns, not paths")
    text = content.removeprefix(b"\xef\xbb\xbf").decode(_BYTES)
    return [line.removesuffix("\r") for line in text.split("\n")]


def _one_character_per_byte(path: str) -> str:
    """Return a path with one character per byte, because git matches bytes: `?` matches half an umlaut."""
    return os.fsencode(path).decode(_BYTES)


def _whole_path_regex(regex: str) -> re.Pattern[str]:
    """Return pathspec's expression, which matches a prefix, as one for whole paths."""
    plain = regex.replace(_FOLDER_MARK, "/")
    return re.compile(_SHORT_FORMS.get(plain, plain), re.DOTALL)


def _as_pathspec(line: str) -> str:
    """Return the line for pathspec that has the meaning of this line in git.

    `a/**` is everything below `a` at any depth, but not `a`; two stars differ from one only alone between slashes;
    `[[:digit:]]` is a class of characters.
    """
    plain = line.rstrip(" ")
    if plain in ("**", "!**", "**/", "!**/"):
        return plain.replace("**", "*")
    for tail, longer in _TAILS:
        if plain.endswith(tail):
            line = plain.removesuffix(tail) + longer
    mark = "!" if line.startswith("!") else ""
    names = line[len(mark) :].split("/")
    line = mark + "/".join(name if name == "**" else _STARS.sub("*", name) for name in names)
    while found := _CLASS.search(line):
        line = line[: found.end(1)] + _CLASSES.get(found.group(2), "") + line[found.end() :]
    return line
