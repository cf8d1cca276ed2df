"""A small Kubernetes-compatible API server: to Kubernetes what SQLite is to PostgreSQL.

Begin with `server`, which answers HTTP, and `rest`, which calls a verb for each request. Writes go through `writes`, in
the order of kube-apiserver: `patches`, `admission`, `strategies`, `validation`, then the store. `reads` has lists,
watches and tables, `schemas` the types of all kinds, `registry` the served kinds.
"""
