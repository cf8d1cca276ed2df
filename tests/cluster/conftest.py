"""Fixtures of several modules here."""

from __future__ import annotations

from tests.helpers.kubelet_node import cluster, node

__all__ = ["cluster", "node"]
