"""Names that the embedded cluster's own programs put on Kubernetes objects; programs above it may read them."""

from __future__ import annotations

DOMAIN = "kajitori.dev"

GPU_RESOURCE = "nvidia.com/gpu"

ANNOTATION_GPUS = f"{DOMAIN}/gpus"
"""On a Pod: the identifiers of its GPUs, separated by commas."""
ANNOTATION_SERVING_CERTIFICATE = f"{DOMAIN}/serving-certificate"
"""On a Node: the fingerprint of the kubelet's self-signed certificate (`embedded.fingerprints`)."""
CONDITION_MEMORY_PEAK = f"{DOMAIN}/memory-peak"
"""On a Pod that has ended: the peak memory of each container in bytes, as `main=1048576`."""
