"""Running clusters for tests and benchmarks, composed of a few parts. CONTRIBUTING.md says what each costs.

| module | what a test gets from it |
|---|---|
| `fixtures` | fixtures: `cluster`, `local_cluster`, `kube_server`, `real_server`, `own_namespace` and others |
| `servers.kube_server` | an API server: the embedded one in this process, or a real one |
| `platform.parts` | parts in this process: controllers, simulated nodes, this machine as a node |
| `platform.part_processes` | parts as processes, which a test may kill |
| `cluster` | an API server with nodes, a mirror, run controllers and a namespace; what tests do with runs |
| `web_api` | a Web API in front of a cluster, with HTTP and `kaji` |
| `local_cluster` | a cluster in another thread, for clients that block |
| `platform.installation` | Kajitori installed with deploy/rbac.yaml: users with roles, all parts as `kaji` processes |
| `kaji_up` | a running `kaji up` |
| `kubelet_node` | a kubelet alone with an API server |
| `commands` | `kubectl` and `kaji`, in milliseconds; `SHORT_LEASE` for a short lease of controllers |
| `waiting` | `until` and `wait_until` |
| `binaries` | where kube-apiserver, etcd, kubectl and so on are |
| `servers.shared_servers` | servers that tests of several modules share, and their end |
"""
