"""Renders everything that a cluster needs for Kajitori, as Kubernetes objects, from one set of settings. Begin with
`render.render`.

Pure: no network and no clock. `kaji install` applies what it returns; the manifests and the chart below `deploy/` are
written from it.
"""
