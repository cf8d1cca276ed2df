"""The screen of a terminal in a run: how a notice appears on it, and how the user gets it back.

`wall` and Slurm write a line of their own to the terminal, and so does this. A program that uses the whole screen, such
as an editor, keeps its cursor and gets the notice in its last line until it draws that line again. The server uses this
for notices about the run, and the command line for what it reports itself.
"""

from __future__ import annotations

import re

_SWITCH = re.compile(rb"\x1b\[(?:\?(?:1049|1047|47)([hl])|\d{1,4};\d{1,4}H)")
"""Sequences by which a program begins (h) and ends (l) to use the whole screen, and the one that moves the cursor to a
line and column: a client that attaches to an editor has missed its first sequence, but gets its screen."""
_SWITCH_BYTES = 12
"""Length of the longest of them."""
_MODES_OFF = b"\x1b[0m\x1b[r\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l"
"""Plain letters, the whole screen as scrolling region, a visible cursor, and no reports of pastes, mouse and focus."""
_LEAVE_ALTERNATE, _BELOW_EVERYTHING = b"\x1b[?1049l", b"\x1b[999;1H\r\n"
_BELL, _SAVE, _RESTORE, _LAST_LINE, _REVERSE, _PLAIN = "\a", "\x1b7", "\x1b8", "\x1b[999;1H", "\x1b[7m", "\x1b[0m\x1b[K"


class Screen:
    """State of a terminal's screen, as far as the bytes that were sent to it tell."""

    def __init__(self) -> None:
        self.columns = 80
        self.is_alternate = False
        """Whether the program has switched to the alternate screen, which has no scrollback."""
        self._is_full = False
        self._end = b""

    def note(self, output: bytes) -> None:
        """Look for sequences by which a program begins or ends to use the whole screen."""
        seen = self._end + output
        for switch in _SWITCH.finditer(seen):
            self._is_full = switch[1] != b"l"
            self.is_alternate = switch[1] == b"h" or (self.is_alternate and switch[1] is None)
        self._end = seen[-(_SWITCH_BYTES - 1) :]

    def show(self, text: str) -> bytes:
        """Return the bytes that show a notice."""
        line = "kaji: " + "".join(letter if letter.isprintable() else " " for letter in text)
        if not self._is_full:
            return f"\r\n{_BELL}{line}\r\n".encode()
        cut = line[: max(1, self.columns - 1)]  # a longer line would scroll the screen
        return f"{_BELL}{_SAVE}{_LAST_LINE}{_REVERSE}{cut}{_PLAIN}{_RESTORE}".encode()

    def leave(self) -> bytes:
        """Return the bytes that give the terminal back to the user's shell although the program has not left the
        screen; empty if it does not use the whole screen."""
        if not self._is_full:
            return b""
        back = _LEAVE_ALTERNATE if self.is_alternate else _BELOW_EVERYTHING
        self._is_full = self.is_alternate = False
        return _MODES_OFF + back
