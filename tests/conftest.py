"""Fixtures that tests in several folders use."""

from __future__ import annotations

from tests.helpers.real_cluster import any_cluster, own_namespace, real_cluster, with_controller_manager, with_scheduler

__all__ = ["any_cluster", "own_namespace", "real_cluster", "with_controller_manager", "with_scheduler"]
