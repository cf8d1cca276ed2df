"""Regular expressions of searches in logs, by RE2: their time grows with the text alone, never exponentially."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kajitori.api.logs.lines import STAMP_BYTES
from kajitori.errors import InvalidInput

if TYPE_CHECKING:
    import re2

MOST_STEPS = 2_000
"""Largest program of an expression. Repetitions make it large, and the time per byte grows with it: `(.{0,30}){30}` has
8,000 steps."""
_HINT = "the syntax is that of RE2 (https://github.com/google/re2/wiki/Syntax), without look-around and back-references"


class Expression:
    """Finds lines that match. Raises InvalidInput, which names the parameter `text`, if the text is no expression."""

    def __init__(self, text: str, *, ignores_case: bool = False) -> None:
        import re2  # only here: most servers never search by an expression

        options = re2.Options()
        options.case_sensitive = not ignores_case
        options.never_nl = True  # a match never reaches over the end of a line
        options.never_capture = True
        options.log_errors = False
        try:
            steps = re2.compile(text, options).programsize  # alone, so that the error quotes what the caller wrote
            self._compiled: re2._Regexp = re2.compile(f"(?m){text}".encode(), options)
        except (re2.error, UnicodeEncodeError) as error:
            raise InvalidInput.one("text", f"is no regular expression: {_message_of(error)}", hint=_HINT) from None
        finally:
            re2.purge()  # its cache holds 128 expressions with up to 8 MiB each
        if steps > MOST_STEPS:
            message = f"is too large an expression: {steps:,} steps, and at most {MOST_STEPS:,} are allowed"
            raise InvalidInput.one("text", message, hint="repeat less: {0,100} counts a hundred times")

    @classmethod
    def of_text(cls, text: str, *, ignores_case: bool) -> Expression:
        """Return the expression of a plain text."""
        import re2

        return cls(re2.escape(text), ignores_case=ignores_case)

    def lines(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each line of a block that matches behind its stamp."""
        text = b"\n".join(line[STAMP_BYTES:] for line in block.split(b"\n"))
        passed, at = 0, 0
        while at < len(text) and (match := self._compiled.search(text, at)) is not None:
            passed += text.count(b"\n", at, match.start())
            start = text.rfind(b"\n", 0, match.start()) + 1
            end = text.find(b"\n", match.start())
            if end < 0:
                return
            yield start + passed * STAMP_BYTES, end + (passed + 1) * STAMP_BYTES
            passed, at = passed + 1, end + 1


def _message_of(error: Exception) -> str:
    """Return RE2's message, which is bytes."""
    (message,) = error.args[:1] or ("",)
    return message.decode(errors="replace") if isinstance(message, bytes) else "it has characters that are not Unicode"
