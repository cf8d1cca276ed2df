"""The process kubelet: makes this machine a Kubernetes node that runs Pods as processes, or as containers of an engine.

Begin with `kubelet`, which has a worker (`pods.worker`) for each Pod. A worker starts a shim (`shim`) for each
container, a small process that outlives the kubelet. `machine`, `network` and `volumes` are what a Pod gets of this
machine; `http` is the API through which logs are read and commands run.
"""
