"""The built-in kinds: names, subresources and strategies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kajitori.embedded.apiserver.kinds import ALL_VERBS, Kind
from kajitori.embedded.apiserver.schemas.models import model_schema
from kajitori.embedded.apiserver.schemas.schema import Schema
from kajitori.embedded.apiserver.strategies import (
    admission_policies,
    configuration,
    events,
    namespaces,
    networking,
    nodes,
    pods,
    policies,
    roles,
    services,
    storage,
)
from kajitori.embedded.apiserver.strategies.definitions import DefinitionStrategy
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy
from kajitori.kube.resources import Resource

_STATUS = frozenset({"status"})
_POD_SUBRESOURCES = frozenset({"status", "binding", "eviction", "log", "exec", "attach", "portforward"})
_NO_COLLECTION_DELETE = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")


def _schema(module: str, kind: str) -> Callable[[], Schema]:
    return partial(model_schema, module, kind)


def _kind(
    api_version: str,
    plural: str,
    kind: str,
    strategy: Strategy,
    *,
    namespaced: bool = True,
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    subresources: frozenset[str] = frozenset(),
    verbs: tuple[str, ...] = ALL_VERBS,
    singular: str = "",
    from_stored: Callable[[Object], Object] | None = None,
) -> Kind:
    group, _, version = api_version.rpartition("/")
    module = f"{group.partition('.')[0] or 'core'}_{version}"
    return Kind(
        Resource(group, version, plural, kind, namespaced),
        singular or kind.lower(),
        strategy,
        _schema(module, kind),
        short_names=short,
        categories=categories,
        subresources=subresources,
        verbs=verbs,
        from_stored=from_stored,
    )


def _review(group: str, plural: str, kind: str, *, namespaced: bool = False) -> Kind:
    return Kind(
        Resource(group, "v1", plural, kind, namespaced),
        kind.lower(),
        Strategy(),
        _schema(f"{group.partition('.')[0]}_v1", kind),
        verbs=("create",),
        virtual=True,
    )


def built_in_kinds() -> list[Kind]:
    """Return every built-in kind, in the order of discovery."""
    event = _kind("v1", "events", "Event", events.EventStrategy(), short=("ev",))
    return [
        _kind("v1", "configmaps", "ConfigMap", configuration.ConfigMapStrategy(), short=("cm",)),
        _kind("v1", "endpoints", "Endpoints", services.EndpointsStrategy(), short=("ep",)),
        event,
        _kind("v1", "limitranges", "LimitRange", policies.LimitRangeStrategy(), short=("limits",)),
        _kind(
            "v1",
            "namespaces",
            "Namespace",
            namespaces.NamespaceStrategy(),
            namespaced=False,
            short=("ns",),
            subresources=frozenset({"status", "finalize"}),
            verbs=_NO_COLLECTION_DELETE,
        ),
        _kind("v1", "nodes", "Node", nodes.NodeStrategy(), namespaced=False, short=("no",), subresources=_STATUS),
        _kind(
            "v1",
            "persistentvolumeclaims",
            "PersistentVolumeClaim",
            storage.ClaimStrategy(),
            short=("pvc",),
            subresources=_STATUS,
            from_stored=storage.claim_from_store,
        ),
        _kind(
            "v1",
            "persistentvolumes",
            "PersistentVolume",
            storage.VolumeStrategy(),
            namespaced=False,
            short=("pv",),
            subresources=_STATUS,
        ),
        _kind(
            "v1",
            "pods",
            "Pod",
            pods.PodStrategy(),
            short=("po",),
            categories=("all",),
            subresources=_POD_SUBRESOURCES,
        ),
        _kind("v1", "podtemplates", "PodTemplate", pods.PodTemplateStrategy()),
        _kind(
            "v1",
            "resourcequotas",
            "ResourceQuota",
            policies.QuotaStrategy(),
            short=("quota",),
            subresources=_STATUS,
        ),
        _kind("v1", "secrets", "Secret", configuration.SecretStrategy()),
        _kind("v1", "serviceaccounts", "ServiceAccount", configuration.ServiceAccountStrategy(), short=("sa",)),
        _kind(
            "v1",
            "services",
            "Service",
            services.ServiceStrategy(),
            short=("svc",),
            categories=("all",),
            subresources=_STATUS,
        ),
        _events_group(event),
        _review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
        _review("authentication.k8s.io", "tokenreviews", "TokenReview"),
        _review("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
        _review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        _review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        _review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
        _kind(
            "networking.k8s.io/v1",
            "networkpolicies",
            "NetworkPolicy",
            networking.NetworkPolicyStrategy(),
            short=("netpol",),
            singular="networkpolicy",
        ),
        _kind(
            "policy/v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            policies.DisruptionBudgetStrategy(),
            short=("pdb",),
            subresources=_STATUS,
        ),
        _kind(
            "storage.k8s.io/v1",
            "storageclasses",
            "StorageClass",
            storage.StorageClassStrategy(),
            namespaced=False,
            short=("sc",),
        ),
        _kind(
            "admissionregistration.k8s.io/v1",
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            admission_policies.PolicyStrategy(),
            namespaced=False,
            categories=("api-extensions",),
            subresources=_STATUS,
        ),
        _kind(
            "admissionregistration.k8s.io/v1",
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            admission_policies.BindingStrategy(),
            namespaced=False,
            categories=("api-extensions",),
        ),
        _kind(
            "admissionregistration.k8s.io/v1",
            "mutatingadmissionpolicies",
            "MutatingAdmissionPolicy",
            admission_policies.MutatingPolicyStrategy(),
            namespaced=False,
            categories=("api-extensions",),
        ),
        _kind(
            "admissionregistration.k8s.io/v1",
            "mutatingadmissionpolicybindings",
            "MutatingAdmissionPolicyBinding",
            admission_policies.MutatingBindingStrategy(),
            namespaced=False,
            categories=("api-extensions",),
        ),
        _kind(
            "apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            DefinitionStrategy(),
            namespaced=False,
            short=("crd", "crds"),
            categories=("api-extensions",),
            subresources=_STATUS,
        ),
        _kind(
            "scheduling.k8s.io/v1",
            "priorityclasses",
            "PriorityClass",
            policies.PriorityClassStrategy(),
            namespaced=False,
            short=("pc",),
        ),
        _kind("coordination.k8s.io/v1", "leases", "Lease", policies.LeaseStrategy()),
        _kind("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", services.EndpointSliceStrategy()),
    ]


def role_kinds() -> list[Kind]:
    """Return the kinds of role-based access control, which are served only if roles decide what users may do."""
    group = "rbac.authorization.k8s.io/v1"
    binding, role = roles.RoleBindingStrategy, roles.RoleStrategy
    return [
        _kind(group, "clusterrolebindings", "ClusterRoleBinding", binding(namespaced=False), namespaced=False),
        _kind(group, "clusterroles", "ClusterRole", role(namespaced=False), namespaced=False),
        _kind(group, "rolebindings", "RoleBinding", binding(namespaced=True)),
        _kind(group, "roles", "Role", role(namespaced=True)),
    ]


def _events_group(stored: Kind) -> Kind:
    """Return the Event of events.k8s.io, which shows the same stored objects as the Event of the core group."""
    return Kind(
        Resource("events.k8s.io", "v1", "events", "Event"),
        "event",
        events.NewEventStrategy(),
        _schema("events_v1", "Event"),
        short_names=("ev",),
        storage=stored.resource,
        to_stored=events.to_core,
        from_stored=events.from_core,
    )
