"""Counting traffic of Pods by class of address. Begin with `totals`.

totals      exact totals of one node from kernel counters; `report` is how agents send them
cluster_traffic   sums over all nodes, in a server; `history` keeps them by hour and day
node_feed   the Pods of a node, as a relay tells its agent
"""
