"""One Pod on this node: admission, status, volumes, probes, and the worker that drives it. Begin with
`worker.PodWorker`."""
