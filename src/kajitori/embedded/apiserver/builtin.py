"""The built-in kinds: names, subresources and strategies."""

from __future__ import annotations

from functools import partial

from kajitori.embedded.apiserver.kinds import ALL_VERBS, Kind
from kajitori.embedded.apiserver.schemas.models import model_schema
from kajitori.embedded.apiserver.strategies import (
    admission_policies,
    configuration,
    devices,
    events,
    networking,
    nodes,
    pods,
    policies,
    roles,
    storage,
)
from kajitori.embedded.apiserver.strategies.custom_kinds.definitions import DefinitionStrategy
from kajitori.embedded.apiserver.strategies.strategy import Strategy
from kajitori.kube.resources import Resource

_TEMPLATE = ("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate")
_STREAMS = frozenset({"binding", "eviction", "log", "exec", "attach", "portforward"})
_NO_COLLECTION_DELETE = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
_EXTENSIONS = ("api-extensions",)


def _builtin_kind(
    api_version: str,
    plural: str,
    kind: str,
    short_names: str = "",
    strategy: type[Strategy] = Strategy,
    *,
    namespaced: bool = True,
    categories: tuple[str, ...] = (),
    subresources: frozenset[str] = frozenset(),
    verbs: tuple[str, ...] = ALL_VERBS,
    virtual: bool = False,
) -> Kind:
    group, _, version = api_version.rpartition("/")
    module = f"{group.partition('.')[0] or 'core'}_{version}"
    return Kind(
        Resource(group, version, plural, kind, namespaced),
        kind.lower(),
        strategy(partial(model_schema, module, kind)),
        short_names=tuple(short_names.split()),
        categories=categories,
        subresources=subresources | ({"status"} if strategy.has_status else frozenset()),
        verbs=verbs,
        virtual=virtual,
        from_stored=storage.claim_from_store if strategy is storage.ClaimStrategy else None,
    )


def _review(api_version: str, plural: str, kind: str, *, namespaced: bool = False) -> Kind:
    return _builtin_kind(api_version, plural, kind, namespaced=namespaced, verbs=("create",), virtual=True)


def built_in_kinds() -> list[Kind]:
    """Return every built-in kind, in the order of discovery."""
    cluster, everywhere = partial(_builtin_kind, namespaced=False), partial(_builtin_kind, categories=("all",))
    admission = partial(cluster, "admissionregistration.k8s.io/v1", categories=_EXTENSIONS)
    policy, mutating_policy = admission_policies.PolicyStrategy, admission_policies.MutatingPolicyStrategy
    binding, mutating_binding = admission_policies.BindingStrategy, admission_policies.MutatingBindingStrategy
    return [
        _builtin_kind("v1", "configmaps", "ConfigMap", "cm", configuration.ConfigMapStrategy),
        _builtin_kind("v1", "endpoints", "Endpoints", "ep"),
        _builtin_kind("v1", "events", "Event", "ev", events.EventStrategy),
        _builtin_kind("v1", "limitranges", "LimitRange", "limits", policies.LimitRangeStrategy),
        cluster(
            *("v1", "namespaces", "Namespace", "ns", nodes.NamespaceStrategy),
            subresources=frozenset({"finalize"}),
            verbs=_NO_COLLECTION_DELETE,
        ),
        cluster("v1", "nodes", "Node", "no", nodes.NodeStrategy),
        _builtin_kind("v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", storage.ClaimStrategy),
        cluster("v1", "persistentvolumes", "PersistentVolume", "pv", storage.VolumeStrategy),
        everywhere("v1", "pods", "Pod", "po", pods.PodStrategy, subresources=_STREAMS),
        _builtin_kind("v1", "podtemplates", "PodTemplate", "", pods.PodTemplateStrategy),
        _builtin_kind("v1", "resourcequotas", "ResourceQuota", "quota", policies.QuotaStrategy),
        _builtin_kind("v1", "secrets", "Secret", "", configuration.SecretStrategy),
        _builtin_kind("v1", "serviceaccounts", "ServiceAccount", "sa"),
        everywhere("v1", "services", "Service", "svc", networking.ServiceStrategy),
        _review("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview"),
        _review("authentication.k8s.io/v1", "tokenreviews", "TokenReview"),
        _review("authorization.k8s.io/v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
        _review("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        _review("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        _review("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview"),
        _builtin_kind(
            "networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "netpol", networking.NetworkPolicyStrategy
        ),
        _builtin_kind(
            "policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", policies.DisruptionBudgetStrategy
        ),
        cluster("resource.k8s.io/v1", "deviceclasses", "DeviceClass", "", devices.GenerationStrategy),
        _builtin_kind("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", "", devices.ClaimStrategy),
        _builtin_kind(*_TEMPLATE, "", devices.ClaimTemplateStrategy),
        cluster("resource.k8s.io/v1", "resourceslices", "ResourceSlice", "", devices.GenerationStrategy),
        cluster("storage.k8s.io/v1", "storageclasses", "StorageClass", "sc", storage.StorageClassStrategy),
        admission("validatingadmissionpolicies", "ValidatingAdmissionPolicy", "", policy),
        admission("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", "", binding),
        admission("mutatingadmissionpolicies", "MutatingAdmissionPolicy", "", mutating_policy),
        admission("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", "", mutating_binding),
        cluster(
            *("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", "crd crds"),
            strategy=DefinitionStrategy,
            categories=_EXTENSIONS,
        ),
        cluster("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "pc", policies.PriorityClassStrategy),
        _builtin_kind("coordination.k8s.io/v1", "leases", "Lease", "", policies.LeaseStrategy),
        _builtin_kind("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", "", networking.EndpointSliceStrategy),
    ]


def role_kinds() -> list[Kind]:
    """Return the kinds of role-based access control, which are served only if roles decide what users may do."""
    group, binding, role = "rbac.authorization.k8s.io/v1", roles.RoleBindingStrategy, roles.RoleStrategy
    return [
        _builtin_kind(group, "clusterrolebindings", "ClusterRoleBinding", strategy=binding, namespaced=False),
        _builtin_kind(group, "clusterroles", "ClusterRole", strategy=role, namespaced=False),
        _builtin_kind(group, "rolebindings", "RoleBinding", strategy=binding),
        _builtin_kind(group, "roles", "Role", strategy=role),
    ]
