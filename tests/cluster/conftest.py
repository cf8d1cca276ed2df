"""Fixtures that several test modules of this folder use."""

from __future__ import annotations

from tests.harness.kubelet_node import kubelet_server, node, node_engine

__all__ = ["kubelet_server", "node", "node_engine"]
