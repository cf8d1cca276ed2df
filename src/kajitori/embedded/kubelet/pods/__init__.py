"""One Pod on this node: admission, status, volumes, probes, and the worker that drives it. Begin with
`worker.PodWorker`.

worker, steps        the loop of one Pod, and the pure decision about what its containers need next
admission, context   whether the node admits a Pod, and the state that all Pods share
slot, starter, waiting   one container through all its attempts, the preparation of a start, and what delays it
supervision, probes  running containers: hooks, probes, and their stop
status               the status of the Pod, and its report to the API server
records, strays      what survives a restart of the kubelet, and containers without a record
runtimes             plain processes, or containers of Docker or Podman
"""
