"""Exact parsing and formatting of amounts and durations.

There are three syntaxes, each with its own function:

- `parse_memory_bytes` and `parse_cpu_millis` read Kubernetes' syntax, for everything that an API server sends (Nodes,
  Pods, quotas). `m` is a thousandth, `M` is 10^6, `Mi` is 2^20.
- `parse_docker_memory_bytes` reads the values of Docker's `-m`, `--memory` and `--shm-size`: `64g`, `512M`. Units are
  binary in upper and lower case.
- `parse_spec_memory_bytes` reads a Run's spec and the policy file. Their authors may know either syntax: lower-case
  units and units that end in B are Docker's (`64g` and `64GB` are 64 GiB, `500m` is 500 MiB, never half a byte), all
  others are Kubernetes' (`64G` is 64·10^9, `64Gi` is 64 GiB). `format_memory` writes a form that is the same in both.

Durations have the same syntax everywhere: `1h30m`, or Slurm's `1:30:00` and `2-00:00:00`.

No parser uses floating point. Fractions of the unit are rounded up, as in Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

MAX_CPU_MILLIS = 10**12
"""A billion cores. Larger values are mistakes, and would overflow sums over a cluster."""

MAX_MEMORY_BYTES = 2**60
"""One exbibyte."""

MAX_DURATION_SECONDS = 2**31 - 1
"""68 years: the largest deadline that Kubernetes stores."""


class QuantityError(ValueError):
    """An amount or duration is invalid. `value` is the value as written, `hint` tells how to write it."""

    def __init__(self, value: object, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.value = value
        self.message = message
        self.hint = hint


_LONGEST = 64
_MOST_DIGITS = 4
"""Maximum number of digits of a size in a message for users."""
_NUMBER = r"([+-]?)([0-9]*)(?:\.([0-9]*))?"
# Texts, which `re` compiles at their first use and keeps: `kaji ps` would compile six patterns that it never uses.
_KUBERNETES = _NUMBER + r"(?:[eE]([+-]?[0-9]{1,3})|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?"
_DOCKER = _NUMBER + r" ?([kmgtp]?)(i?b?)"
_DOCKER_IN_SPEC = r"[+-]?[0-9.]+ ?(?:[kmgtp]|(?i:[kmgtp]i?b|b))"
_SPACE_BEFORE_UNIT = r"(?<=[0-9.]) (?=[A-Za-z])"

_DECIMAL_POWER = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_POWER = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DOCKER_POWER = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}

_CPU_HINT = "write a number of cores, for example 8, 0.5 or 500m"
_MEMORY_HINT = "write bytes with a unit, for example 64Gi, 500Mi or 1e9"
_DOCKER_HINT = "write a number with a unit, for example 64g or 512m"
_DURATION_HINT = "write seconds, or a time, for example 60s, 1h30m, 7d, 1:30:00 or 2-00:00:00"


def parse_cpu_millis(value: str | int | float) -> int:
    """Parse a CPU quantity in Kubernetes' syntax (`500m`, `0.5`, `2`, `1e3`) into millicores, rounded up.

    Raises QuantityError if it is not a number, negative, or above MAX_CPU_MILLIS.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(value, f"{value!r:.80} is not a number of cores", _CPU_HINT)
    return _parse_kubernetes(value, 1000, MAX_CPU_MILLIS, _CPU_HINT)


