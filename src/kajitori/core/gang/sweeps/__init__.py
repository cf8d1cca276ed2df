"""Sweeps: independent members, a limited number of them at once, and their results. Begin with `sweep.sweep_step`."""
