"""Kajitori's parts as separate processes, on a real kube-apiserver with a real kube-scheduler.

Each part has only the rights that the manifests under deploy/ give it. The audit log of the API server shows the
requests of each part. All modules share one installation. test_rights.py checks the rights that the parts have used in
the modules before it, so run the modules together.
"""
