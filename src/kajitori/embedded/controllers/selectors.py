"""The Services that select a Pod, found without looking at every Service of its namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from kajitori.embedded.controllers.informer import Key


class SelectorIndex:
    """Selectors of Services by one of their labels: the one that the fewest Services of the namespace ask for.

    With a Service for each of thousands of runs, a Pod has a label that only its own Service asks for, and some that
    all ask for.
    """

    def __init__(self) -> None:
        self._selectors: dict[Key, Mapping[str, str]] = {}
        self._filed_under: dict[Key, tuple[str, str, str]] = {}
        self._by_label: defaultdict[tuple[str, str, str], set[Key]] = defaultdict(set)
        """Keys of Services by namespace, name and value of a label."""

    def set(self, key: Key, selector: Mapping[str, str]) -> None:
        """Remember the selector of a Service. One that is empty selects nothing, and is forgotten."""
        old = self._filed_under.pop(key, None)
        if old is not None:
            del self._selectors[key]
            self._by_label[old].discard(key)
            if not self._by_label[old]:
                del self._by_label[old]
        if not selector:
            return
        labels = [(key[0], name, value) for name, value in selector.items()]
        rarest = min(labels, key=lambda label: len(self._by_label.get(label, ())))
        self._selectors[key], self._filed_under[key] = selector, rarest
        self._by_label[rarest].add(key)

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Key]:
        """Yield the keys of the Services of a namespace that select Pods with these labels."""
        for name, value in labels.items():
            for key in self._by_label.get((namespace, name, value), ()):
                if all(labels.get(asked) == wanted for asked, wanted in self._selectors[key].items()):
                    yield key
