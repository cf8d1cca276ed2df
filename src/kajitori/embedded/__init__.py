"""The embedded cluster: a small Kubernetes of Kajitori's own, for `kaji up` and for tests. Begin with `cluster`.

store        every object with its revisions, as in etcd
apiserver    the Kubernetes API on top of the store
scheduler    gives Pods a node
controllers  what kube-controller-manager does: node life cycle, volumes, endpoints, budgets
kubelet      makes this machine a node
simulator    simulated nodes
"""
