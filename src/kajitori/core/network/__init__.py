"""Addresses of many clusters, and how far an address plan carries.

registry   the operators' file of clusters and ranges: its types, its faults, and warnings about it
hubs       rules and routes for hubs and NAT hosts, and the probes that check them
planning   how large a cluster can become with its addresses, for each kind of Pod network
use        addresses in use on the nodes and in the registry's ranges, and when they run out
limits     limits that clouds and Kubernetes publish; registry and planning use them
"""
