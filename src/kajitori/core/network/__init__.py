"""Addresses of many clusters: the registry, what hubs and NAT hosts make of it, and how far an address plan carries.

registry, registry_model, findings   the operators' file of clusters and ranges, and its faults
render, rules, probes                rules and routes for hubs and NAT hosts, and the probes that check them
plan, kinds, limits, growth, encapsulation   how large a cluster can become with its addresses
use, pools, exhaustion, wellknown    addresses in use, and when they run out
"""
