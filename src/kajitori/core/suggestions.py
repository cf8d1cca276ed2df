"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_ELSEWHERE = {
    "entrypoint": "command",
    "cmd": "args",
    "arguments": "args",
    "environment": "env",
    "cwd": "workingDir",
    "workdir": "workingDir",
    "mem": "memory",
    "ram": "memory",
    "cores": "cpu",
    "shmsize": "shm",
    "mounts": "volumes",
    "volumemounts": "volumes",
    "mountpath": "path",
    "nodes": "replicas",
    "workers": "replicas",
    "parallelism": "replicas",
    "timeout": "timeLimit",
    "walltime": "timeLimit",
    "maxretries": "restarts",
    "backofflimit": "restarts",
    "priorityclassname": "priority",
}
"""Names of other systems (Docker, Kubernetes, batch systems), each with Kajitori's name."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `word`, or None if none is similar.

    Case, dashes and underscores are ignored: `gpu-type`, `gpu_type` and `GPUType` all match `gpuType`. A known name
    that is a prefix of the word, or that the word is a prefix of, matches as well (`mem`, `gpus`).
    """
    known = list(known)
    elsewhere = _ELSEWHERE.get(word.casefold())
    if elsewhere in known:
        return elsewhere
    by_letters = {_letters_only(name): name for name in known}
    letters = _letters_only(word[:80])
    if letters in by_letters:
        return by_letters[letters]
    close = get_close_matches(letters, by_letters, n=1, cutoff=0.7)
    if close:
        return by_letters[close[0]]
    if len(letters) < 3:
        return None
    parts = [name for name in by_letters if len(name) >= 3 and (name.startswith(letters) or letters.startswith(name))]
    return by_letters[min(parts, key=lambda name: abs(len(name) - len(letters)))] if parts else None


def similar(word: str, known: Iterable[str]) -> list[str]:
    """Return up to two known names that are similar to `word`, the most similar one first.

    Two are returned, since the closer one may do harm: `rum` is closer to `rm` than to `run`.
    """
    known = list(known)
    near = nearest(word, known)
    if near is None:
        return []
    close = get_close_matches(word[:80].casefold(), known, n=2, cutoff=0.65)
    return [near, *(name for name in close if name != near)][:2]


def did_you_mean(word: str, known: Iterable[str], *, shown: int = 20) -> str:
    """Return a hint for an unknown name: the most similar known one, else the first `shown` known ones."""
    names = sorted(known)
    near = nearest(word, names)
    if near is not None:
        return f"did you mean {near}?"
    if not names:
        return ""
    return f"known: {first_few(names, shown)}"


def first_few(names: Sequence[str], shown: int = 5) -> str:
    """Return the first names and the number of the others: `a, b, c and 12 more`."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"{', '.join(names[:shown])}{more}"


def _letters_only(word: str) -> str:
    return word.replace("-", "").replace("_", "").casefold()
