"""Kubernetes' own rules: names, label selectors, CEL expressions, image names, taints, and the resources a Pod takes.

They hold for every cluster, with or without Kajitori. So Kajitori's API server, scheduler and kubelets use them too.
"""
