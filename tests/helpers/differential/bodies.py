"""Random objects, names and parameters, which the random requests are made of."""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.helpers.differential.catalogue import META, KindSample, Object

_FIELD_VALIDATIONS = ("Strict", "Warn", "Ignore", "Odd")
_MANAGERS = ("m1", "m2", "m3")


def merged(target: Any, piece: Any) -> Any:
    """Return the target with a piece merged in; a null stays, since a body may contain it."""
    if not isinstance(piece, dict) or not isinstance(target, dict):
        return copy.deepcopy(piece)
    out = dict(target)
    for key, value in piece.items():
        out[key] = merged(out.get(key), value)
    return out


class Bodies:
    """Draws the parts of requests from one source of randomness."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.unordered: set[str] = set()
        """Collections with random names: their pages have other objects on each server."""

    def body(self, sort: KindSample, name: str, chance: float = 0.5) -> Object:
        """Return a valid object, or one with pieces changed."""
        rng = self.rng
        body = copy.deepcopy(sort.base)
        body["metadata"]["name"] = sort.name_of(name)
        while rng.random() < chance:
            body = merged(body, self.piece(sort))
        return body

    def piece(self, sort: KindSample) -> Object:
        if self.rng.random() < 0.3:
            return {"metadata": self.rng.choice(META)}
        return self.rng.choice(sort.pieces)

    def name(self, sort: KindSample) -> str:
        return self.rng.choice(sort.names)

    def path(self, sort: KindSample, name: str = "") -> str:
        return f"{sort.collection}/{sort.name_of(name or self.name(sort))}"

    def params(self, *, apply: bool = False) -> tuple[tuple[str, str], ...]:
        rng = self.rng
        params: list[tuple[str, str]] = []
        if rng.random() < 0.1:
            params.append(("dryRun", "All" if rng.random() < 0.9 else "Some"))
        if rng.random() < 0.3:
            params.append(("fieldValidation", rng.choice(_FIELD_VALIDATIONS[: 4 if rng.random() < 0.2 else 3])))
        if apply:
            if rng.random() < 0.97:
                params.append(("fieldManager", rng.choice(_MANAGERS)))
            if rng.random() < 0.35:
                params.append(("force", "true"))
        elif rng.random() < 0.2:
            params.append(("fieldManager", rng.choice(("m1", "m2", "x" * 129, "bad\u0007name", ""))))
        return tuple(params)

    def reference(self, body: Object, path: str) -> Object:
        """Return an object with the current resource version, an old one, or none."""
        chance = self.rng.random()
        what = "rv" if chance < 0.55 else "oldrv" if chance < 0.7 else ""
        if "/resourcequotas/" in path:
            # Their status is written when the embedded server thinks fit: versions differ.
            return body
        if what and isinstance(body.get("metadata"), dict):
            body["metadata"].setdefault("resourceVersion", f"@{what}({path})")
        if self.rng.random() < 0.1 and isinstance(body.get("metadata"), dict):
            body["metadata"].setdefault("uid", f"@uid({path})")
        return body
