"""Names that the embedded cluster's own programs put on Kubernetes objects; programs above it may read them."""

from __future__ import annotations

DOMAIN = "kajitori.dev"

GPU_RESOURCE = "nvidia.com/gpu"

ANNOTATION_GPUS = f"{DOMAIN}/gpus"
"""On a Pod: the identifiers of its GPUs, separated by commas."""
ANNOTATION_SERVING_CERTIFICATE = f"{DOMAIN}/serving-certificate"
"""On a Node whose kubelet signed its certificate itself: the certificate's fingerprint (`embedded.fingerprints`)."""
CONDITION_MEMORY_PEAK = f"{DOMAIN}/memory-peak"
"""On a Pod that has ended: the most memory in bytes that each container held, as `main=1048576`."""
