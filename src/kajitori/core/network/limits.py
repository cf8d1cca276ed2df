"""Limits that clouds and Kubernetes publish about the size of networks, each with its source and date.

Nothing here is measured or estimated. `as_of` is the date on the page, or the day on which it was read.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A published number."""

    value: int
    what: str
    source: str
    as_of: str


_AZURE = "https://github.com/MicrosoftDocs/azure-docs/blob/04cb4ea/includes/azure-virtual-network-limits.md"
_AZURE_MTU = "https://learn.microsoft.com/azure/virtual-network/how-to-virtual-machine-mtu"
_AKS_OVERLAY = "https://learn.microsoft.com/azure/aks/concepts-network-azure-cni-overlay"
_AKS_QUOTAS = "https://learn.microsoft.com/azure/aks/quotas-skus-regions"
_AKS_POD_SUBNET = "https://learn.microsoft.com/azure/aks/concepts-network-azure-cni-pod-subnet"
_AWS = "https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"
_AWS_PREFIX = "https://docs.aws.amazon.com/eks/latest/best-practices/prefix-mode-linux.html"
_AWS_MTU = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/network_mtu.html"
_GKE = "https://cloud.google.com/kubernetes-engine/quotas"
_GKE_LARGE = "https://cloud.google.com/kubernetes-engine/docs/concepts/planning-large-clusters"
_GKE_PODS = "https://cloud.google.com/kubernetes-engine/docs/how-to/flexible-pod-cidr"
_GCP_MTU = "https://docs.cloud.google.com/vpc/docs/mtu"
_GCP_ROUTES = "https://github.com/gardener/gardener-extension-provider-gcp/issues/558"
_KUBERNETES = "https://kubernetes.io/docs/setup/best-practices/cluster-large/"
_KUBERNETES_DUAL = "https://kubernetes.io/docs/concepts/services-networking/dual-stack/"
_NODE_RANGES = (
    "https://github.com/kubernetes/kubernetes/blob/release-1.35/pkg/controller/nodeipam/ipam/cidrset/cidr_set.go"
)
_KUBEADM = "https://github.com/kubernetes/kubernetes/blob/44c230b/cmd/kubeadm/app/constants/constants.go"
_AKS_DUAL = "https://learn.microsoft.com/azure/aks/configure-dual-stack"
_AKS_KUBENET_DUAL = "https://learn.microsoft.com/azure/aks/configure-kubenet-dual-stack"
_AKS_FLAT_DUAL = "https://github.com/Azure/AKS/issues/5722"
_AZURE_IPV6 = "https://learn.microsoft.com/azure/virtual-network/ip-services/ipv6-overview"
_EKS_IPV6 = "https://docs.aws.amazon.com/eks/latest/userguide/cni-ipv6.html"
_EKS_IPV6_PRACTICE = "https://aws.github.io/aws-eks-best-practices/networking/ipv6/"
_EKS_PREFIX_PRACTICE = "https://aws.github.io/aws-eks-best-practices/networking/prefix-mode/index_linux/"
_AWS_UNITS = "https://docs.aws.amazon.com/vpc/latest/userguide/network-address-usage.html"
_GKE_IPV6 = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/single-stack-ipv6"
_CALICO_OVERLAY = "https://docs.tigera.io/calico/latest/networking/configuring/vxlan-ipip"
_READ = "2026-11-22"

AZURE_ADDRESSES = Figure(65_536, "private IP addresses per virtual network", _AZURE, "2022-12-05")
AZURE_PER_MACHINE = Figure(256, "private IP addresses per virtual machine", _AZURE, "2022-12-05")
AZURE_ROUTES = Figure(400, "user-defined routes per route table", _AZURE, "2022-12-05")
AZURE_CLUSTER_NODES = Figure(5_000, "nodes per cluster of AKS, whatever its network", _AKS_QUOTAS, "2024-01-12")
AZURE_OVERLAY_NODES = Figure(5_000, "nodes with Azure CNI Overlay", _AKS_OVERLAY, "2024-05-14")
AZURE_OVERLAY_PODS = Figure(250, "Pods per node with Azure CNI Overlay", _AKS_OVERLAY, "2024-05-14")
AZURE_OVERLAY_BLOCK = Figure(
    24, "length of each node's range with Azure CNI Overlay, fixed", _AKS_OVERLAY, "2024-05-14"
)
AZURE_KUBENET_PODS = Figure(250, "Pods per node with kubenet", _AKS_OVERLAY, "2024-05-14")
AZURE_BLOCK = Figure(
    16, "addresses of a block (/28) given to a node, which counts as one", _AKS_POD_SUBNET, "2024-05-21"
)
AZURE_BLOCK_SUBNET = Figure(2**20, "addresses of the largest subnet for blocks (/12)", _AKS_POD_SUBNET, "2024-05-21")
AZURE_MTU = Figure(1_500, "MTU of a machine unless it is set", _AZURE_MTU, _READ)
AZURE_MTU_MOST = Figure(3_900, "largest MTU within a virtual network with ConnectX interfaces", _AZURE_MTU, _READ)