def parse_memory_bytes(value: str | int | float) -> int:
    """Parse a memory quantity in Kubernetes' syntax (`1Gi`, `1e3`, `500M`, `128974848000m`) into bytes, rounded up.

    Raises QuantityError if it is not a number, negative, or above MAX_MEMORY_BYTES.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(value, f"{value!r:.80} is not a size", _MEMORY_HINT)
    return _parse_kubernetes(value, 1, MAX_MEMORY_BYTES, _MEMORY_HINT)


def parse_docker_memory_bytes(value: str) -> int:
    """Parse a memory size in Docker's syntax (`64g`, `512m`, `1.5G`, `100KiB`, `4096`) into bytes. Units are binary.

    Raises QuantityError if it is not a size, negative, or above MAX_MEMORY_BYTES.
    """
    text = value.strip() if isinstance(value, str) else ""
    match = re.fullmatch(_DOCKER, text, re.ASCII | re.IGNORECASE) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(value, f"{value!r:.80} is not a size", _DOCKER_HINT)
    sign, whole, fraction, unit, tail = match.groups()
    if tail.lower().startswith("i") and not unit:
        raise QuantityError(value, f"{value!r} is not a size", _DOCKER_HINT)
    numerator, denominator = _as_fraction(value, whole, fraction, _DOCKER_HINT)
    return _round_up(value, sign, numerator << _DOCKER_POWER[unit.lower()], denominator, MAX_MEMORY_BYTES, _DOCKER_HINT)


def parse_spec_memory_bytes(value: str | int | float) -> int:
    """Parse a memory size in a Run's spec or in the policy file into bytes: Kubernetes' syntax, or Docker's units if
    they are in lower case or end in B. There may be a space before the unit.

    Raises QuantityError if it is not a size, negative, or above MAX_MEMORY_BYTES.
    """
    if not isinstance(value, str) or len(value) > _LONGEST:
        return parse_memory_bytes(value)
    if re.fullmatch(_DOCKER_IN_SPEC, value.strip(), re.ASCII):
        return parse_docker_memory_bytes(value)
    return parse_memory_bytes(re.sub(_SPACE_BEFORE_UNIT, "", value.strip()))


def format_cpu(cpu_millis: int) -> str:
    """Return the canonical form of an amount of CPU: `8` for whole cores, else `500m`."""
    return str(cpu_millis // 1000) if cpu_millis % 1000 == 0 else f"{cpu_millis}m"


def format_cores(cpu_millis: int) -> str:
    """Return an amount of CPU for users: `1 core`, `8 cores`, `0.5 cores`."""
    return "1 core" if cpu_millis == 1000 else f"{cpu_millis / 1000:g} cores"


def format_memory(memory_bytes: int) -> str:
    """Return the canonical form of a size: in the largest binary unit that divides it, as `64Gi`, or in bytes."""
    for unit in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        power = _BINARY_POWER[unit]
        if memory_bytes and memory_bytes % (1 << power) == 0:
            return f"{memory_bytes >> power}{unit}"
    return str(memory_bytes)


def memory_there(memory_bytes: int) -> str:
    """Format an available amount or a limit for users, rounded down: `23.5Gi` instead of `24684092Ki`."""
    return _format_readable(memory_bytes, lambda tenths, unit: tenths // unit)


def memory_needed(memory_bytes: int) -> str:
    """Format a requested or needed amount for users, rounded up."""
    return _format_readable(memory_bytes, lambda tenths, unit: -(-tenths // unit))


def _format_readable(memory_bytes: int, divide: Callable[[int, int], int]) -> str:
    """Return the canonical form if it has at most four digits, else one decimal of the largest unit. Both can be
    parsed."""
    exact = format_memory(memory_bytes)
    if len(exact.rstrip("EPTGMKi")) <= _MOST_DIGITS:
        return exact
    unit = next(unit for unit in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki") if memory_bytes >> _BINARY_POWER[unit])
    whole, tenth = divmod(divide(memory_bytes * 10, 1 << _BINARY_POWER[unit]), 10)
    return f"{whole}.{tenth}{unit}" if tenth else f"{whole}{unit}"


def round_memory(memory_bytes: float) -> str:
    """Format an approximate amount in the largest binary unit that is not above it: `1.5Gi`, `251Gi`."""
    amount, unit = float(memory_bytes), ""
    for next_unit in ("Ki", "Mi", "Gi", "Ti", "Pi"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, next_unit
    return f"{amount:.0f}{unit}" if amount >= 10 or amount == int(amount) else f"{amount:.1f}{unit}"


_DURATION_UNITS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_DURATION_PART = r"([0-9]+)(?:\.([0-9]+))?([wdhms])"
_SLURM_DURATION = (
    r"(?P<d>[0-9]+)-(?P<h>[0-9]{1,2})(?::(?P<m>[0-9]{1,2})(?::(?P<s>[0-9]{1,2}))?)?"
    r"|(?P<hours>[0-9]+):(?P<minutes>[0-9]{1,2}):(?P<seconds>[0-9]{1,2})"
    r"|(?P<just_minutes>[0-9]+):(?P<just_seconds>[0-9]{1,2})"
)
"""`D-HH`, `D-HH:MM`, `D-HH:MM:SS`, `HH:MM:SS` and `MM:SS` of sbatch(1). A plain number, which means minutes there, is
not part of it."""


def parse_duration_seconds(value: str | int) -> int:
    """Parse a duration into seconds: `90`, `60s`, `1h30m`, `1.5h`, `7d`, `2w`, with units from large to small, each at
    most once; or in Slurm's syntax: `1:30:00`, `30:00`, `2-00:00:00`, `2-12`.

    Raises QuantityError if it is none of these, negative, not whole seconds, or above MAX_DURATION_SECONDS.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise QuantityError(value, f"{value!r:.80} is not a duration", _DURATION_HINT)
    text = str(value).strip() if isinstance(value, str) or abs(value) <= MAX_DURATION_SECONDS else "1" * 20
    if len(text) > _LONGEST or not text:
        raise QuantityError(value, f"{value!r:.80} is not a duration", _DURATION_HINT)
    if text.startswith("-"):
        raise QuantityError(value, f"{value!r} is negative", _DURATION_HINT)
    if text.isascii() and text.isdigit():
        return _bounded_duration(value, int(text))
    if ":" in text or re.match("[0-9]+-", text):
        return _bounded_duration(value, _slurm_duration_seconds(value, text))
    seconds, position, previous = 0, 0, MAX_DURATION_SECONDS
    while position < len(text):
        match = re.match(_DURATION_PART, text[position:], re.ASCII)
        if match is None:
            raise QuantityError(value, f"{value!r} is not a duration", _DURATION_HINT)
        unit = _DURATION_UNITS[match[3]]
        if unit >= previous:
            raise QuantityError(value, f"{value!r} is not a duration: units go from large to small", _DURATION_HINT)
        amount, rest = divmod(int(match[1] + (match[2] or "")) * unit, 10 ** len(match[2] or ""))
        if rest:
            raise QuantityError(value, f"{value!r} is not a whole number of seconds", _DURATION_HINT)
        seconds, position, previous = seconds + amount, position + match.end(), unit
    return _bounded_duration(value, seconds)


