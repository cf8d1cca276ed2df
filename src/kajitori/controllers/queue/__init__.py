"""Plans all waiting runs as one queue, starts them, and requests nodes. Begin with `planning.Planning`; it calls the
pure cycle in `core.queue.cycle` through `queue.Queue`, and starts runs through `starting.Starter`."""
