"""What is kept of members before their Pods are deleted: logs, results, memory peaks."""
