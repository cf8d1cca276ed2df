"""The kubelet's HTTPS API: logs, exec, statistics."""
