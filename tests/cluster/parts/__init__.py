"""The parts as processes of their own, on a real kube-apiserver with a real kube-scheduler.

Each has no more rights than the manifests under deploy/ give it; the API server's audit log tells who wrote what, and
what each part asked. All tests here use one installed, module after module: the rights that a part has used by the
end are those that the modules before test_rights.py made it use, so run them together.
"""
