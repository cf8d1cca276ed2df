"""Rules for single fields of built-in kinds, by `Type.field`.

They are facts of the Kubernetes API that its OpenAPI document does not hold: enumerations, ranges and forms of texts
(k8s.io/kubernetes/pkg/apis/*/validation). A rule for a list holds for each of its items.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.schemas import quantities

Check = tuple[str, ...] | range | Callable[[Any], list[str]]
"""The texts that a field may have, the range of a number, or a function that returns the faults of a value."""

_MAX = 2**31 - 1
PORT = range(1, 65536)
_ID = range(_MAX + 1)
_MODE = range(0o1000)
_NOT_NEGATIVE = range(_MAX + 1)
_POSITIVE = range(1, _MAX + 1)
_PROTOCOLS = ("TCP", "UDP", "SCTP")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TRAFFIC = ("Cluster", "Local")
_FAMILIES = ("IPv4", "IPv6")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
VOLUME_SOURCES = (
    *("hostPath", "local", "nfs", "csi", "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "fc"),
    *("flexVolume", "flocker", "gcePersistentDisk", "glusterfs", "iscsi", "photonPersistentDisk", "portworxVolume"),
    *("quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)
QUOTA_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass")
"""Scopes that quotas here can have. Other scopes are refused, since a quota with them would have no effect."""


def _without_parent(path: str) -> list[str]:
    return ["must not contain '..'"] if ".." in path.split("/") else []


def _relative_path(path: str) -> list[str]:
    return ["must be a relative path"] if path.startswith("/") else _without_parent(path)


def _absolute_path(path: str) -> list[str]:
    return [] if path.startswith("/") else ["must be an absolute path"]


def _trimmed_text(text: str) -> list[str]:
    return [] if text == text.strip() else ["must not have leading or trailing whitespace"]


def _sysctl_name(name: str) -> list[str]:
    return [] if len(name) <= 253 and _SYSCTL.fullmatch(name) else ["must be the name of a kernel parameter"]


def _search_path(text: str) -> list[str]:
    return [] if text == "." else texts.dns_subdomain_with_underscore(text.removesuffix("."))


def _not_negative(amount: str) -> list[str]:
    return ["must be greater than or equal to 0"] if quantities.parse_nano(amount) < 0 else []


def _int_or_percent(value: int | str) -> list[str]:
    if isinstance(value, int):
        return ["must be greater than or equal to 0"] if value < 0 else []
    number = value.removesuffix("%")
    if not (value.endswith("%") and number.isascii() and number.isdigit()):
        return ["must be a number or a percentage such as 50%"]
    return ["must not be greater than 100%"] if int(number) > 100 else []


def _port_reference(port: int | str) -> list[str]:
    return texts.port_number(port) if isinstance(port, int) else texts.port_name(port)


def _provisioner_name(name: str) -> list[str]:
    return texts.qualified_name(name.lower())


def _kind_name(name: str) -> list[str]:
    return texts.dns_1035_label(name.lower())


def _json_path(path: str) -> list[str]:
    return [] if path.startswith(".") else ["must be a JSON path that starts with ."]


def cidr(text: str) -> list[str]:
    """Return the fault of a range of addresses."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return ["must be a range of addresses without bits beyond the prefix, such as 10.9.8.0/24 or 2001:db8::/64"]
    mapped = isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped is not None
    if mapped or "/" not in text or text.rpartition("/")[2] != str(network.prefixlen):
        return ["must be an address and the length of a prefix, such as 10.9.8.0/24"]
    return []


def _any_cidr(text: str) -> list[str]:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return ["must be a range of addresses, such as 10.9.8.0/24 or 2001:db8::/64"]
    return []


