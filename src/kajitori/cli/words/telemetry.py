"""Values of telemetry in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RATES = {"bytes/s": "/s"}


def value_words(value: float, unit: str) -> str:
    """Return a value with its unit, short enough for a table or an axis."""
    from kajitori.core.formats.quantities import round_memory

    if unit in ("bytes", "bytes/s"):
        return round_memory(value) + _RATES.get(unit, "")
    if unit == "bits":
        return hex(int(value)) if value else "0"
    number = f"{value:.4g}" if abs(value) < 100_000 or value % 1 else f"{value:.0f}"
    if "e" in number and 1 <= abs(value) < 1e15:
        number = f"{value:.0f}"
    if unit == "cores" and abs(value) < 0.001:  # without an exponent, which few people read at a glance
        number = f"{value:.6f}".rstrip("0").rstrip(".")
    if unit == "%":
        return f"{value:.0f}%"
    if unit == "1/s":
        return f"{number}/s"
    return number if unit in ("", "count") else f"{number} {unit}"


def rank_words(extreme: Mapping[str, Any]) -> str:
    """Return where an extreme was: `rank 3`, or `rank 3 GPU 1`."""
    gpu = extreme.get("gpu")
    return f"rank {extreme['rank']}" + (f" GPU {gpu}" if gpu is not None else "")


def idle_gpu_words(found: Mapping[str, Any]) -> str:
    """Return the idle GPUs of a run: all of them, or a number with its bounds."""
    if found.get("confirmed"):
        return f"{found['confirmed']} of {found['gpus']} {found.get('gpuType') or ''}".strip()
    low, high, gpus = found["fewest"], found["most"], found["gpus"]
    number = str(gpus) if low == gpus else f"{low} of {gpus}" if low == high else f"{low} to {high} of {gpus}"
    return f"{number} {found.get('gpuType') or ''}".strip()
