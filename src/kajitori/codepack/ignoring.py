"""What stays out of an archive: `.gitignore` as git reads it, and `.kajiignore`, which has the last word.

In each folder the lines of `.kajiignore` count as if they stood at the end of its `.gitignore`: they leave out more, or
take back in (`!model.bin`) what git leaves out. As with git, nothing is taken back in below a folder that is left out.
A user's own git settings (`core.excludesFile`, `.git/info/exclude`) play no part: they are not with the folder.
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
_SHORT_FORMS = {".": ".+", "/": ".*/"}  # how pathspec writes what matches everything, and every folder


class Rules:
    """The lines of one folder's ignore files."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._rules: list[tuple[bool, re.Pattern[str]]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # that of `re` about sets which git has no trouble with
            for line in reversed(lines):
                try:
                    pattern = GitIgnoreSpecPattern(_plainer(line))
                except (GitIgnorePatternError, re.error):
                    continue  # git says nothing either
                if pattern.include is not None and pattern.regex is not None:
                    self._rules.append((pattern.include, _whole(pattern.regex.pattern)))
            self._any = re.compile("|".join(f"(?:{regex.pattern})" for _, regex in self._rules), re.DOTALL)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, path: str) -> bool | None:
        """Whether the last rule that speaks of this very entry leaves it out; None where none speaks of it.

        `path` begins in the rules' folder, and ends with a slash for a folder. What rules say of the folders above it
        was asked before: so a whole match is wanted, where pathspec alone would take that of a folder above.
        """
        if not self._any.fullmatch(path):  # most entries: one look instead of one for each rule
            return None
        return next(leaves_out for leaves_out, regex in self._rules if regex.fullmatch(path))


class Ignoring:
    """The rules that hold in one folder: its own, and those of the folders above."""

    def __init__(self, prefix: str = "", rules: tuple[tuple[int, Rules], ...] = ()) -> None:
        self._prefix = prefix
        self._rules = rules

    @classmethod
    def above(cls, folder: str) -> Ignoring:
        """The rules of the repository that a folder lies in, where it is not that repository's top.

        Where they leave out the whole folder, they do not hold: whoever names it wants it.
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
            if ignoring.leaves_out(prefix):
                return cls()
        return cls(_bytewise(prefix), ignoring._rules)

    def entered(self, folder: str, path: str) -> Ignoring:
        """The rules in a folder below. `path` is its own from the top, with a slash at the end; the top's is empty."""
        rules = Rules([line for name in IGNORE_FILES for line in _lines(os.path.join(folder, name))])
        if not rules:
            return self
        return Ignoring(self._prefix, ((len(self._prefix) + len(_bytewise(path)), rules), *self._rules))

    def leaves_out(self, path: str) -> bool:
        """Whether an entry of this folder stays out. `path` begins at the top; a folder's ends with a slash."""
        whole = self._prefix + path if path.isascii() else self._prefix + _bytewise(path)
        for begin, rules in self._rules:
            verdict = rules.verdict(whole[begin:])
            if verdict is not None:
                return verdict
        return False


def _lines(file: str) -> list[str]:
    """The lines of an ignore file; none where there is none. Like git, it follows no symbolic link."""
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


def _bytewise(path: str) -> str:
    """A path with a character for each byte: that is how git matches, `?` stands for half an umlaut."""
    return os.fsencode(path).decode(_BYTES)


def _whole(regex: str) -> re.Pattern[str]:
    """pathspec's expression, which matches from the beginning, for whole paths."""
    plain = regex.replace(_FOLDER_MARK, "/")
    return re.compile(_SHORT_FORMS.get(plain, plain), re.DOTALL)


def _plainer(line: str) -> str:
    """A line in words that pathspec reads as git does.

    `a/**` is everything below `a` at any depth, but not `a`; two stars are more than one only where they stand alone
    between slashes; `[[:digit:]]` is a class of characters.
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
