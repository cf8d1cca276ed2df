"""The copy of the cluster's objects in memory. Begin with `mirror.Mirror`.

pod_index   which Pods belong to which run; `usage` sums up what Pods use on each node
shrink      makes the copies small
"""