AWS_USAGE = Figure(64_000, "network address usage units per VPC", _AWS, _READ)
AWS_USAGE_RAISED = Figure(256_000, "network address usage units per VPC, on request", _AWS, _READ)
AWS_ROUTES = Figure(500, "routes per route table, of each family", _AWS, _READ)
AWS_ROUTES_RAISED = Figure(1_000, "routes per route table, on request ('performance might be impacted')", _AWS, _READ)
AWS_PREFIX = Figure(16, "addresses of a prefix (/28) given to an interface, which counts as one", _AWS_PREFIX, _READ)
AWS_WARM_PREFIXES = Figure(1, "prefixes that a node keeps beyond need (WARM_PREFIX_TARGET)", _AWS_PREFIX, _READ)
AWS_MTU = Figure(9_001, "MTU within a VPC (1,500 through a gateway)", _AWS_MTU, _READ)

GCP_NODES = Figure(65_000, "nodes per cluster of Kubernetes 1.31 or newer, on request", _GKE_LARGE, _READ)
GCP_NODES_UNASKED = Figure(5_000, "nodes per cluster without asking", _GKE_LARGE, _READ)
GCP_PODS_PER_NODE = Figure(256, "Pods per node", _GKE, _READ)
GCP_PODS = Figure(200_000, "Pods per cluster", _GKE, _READ)
GCP_SPARE = Figure(2, "addresses that a node's range has for each Pod, at least", _GKE_PODS, _READ)
GCP_ROUTES = Figure(300, "static routes per network, by default", _GCP_ROUTES, "2023-02-21")
GCP_MTU = Figure(1_460, "MTU of a network unless it is set (8,896 at most)", _GCP_MTU, _READ)
GCP_MTU_MOST = Figure(8_896, "largest MTU of a network", _GCP_MTU, _READ)

PRIVATE_ADDRESSES = Figure(2**24, "addresses of 10.0.0.0/8", "https://www.rfc-editor.org/rfc/rfc1918", "1996-02")
KUBERNETES_NODES = Figure(5_000, "nodes that Kubernetes is tested with", _KUBERNETES, _READ)
ETHERNET_MTU = Figure(1_500, "MTU of Ethernet (IEEE 802.3)", "https://www.rfc-editor.org/rfc/rfc894", "1984-04")

# IPv6. A figure of 0 means that something is not offered.

KUBERNETES_BLOCK6 = Figure(64, "length of each node's IPv6 range unless it is set", _KUBERNETES_DUAL, _READ)
KUBERNETES_RANGES6 = Figure(
    2**16, "nodes of one IPv6 range: a node's is at most 16 bits longer, or Kubernetes refuses it", _NODE_RANGES, _READ
)
KUBERNETES_CUT_BITS = KUBERNETES_RANGES6.value.bit_length() - 1
"""Most bits by which a node's IPv6 range is longer than the range that it is taken from."""

KUBERNETES_SERVICES6 = Figure(108, "length of the largest IPv6 range for Services (kubeadm)", _KUBEADM, _READ)
KUBERNETES_DUAL = Figure(
    1, "IPv4 address of each Pod that has an IPv6 address, with both families", _KUBERNETES_DUAL, _READ
)
IPV6_MTU = Figure(
    1_280, "bytes that every link of IPv6 has to carry", "https://www.rfc-editor.org/rfc/rfc8200", "2017-07"
)
AZURE_IPV6_ALONE = Figure(0, "IPv6 alone: AKS gives nodes and Pods IPv4 addresses, too", _AKS_DUAL, _READ)
AZURE_FLAT_IPV6 = Figure(0, "IPv6 for Pods with addresses of the virtual network", _AKS_FLAT_DUAL, "2026-07-01")
AZURE_OVERLAY_BLOCK6 = Figure(80, "length of each node's IPv6 range with Azure CNI Overlay", _AKS_DUAL, _READ)
AZURE_OVERLAY_RANGE6 = Figure(64, "length of the IPv6 range for Pods unless it is set (AKS)", _AKS_DUAL, _READ)
AZURE_SUBNET6 = Figure(64, "length of every IPv6 subnet", _AZURE_IPV6, _READ)
AZURE_ROUTES_DUAL = Figure(
    2, "routes that a node with both families takes out of the same table", _AKS_KUBENET_DUAL, _READ
)
AWS_DUAL = Figure(0, "both families: Pods of EKS have one", _EKS_IPV6, _READ)
AWS_IPV6_SINGLY = Figure(0, "IPv6 addresses one by one: EKS gives prefixes only", _EKS_PREFIX_PRACTICE, _READ)
AWS_PREFIX6 = Figure(
    80, "length of the IPv6 prefix given to an interface, one for each node", _EKS_PREFIX_PRACTICE, _READ
)
AWS_SUBNET6 = Figure(64, "length of an IPv6 subnet (a VPC has a /56)", _EKS_IPV6_PRACTICE, _READ)
AWS_UNITS6 = Figure(
    3, "units of a node of an IPv6 cluster: an IPv4 address, an IPv6 address, a prefix", _AWS_UNITS, _READ
)
GCP_NODE6 = Figure(96, "length of each node's IPv6 range, with its Pods' /112 in it", _GKE_IPV6, _READ)
GCP_SUBNET6 = Figure(64, "length of an IPv6 subnet", _GKE_IPV6, _READ)
GCP_ROUTES_IPV6 = Figure(0, "IPv6 with routes: GKE's clusters with IPv6 have alias IP", _GKE_IPV6, _READ)
CALICO_IPIP_IPV6 = Figure(0, "IPv6 in IP-in-IP (Calico)", _CALICO_OVERLAY, _READ)
