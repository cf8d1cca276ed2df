"""The cluster in the types of `core`. Begin with `view.ClusterView`, which answers questions about it.

mirror                 the copy of Nodes, Pods and Runs in memory
objects, run_object    the objects as they are read from the API server
nodes, health, devices   Nodes, node pools, signs of unhealthy nodes, and their GPUs as devices
runs, usage_ledger     stored Runs with their members, and what these hold
occupancy, queue       the nodes that runs hold or were promised, and the input of the queue's cycle
platform               Kajitori's own objects in the cluster
background             work of a process that begins again after a failure
"""
