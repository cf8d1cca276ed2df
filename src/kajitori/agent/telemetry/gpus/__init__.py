"""Readings of this node's GPUs from drivers and exporters, and which Pod holds which GPU. Begin with
`readings.GpuSource`."""
