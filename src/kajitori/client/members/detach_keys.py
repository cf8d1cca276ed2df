"""Keys that detach a terminal from a program, which goes on."""

from __future__ import annotations

from dataclasses import dataclass, field

from kajitori.errors import FieldError, InvalidInput

DETACH_KEYS = "ctrl-p,ctrl-q"
"""Docker's keys."""


def parse_keys(text: str) -> bytes:
    """Return the characters of keys in Docker's notation, such as `ctrl-p,ctrl-q`. Raises FieldError."""
    found = bytearray()
    for key in text.split(",") if text else ():
        letter = key.removeprefix("ctrl-").upper()
        if key.startswith("ctrl-") and len(letter) == 1 and "@" <= letter <= "_":
            found.append(ord(letter) - ord("@"))
        elif len(key) == 1 and key.isascii():
            found.append(ord(key))
        else:
            raise FieldError(f"{key!r:.80} is no key", "write letters or ctrl-a to ctrl-z, with commas between them")
    return bytes(found)


def detach_keys_of(text: str) -> bytes:
    """Return the characters of the option `--detach-keys`. Raises InvalidInput."""
    try:
        return parse_keys(text)
    except FieldError as error:
        raise InvalidInput.one("--detach-keys", error.message, value=text, hint=error.hint) from None


@dataclass
class DetachKeys:
    """Finds the keys that detach in typed input. The first of these keys are held back until another key follows."""

    keys: bytes
    _typed: int = field(default=0, init=False)
    """Number of keys that were typed."""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return the bytes to pass on, and whether the keys were typed. Bytes after the keys are dropped."""
        if not self.keys:
            return data, False
        passed = bytearray()
        for char in data:
            if char != self.keys[self._typed]:
                passed += self.keys[: self._typed]
                self._typed = 0
            if char == self.keys[self._typed]:
                self._typed += 1
                if self._typed == len(self.keys):
                    return bytes(passed), True
            else:
                passed.append(char)
        return bytes(passed), False
