"""Phases of runs as users write them in options."""

from __future__ import annotations

from collections.abc import Iterable


def phases_of(option: str, words: Iterable[str]) -> list[str]:
    """Return the phases that an option names, in any case. Raises InvalidInput with each word that is not a phase."""
    from kajitori.core.spec.reasons import Phase
    from kajitori.core.suggestions import did_you_mean
    from kajitori.errors import Fault, InvalidInput

    known = {phase.value.casefold(): phase.value for phase in Phase}
    wrong = [word for word in words if word.casefold() not in known]
    if wrong:
        raise InvalidInput(
            [
                Fault(option, f"there is no status {word!r:.80}", word, did_you_mean(word, known.values()))
                for word in wrong
            ]
        )
    return [known[word.casefold()] for word in words]
