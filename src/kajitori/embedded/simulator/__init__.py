"""Simulated nodes: `SimulatedNodes` plays a pool that `SimSettings` describes."""

from kajitori.embedded.simulator.nodes import SimulatedNodes
from kajitori.embedded.simulator.settings import SimSettings

__all__ = ["SimSettings", "SimulatedNodes"]
