"""A spec that is filled in from the options of `kaji run`."""

from __future__ import annotations

import re
from typing import Any

from kajitori.core.formats.quantities import QuantityError, format_memory, parse_docker_memory_bytes
from kajitori.errors import Fault


class SpecFilling:
    """A spec's document, the option that each part came from, and the faults of the options."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        """The option or file that wrote a field, by the field's path in the spec."""
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        """Notes about options that are accepted, but have no effect or another meaning here."""
        self.hints: dict[tuple[str, str], str] = {}
        """Hints that name options, for faults of the spec, by path in the spec and code of the fault."""
        self.complained: set[str] = set()
        """Paths of fields with values that `faults` reports already."""

    def put(self, path: str, value: Any, source: str) -> None:
        """Write a field of the spec, unless `value` is None."""
        if value is not None:
            self.document[path] = value
            self.sources[f"spec.{path}"] = source

    def put_resource(self, key: str, value: Any, source: str) -> None:
        """Write a field of the spec's resources, unless `value` is None."""
        if value is not None:
            self.mapping("resources")[key] = value
            self.sources[f"spec.resources.{key}"] = source

    def put_number(self, path: str, text: str | None, source: str, *, hint: str = "write a number, such as 3") -> None:
        """Write a whole number. Another text is reported as a fault and stays in the spec for the server's checks."""
        if text is None:
            return
        if re.fullmatch(r"[+-]?[0-9]{1,15}", text, re.ASCII):
            self.put(path, int(text), source)
        else:
            self.put(path, text, source)
            self.complained.add(f"spec.{path}")
            self.complain(source, f"{text!r:.80} is not a whole number", text, hint)

    def put_size(self, key: str, text: str | None, source: str) -> None:
        """Write a size. Docker's units are binary, so `4g` is sent as `4Gi`."""
        if text is None:
            return
        try:
            self.put_resource(key, format_memory(parse_docker_memory_bytes(text)), source)
        except QuantityError as error:
            self.put_resource(key, text, source)
            self.complained.add(f"spec.resources.{key}")
            self.complain(source, error.message, text, error.hint)

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a mapping of the spec. A value of another type stays in the spec, where the check reports it."""
        found = self.document.setdefault(key, {})
        return found if isinstance(found, dict) else {}

    def items(self, key: str) -> list[Any]:
        """Return a list of the spec, in the same way as `mapping`."""
        found = self.document.setdefault(key, [])
        return found if isinstance(found, list) else []

    def leave_unread(self, key: str, word: str) -> None:
        """Keep an item that can't be read in its place in the list; the caller reports its fault."""
        items = self.items(key)
        self.complained.add(f"spec.{key}[{len(items)}]")
        items.append(word)

    def complain(self, where: str, message: str, value: str = "", hint: str = "") -> None:
        """Report a fault of an option."""
        self.faults.append(Fault(where, message, value, hint))
