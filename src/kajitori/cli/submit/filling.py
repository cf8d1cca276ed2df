"""A spec as it is filled in from the words of `kaji run`."""

from __future__ import annotations

import re
from typing import Any

from kajitori.core.words.quantities import QuantityError, format_memory, parse_docker_memory_bytes
from kajitori.errors import Fault


class SpecFilling:
    """A spec's document, where each part of it came from, and what is wrong with the words for it."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        """Path in the spec to the option or file it was written in."""
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        """What to tell the user about words that are accepted, but mean something else or nothing here."""
        self.hints: dict[tuple[str, str], str] = {}
        """Path in the spec and code of a fault that a server may find to the way out that is known here only."""
        self.complained: set[str] = set()
        """Paths in the spec of words that `faults` names already."""

    def put(self, path: str, value: Any, source: str) -> None:
        """Writes a field of the spec, where the words say anything of it."""
        if value is not None:
            self.document[path] = value
            self.sources[f"spec.{path}"] = source

    def put_resource(self, key: str, value: Any, source: str) -> None:
        """Writes a field of the spec's resources, where the words say anything of it."""
        if value is not None:
            self.mapping("resources")[key] = value
            self.sources[f"spec.resources.{key}"] = source

    def put_number(self, path: str, text: str | None, source: str, *, hint: str = "write a number, such as 3") -> None:
        """Writes a whole number; another word is complained about, and left for the server to see."""
        if text is None:
            return
        if re.fullmatch(r"[+-]?[0-9]{1,15}", text, re.ASCII):
            self.put(path, int(text), source)
        else:
            self.put(path, text, source)
            self.complained.add(f"spec.{path}")
            self.complain(source, f"{text!r:.80} is not a whole number", text, hint)

    def put_size(self, key: str, text: str | None, source: str) -> None:
        """Docker's units are binary in any case; what is sent says so unmistakably."""
        if text is None:
            return
        try:
            self.put_resource(key, format_memory(parse_docker_memory_bytes(text)), source)
        except QuantityError as error:
            self.put_resource(key, text, source)
            self.complained.add(f"spec.resources.{key}")
            self.complain(source, error.message, text, error.hint)

    def mapping(self, key: str) -> dict[str, Any]:
        """A mapping of the spec; what the file wrote in its place is left for the check to name."""
        found = self.document.setdefault(key, {})
        return found if isinstance(found, dict) else {}

    def items(self, key: str) -> list[Any]:
        """A list of the spec; as `mapping`."""
        found = self.document.setdefault(key, [])
        return found if isinstance(found, list) else []

    def leave_unread(self, key: str, word: str) -> None:
        """Leaves a word that can't be read in its place in a list; its fault is named here."""
        items = self.items(key)
        self.complained.add(f"spec.{key}[{len(items)}]")
        items.append(word)

    def complain(self, where: str, message: str, value: str = "", hint: str = "") -> None:
        """Notes what is wrong with the words, in the words."""
        self.faults.append(Fault(where, message, value, hint))
