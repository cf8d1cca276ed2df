"""The process kubelet: makes this machine a Kubernetes node that runs Pods as plain processes."""