CHECKS: dict[str, Check] = {
    # Containers
    "Container.name": texts.dns_label,
    "Container.image": _trimmed_text,
    "Container.imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "Container.restartPolicy": ("Always", "Never", "OnFailure"),
    "Container.terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "ContainerPort.name": texts.port_name,
    "ContainerPort.containerPort": PORT,
    "ContainerPort.hostPort": PORT,
    "ContainerPort.protocol": _PROTOCOLS,
    "EnvVar.name": texts.env_name,
    "EnvFromSource.prefix": texts.env_name,
    "ConfigMapEnvSource.name": texts.dns_subdomain,
    "SecretEnvSource.name": texts.dns_subdomain,
    "ConfigMapKeySelector.name": texts.dns_subdomain,
    "ConfigMapKeySelector.key": texts.config_key,
    "SecretKeySelector.name": texts.dns_subdomain,
    "SecretKeySelector.key": texts.config_key,
    "VolumeMount.subPath": _relative_path,
    "VolumeMount.subPathExpr": _without_parent,
    "VolumeMount.mountPropagation": ("None", "HostToContainer", "Bidirectional"),
    **{f"Probe.{name}": _NOT_NEGATIVE for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds")},
    "Probe.successThreshold": _NOT_NEGATIVE,
    "Probe.failureThreshold": _NOT_NEGATIVE,
    "HTTPGetAction.scheme": ("HTTP", "HTTPS"),
    "HTTPGetAction.port": _port_reference,
    "TCPSocketAction.port": _port_reference,
    "GRPCAction.port": PORT,
    "SleepAction.seconds": _NOT_NEGATIVE,
    "SecurityContext.runAsUser": _ID,
    "SecurityContext.runAsGroup": _ID,
    "SecurityContext.procMount": ("Default", "Unmasked"),
    "SeccompProfile.type": ("Localhost", "RuntimeDefault", "Unconfined"),
    # Pods
    "PodSpec.restartPolicy": ("Always", "OnFailure", "Never"),
    "PodSpec.dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "PodSpec.preemptionPolicy": ("PreemptLowerPriority", "Never"),
    "PodSpec.terminationGracePeriodSeconds": range(2**63),
    "PodSpec.activeDeadlineSeconds": _POSITIVE,
    "PodSpec.serviceAccountName": texts.dns_subdomain,
    "PodSpec.nodeName": texts.dns_subdomain,
    "PodSpec.hostname": texts.dns_label,
    "PodSpec.subdomain": texts.dns_label,
    "PodSpec.runtimeClassName": texts.dns_subdomain,
    "PodSpec.priorityClassName": texts.dns_subdomain,
    "PodOS.name": ("linux", "windows"),
    "PodSecurityContext.fsGroup": _ID,
    "PodSecurityContext.runAsUser": _ID,
    "PodSecurityContext.runAsGroup": _ID,
    "PodSecurityContext.supplementalGroups": _ID,
    "PodSecurityContext.fsGroupChangePolicy": ("OnRootMismatch", "Always"),
    "Sysctl.name": _sysctl_name,
    "PodDNSConfig.nameservers": texts.ip_address,
    "PodDNSConfig.searches": _search_path,
    "HostAlias.ip": texts.ip_address,
    "HostAlias.hostnames": texts.dns_subdomain,
    "PodReadinessGate.conditionType": texts.qualified_name,
    "PodSchedulingGate.name": texts.qualified_name,
    "PreferredSchedulingTerm.weight": range(1, 101),
    "WeightedPodAffinityTerm.weight": range(1, 101),
    "PodAffinityTerm.namespaces": texts.dns_label,
    "PodAffinityTerm.topologyKey": texts.qualified_name,
    "Toleration.key": texts.qualified_name,
    "Toleration.operator": ("Equal", "Exists"),
    "Toleration.effect": EFFECTS,
    "Toleration.value": texts.label_value,
    "TopologySpreadConstraint.maxSkew": _POSITIVE,
    "TopologySpreadConstraint.minDomains": _POSITIVE,
    "TopologySpreadConstraint.whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    # Volumes
    "Volume.name": texts.dns_label,
    "HostPathVolumeSource.path": _without_parent,
    "HostPathVolumeSource.type": (
        *("BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
    ),
    "NFSVolumeSource.path": _absolute_path,
    "EmptyDirVolumeSource.sizeLimit": _not_negative,
    "ConfigMapVolumeSource.defaultMode": _MODE,
    "SecretVolumeSource.defaultMode": _MODE,
    "DownwardAPIVolumeSource.defaultMode": _MODE,
    "ProjectedVolumeSource.defaultMode": _MODE,
    "KeyToPath.mode": _MODE,
    "KeyToPath.path": _relative_path,
    "DownwardAPIVolumeFile.path": _relative_path,
    "PersistentVolumeClaimSpec.accessModes": ACCESS_MODES,
    "PersistentVolumeClaimSpec.storageClassName": texts.dns_subdomain,
    "PersistentVolumeClaimSpec.volumeMode": ("Filesystem", "Block"),
    "TypedLocalObjectReference.apiGroup": texts.dns_subdomain,
    "TypedObjectReference.apiGroup": texts.dns_subdomain,
    "PersistentVolumeSpec.accessModes": ACCESS_MODES,
    "PersistentVolumeSpec.persistentVolumeReclaimPolicy": ("Retain", "Delete", "Recycle"),
    "PersistentVolumeSpec.volumeMode": ("Filesystem", "Block"),
    "StorageClass.provisioner": _provisioner_name,
    "StorageClass.reclaimPolicy": ("Delete", "Retain"),
    "StorageClass.volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
    # Nodes
    "Taint.key": texts.qualified_name,
    "Taint.value": texts.label_value,
    "Taint.effect": EFFECTS,
    "NodeSpec.podCIDRs": _any_cidr,
    # Networking
    "ServiceSpec.type": ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    "ServiceSpec.sessionAffinity": ("ClientIP", "None"),
    "ServiceSpec.externalIPs": texts.external_address,
    "ServiceSpec.ipFamilies": _FAMILIES,
    "ServiceSpec.ipFamilyPolicy": ("SingleStack", "PreferDualStack", "RequireDualStack"),
    "ServiceSpec.externalTrafficPolicy": _TRAFFIC,
    "ServiceSpec.internalTrafficPolicy": _TRAFFIC,
    "ServicePort.name": texts.dns_label,
    "ServicePort.port": PORT,
    "ServicePort.protocol": _PROTOCOLS,
    "ServicePort.targetPort": _port_reference,
    "EndpointAddress.ip": texts.ip_address,
    "EndpointPort.name": texts.dns_label,
    "EndpointSlice.addressType": ("IPv4", "IPv6", "FQDN"),
    "NetworkPolicySpec.policyTypes": ("Ingress", "Egress"),
    "NetworkPolicyPort.protocol": _PROTOCOLS,
    "NetworkPolicyPort.port": _port_reference,
    "NetworkPolicyPort.endPort": PORT,
    "IPBlock.cidr": cidr,
    "IPBlock.except": cidr,
    # Policies
    "ResourceQuotaSpec.scopes": QUOTA_SCOPES,
    "ScopedResourceSelectorRequirement.scopeName": QUOTA_SCOPES,
    "ScopedResourceSelectorRequirement.operator": ("In", "NotIn", "Exists", "DoesNotExist"),
    "PodDisruptionBudgetSpec.minAvailable": _int_or_percent,
    "PodDisruptionBudgetSpec.maxUnavailable": _int_or_percent,
    "PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy": ("IfHealthyBudget", "AlwaysAllow"),
    "PriorityClass.preemptionPolicy": ("PreemptLowerPriority", "Never"),
    "LeaseSpec.leaseDurationSeconds": _POSITIVE,
    "LeaseSpec.leaseTransitions": _NOT_NEGATIVE,
    # Custom resources
    "CustomResourceDefinitionSpec.scope": ("Cluster", "Namespaced"),
    **{f"CustomResourceDefinitionNames.{name}": texts.dns_1035_label for name in ("plural", "singular")},
    **{f"CustomResourceDefinitionNames.{name}": texts.dns_1035_label for name in ("shortNames", "categories")},
    **{f"CustomResourceDefinitionNames.{name}": _kind_name for name in ("kind", "listKind")},
    "CustomResourceDefinitionVersion.name": texts.dns_1035_label,
    "CustomResourceColumnDefinition.type": ("boolean", "date", "integer", "number", "string"),
    "CustomResourceColumnDefinition.jsonPath": _json_path,
    # Admission policies
    **{f"{kind}AdmissionPolicySpec.failurePolicy": ("Fail", "Ignore") for kind in ("Validating", "Mutating")},
    "MutatingAdmissionPolicySpec.reinvocationPolicy": ("Never", "IfNeeded"),
    "MutatingAdmissionPolicyBindingSpec.policyName": texts.dns_subdomain,
    "ValidatingAdmissionPolicyBindingSpec.policyName": texts.dns_subdomain,
    "ValidatingAdmissionPolicyBindingSpec.validationActions": ("Deny", "Warn", "Audit"),
    "MatchResources.matchPolicy": ("Exact", "Equivalent"),
    "NamedRuleWithOperations.operations": ("*", "CREATE", "UPDATE", "DELETE", "CONNECT"),
    "NamedRuleWithOperations.scope": ("*", "Cluster", "Namespaced"),
    "NamedRuleWithOperations.resourceNames": texts.path_segment,
    "MatchCondition.name": texts.qualified_name,
    "Validation.reason": ("Forbidden", "Invalid", "RequestEntityTooLarge"),
    # Roles
    "Subject.kind": ("ServiceAccount", "User", "Group"),
    # Label selectors
    "LabelSelectorRequirement.key": texts.qualified_name,
    "LabelSelectorRequirement.values": texts.label_value,
}

REQUIRED: dict[str, tuple[str, ...]] = {
    "PodSpec": ("containers",),
    "Container": ("image", "terminationMessagePolicy", "imagePullPolicy"),
    "ContainerPort": ("containerPort", "protocol"),
    "ConfigMapEnvSource": ("name",),
    "SecretEnvSource": ("name",),
    "ConfigMapKeySelector": ("name",),
    "SecretKeySelector": ("name",),
    "ExecAction": ("command",),
    "HTTPGetAction": ("path",),
    "PodDNSConfigOption": ("name",),
    "ConfigMapVolumeSource": ("name",),
    "SecretVolumeSource": ("secretName",),
    "ConfigMapProjection": ("name",),
    "SecretProjection": ("name",),
    "EphemeralVolumeSource": ("volumeClaimTemplate",),
    "TopologySpreadConstraint": ("maxSkew",),
    "PersistentVolumeClaimSpec": ("accessModes",),
    "PersistentVolumeSpec": ("accessModes", "capacity"),
    "NodeSelector": ("nodeSelectorTerms",),
    "PolicyRule": ("verbs",),
    "Endpoint": ("addresses",),
    "ServicePort": ("port",),
    "CustomResourceDefinitionNames": ("singular", "listKind"),
    "ValidatingAdmissionPolicySpec": ("matchConstraints",),
    "MutatingAdmissionPolicySpec": ("matchConstraints", "reinvocationPolicy"),
    "MutatingAdmissionPolicyBindingSpec": ("policyName",),
    "ValidatingAdmissionPolicyBindingSpec": ("policyName", "validationActions"),
    "NamedRuleWithOperations": ("operations", "apiGroups", "apiVersions", "resources"),
}
"""Fields that must be given and not be empty, though OpenAPI does not require them or they are no texts."""

MAY_BE_EMPTY = frozenset({"HTTPHeader.value", "Sysctl.value"})
"""Texts that OpenAPI requires, but that may be empty."""

ONE_OF: dict[str, tuple[str, ...]] = {
    "Volume": (
        *("emptyDir", "hostPath", "configMap", "secret", "persistentVolumeClaim", "projected", "downwardAPI"),
        *("ephemeral", "gitRepo", "image", *(name for name in VOLUME_SOURCES if name not in ("hostPath", "local"))),
    ),
    "VolumeProjection": (
        *("configMap", "secret", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"),
    ),
    "DownwardAPIVolumeFile": ("fieldRef", "resourceFieldRef"),
    "EnvVarSource": ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"),
    "EnvFromSource": ("configMapRef", "secretRef"),
    "Probe": ("exec", "httpGet", "tcpSocket", "grpc"),
    "LifecycleHandler": ("exec", "httpGet", "tcpSocket", "sleep"),
    "PersistentVolumeSpec": VOLUME_SOURCES,
    "PodDisruptionBudgetSpec": ("minAvailable", "maxUnavailable"),
}
"""Fields of which exactly one must be given."""
MAY_HAVE_NONE = frozenset({"VolumeProjection", "PodDisruptionBudgetSpec"})

UNIQUE: dict[str, tuple[str, ...]] = {
    "PodSpec.volumes": ("name",),
    "PodSpec.schedulingGates": ("name",),
    "PodSpec.topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "PodSecurityContext.sysctls": ("name",),
    "Container.volumeMounts": ("mountPath",),
    "Container.ports": ("name",),
    "NodeSpec.taints": ("key", "effect"),
    "NodeStatus.addresses": ("type", "address"),
    "ServiceSpec.ports": ("port", "protocol"),
    "LimitRangeSpec.limits": ("type",),
    "CustomResourceDefinitionSpec.versions": ("name",),
    "ValidatingAdmissionPolicySpec.matchConditions": ("name",),
    "MutatingAdmissionPolicySpec.matchConditions": ("name",),
    "ValidatingAdmissionPolicySpec.auditAnnotations": ("key",),
}
"""Lists with items that must differ in these fields if they have them."""

LABELS = frozenset({"LabelSelector.matchLabels", "PodSpec.nodeSelector", "ServiceSpec.selector"})
"""Maps that hold labels."""

SAME_AS = {"EphemeralContainer": "Container"}
"""Types that have the rules of another one."""
