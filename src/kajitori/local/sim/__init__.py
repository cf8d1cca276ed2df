"""Simulated nodes: `SimulatedNodes` plays a pool that `SimSettings` describes."""

from kajitori.local.sim.nodes import SimulatedNodes
from kajitori.local.sim.settings import SimSettings

__all__ = ["SimSettings", "SimulatedNodes"]
