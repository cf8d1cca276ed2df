"""Alert rules for Prometheus: one table, from which rules, their tests and the runbook page are generated. Begin with
`model.Alert`."""

from kajitori.monitoring.alerts.control_plane import API_SERVER, ETCD
from kajitori.monitoring.alerts.platform import CLUSTER, PARTS

GROUPS = (API_SERVER, ETCD, PARTS, CLUSTER)
"""Every alert, by subject."""
