"""Kubernetes quantities: exact, rounded up at 10^-9, in the canonical form of the API server.

Formula and limits: k8s.io/apimachinery `resource.Quantity`.
"""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from fractions import Fraction

NANO = 10**9
PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()}
_MAX_EXPONENT = 40
"""Largest exponent: a short text must not become a number of a million digits."""


def _split_number(text: str) -> tuple[int, str]:
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"quantities must match the regular expression '{PATTERN}'")
    sign, digits, suffix = found[1], found[2], found[3] or ""
    if suffix in _BINARY:
        factor, form = Fraction(1024 ** _BINARY[suffix]), "binary"
    elif suffix in _DECIMAL:
        factor, form = Fraction(10) ** _DECIMAL[suffix], "decimal"
    else:
        exponent = int(suffix[1:])
        if abs(exponent) > _MAX_EXPONENT:
            raise ValueError("unable to parse quantity's suffix")
        factor, form = Fraction(10) ** exponent, "exponent"
    nano = Fraction(Decimal(digits)) * factor * NANO
    rounded = -(-nano.numerator // nano.denominator)
    return (-rounded if sign == "-" else rounded), form


@functools.lru_cache(maxsize=4096)
def parse_nano(text: str) -> int:
    """Parse a quantity to 10^-9 units, rounded away from zero.

    Raises:
        ValueError: it is not a quantity.
    """
    return _split_number(text)[0]


@functools.lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """Return the canonical form of a quantity: `0.5` is `500m`, `1024Mi` is `1Gi`.

    Raises:
        ValueError: it is not a quantity.
    """
    nano, form = _split_number(text)
    return format_nano(nano, form)


def format_nano(nano: int, form: str = "decimal") -> str:
    """Format an amount of 10^-9 units; `form` is "decimal", "binary" or "exponent"."""
    if nano == 0:
        return "0"
    sign, size = ("-" if nano < 0 else ""), abs(nano)
    if form == "binary" and size >= 1024 * NANO:
        value, power = -(-size // NANO), 0
        while value % 1024 == 0 and power < 6:
            value, power = value // 1024, power + 1
        return f"{sign}{value}{_BINARY_SUFFIX.get(power, '')}"
    exponent, top = -9, 36 if form == "exponent" else 18
    while size % 1000 == 0 and exponent < top:
        size, exponent = size // 1000, exponent + 3
    if form == "exponent":
        return f"{sign}{size}e{exponent}" if exponent else f"{sign}{size}"
    return f"{sign}{size}{_DECIMAL_SUFFIX[exponent]}"


def form_of(text: str) -> str:
    """Return the form of a quantity. Sums keep the form of their first part."""
    return _split_number(text)[1]
