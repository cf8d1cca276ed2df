"""Kinds of dynamic resource allocation. They are stored as they are written."""

from __future__ import annotations

from kajitori.embedded.apiserver.strategies.strategy import Strategy


class GenerationStrategy(Strategy):
    """ResourceSlice and DeviceClass."""

    has_generation = True


class ClaimStrategy(Strategy):
    """ResourceClaim. The scheduler writes the allocated devices to its status."""

    has_status = True
    immutable = ("spec",)


class ClaimTemplateStrategy(Strategy):
    """ResourceClaimTemplate."""

    immutable = ("spec",)