def _slurm_duration_seconds(value: object, text: str) -> int:
    match = re.fullmatch(_SLURM_DURATION, text, re.ASCII)
    if match is None:
        raise QuantityError(value, f"{value!r} is not a duration", _DURATION_HINT)
    found = {name: int(number) for name, number in match.groupdict().items() if number is not None}
    below = {"h": 24, "m": 60, "s": 60, "minutes": 60, "seconds": 60, "just_seconds": 60}
    wrong = next((number for name, number in found.items() if number >= below.get(name, number + 1)), None)
    if wrong is not None:
        raise QuantityError(value, f"{value!r} is not a duration: {wrong} is too large in its place", _DURATION_HINT)
    units = {"d": 86_400, "h": 3600, "hours": 3600, "m": 60, "minutes": 60, "just_minutes": 60}
    return sum(number * units.get(name, 1) for name, number in found.items())


def format_duration(seconds: int) -> str:
    """Return the canonical form of a duration: `1h30m`, `7d`, `1m30s` for 90 seconds, `0s` for zero."""
    parts = []
    for unit in ("d", "h", "m", "s"):
        amount, seconds = divmod(seconds, _DURATION_UNITS[unit])
        if amount:
            parts.append(f"{amount}{unit}")
    return "".join(parts) or "0s"


def _bounded_duration(value: object, seconds: int) -> int:
    if seconds > MAX_DURATION_SECONDS:
        raise QuantityError(value, f"{value!r:.80} is longer than 68 years", _DURATION_HINT)
    return seconds


@lru_cache(maxsize=65536, typed=True)
def _parse_kubernetes(value: str | int | float, per_unit: int, limit: int, hint: str) -> int:
    if isinstance(value, int):
        return _round_up(value, "-" if value < 0 else "", abs(value) * per_unit, 1, limit, hint)
    text = value.strip() if isinstance(value, str) else repr(value)
    match = re.fullmatch(_KUBERNETES, text, re.ASCII) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError(value, f"{value!r:.80} is not an amount", hint)
    sign, whole, fraction, exponent, suffix = match.groups()
    numerator, denominator = _as_fraction(value, whole, fraction, hint)
    power = int(exponent) if exponent else _DECIMAL_POWER.get(suffix or "", 0)
    if suffix in _BINARY_POWER:
        numerator <<= _BINARY_POWER[suffix]
    elif power >= 0:
        numerator *= 10**power
    else:
        denominator *= 10**-power
    return _round_up(value, sign, numerator * per_unit, denominator, limit, hint)


def _as_fraction(value: object, whole: str, fraction: str | None, hint: str) -> tuple[int, int]:
    digits = whole + (fraction or "")
    if not digits:
        raise QuantityError(value, f"{value!r} is not an amount", hint)
    return int(digits), 10 ** len(fraction or "")


def _round_up(value: object, sign: str, numerator: int, denominator: int, limit: int, hint: str) -> int:
    if sign == "-" and numerator:
        raise QuantityError(value, f"{value!r:.80} is negative", hint)
    amount = -(-numerator // denominator)
    if amount > limit:
        raise QuantityError(value, f"{value!r:.80} is larger than any cluster", hint)
    return amount
