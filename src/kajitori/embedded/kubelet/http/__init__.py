"""The kubelet's HTTPS API: logs, exec, statistics. Begin with `server.KubeletServer`."""
