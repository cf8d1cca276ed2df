"""The GPUs of a node as tables show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def gpu_types_of(node: Mapping[str, Any]) -> list[tuple[str, Mapping[str, int]]]:
    """Return the GPU types of a node, each with its total and used number; whole GPUs first."""
    whole = node.get("gpus") or {}
    types = [(node.get("gpuType") or "", whole)] if whole.get("total") or whole.get("used") else []
    return [*types, *sorted((node.get("partialGpus") or {}).items())]
