"""Sums of usage: what history has to add so that its rows agree with a run's totals."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kajitori.core.spec.status import Usage, UsageTotal
from kajitori.core.usage.ledger import amounts_key


def left_out(usage: Usage, recorded: Iterable[UsageTotal]) -> list[UsageTotal]:
    """Return the time of segments that the status had no room for, and that history therefore never saw.

    `recorded` are the sums of history's rows of this run with numbers from `usage.first` on, after all of
    `usage.closed` were added. The answer is empty if nothing was left out, and after it was added.
    """
    known = {amounts_key(total): total.member_seconds for total in recorded}
    found = []
    for total in usage.totals:
        missing = total.member_seconds - known.get(amounts_key(total), 0)
        if missing > 0:
            found.append(msgspec.structs.replace(total, member_seconds=missing))
    return found
