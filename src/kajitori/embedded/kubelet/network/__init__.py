"""Addresses and network namespaces of Pods on this machine. Begin with `pod_networks.PodNetwork`."""
