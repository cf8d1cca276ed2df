"""Simulated nodes. `nodes.SimulatedNodes` runs a pool of them, as `SimSettings` describes it, against any API server:
it creates Nodes, sends heartbeats, and writes the statuses that the Pods' kubelets would write. Begin with
`nodes.SimulatedNodes`."""

from kajitori.embedded.simulator.nodes import SimulatedNodes
from kajitori.embedded.simulator.settings import SimSettings

__all__ = ["SimSettings", "SimulatedNodes"]
