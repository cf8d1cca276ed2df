"""Addresses of simulated Pods: a /24 for each node, unique among living Pods."""

from __future__ import annotations

from kajitori.errors import Unavailable

FIRST, LAST = 1, 254


class NodeAddresses:
    """The addresses of one node's /24, `{network}.{number // 256}.{number % 256}.x`.

    The next free address after the last one is taken, so that an address rests as long as possible before it is used
    again.
    """

    def __init__(self, network: int, number: int) -> None:
        self.prefix = f"{network}.{number // 256}.{number % 256}."
        self._holders: dict[str, int] = {}
        self._taken: set[int] = set()
        self._last = FIRST - 1

    def take(self, uid: str, wanted: str = "") -> str:
        """Return the Pod's address: the one it has, the wanted one if it is free, else the next free one.

        Raises Unavailable if all 254 are taken.
        """
        held = self._holders.get(uid)
        if held is not None:
            return f"{self.prefix}{held}"
        slot = self._slot_of(wanted)
        if slot is None or slot in self._taken:
            slot = self._next_free()
        self._holders[uid] = slot
        self._taken.add(slot)
        self._last = slot
        return f"{self.prefix}{slot}"

    def release(self, uid: str) -> None:
        """Release the address of a Pod that is gone or finished; do nothing if it has none."""
        slot = self._holders.pop(uid, None)
        if slot is not None:
            self._taken.discard(slot)

    def _slot_of(self, address: str) -> int | None:
        last = address.removeprefix(self.prefix) if address.startswith(self.prefix) else ""
        return int(last) if last.isdigit() and FIRST <= int(last) <= LAST else None

    def _next_free(self) -> int:
        span = LAST - FIRST + 1
        for step in range(span):
            slot = FIRST + (self._last + step) % span
            if slot not in self._taken:
                return slot
        raise Unavailable(f"all {span} addresses of {self.prefix}0/24 are taken", hint="Lower the node's max_pods.")
