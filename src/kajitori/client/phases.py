"""Reports of the phase of a run while a program waits for it: `Run.wait(progress=True)`."""

from __future__ import annotations

from collections.abc import Callable

from kajitori.client.models import RunState


class PhaseReporter:
    """Tells each change of a run's phase once, as a line of plain text."""

    def __init__(self, progress: bool | Callable[[str], None]) -> None:
        self._say = progress if callable(progress) else _print if progress else None
        self._told = ""

    def say(self, text: str) -> None:
        if self._say is not None:
            self._say("".join(char if char.isprintable() else " " for char in text))

    def show(self, state: RunState) -> None:
        words = progress_words(state)
        if words != self._told:
            self._told = words
            self.say(words)


def progress_words(state: RunState) -> str:
    """Return a line about the phase of a run: `bert: Running, 3 of 4 members run`."""
    counts = state.status.get("members") or {}
    total = counts.get("total", 1)
    words = f"{state.name}: {state.phase}"
    if state.phase == "Running" and total > 1:
        done = counts.get("succeeded", 0)
        return f"{words}, {counts.get('running', 0)} of {total} members run" + (f", {done} are done" if done else "")
    if state.reason:
        words += f" ({state.reason})"
    return f"{words}: {state.message}" if state.message else words


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201 (a notebook has no other place for it)
