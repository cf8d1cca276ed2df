"""Admission policies for Pods that people create without Kajitori, as objects that the API server evaluates itself.

ValidatingAdmissionPolicies refuse Pods that break a rule of `rules`, and warn about templates (Deployments, Jobs) if
their Pods would be refused. A MutatingAdmissionPolicy (Kubernetes 1.36) fills in the policy's defaults before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kajitori.core.admission.member_policy import IS_CONTROLLER
from kajitori.core.admission.plain_pods.expressions import cel, regex_of
from kajitori.core.admission.plain_pods.pod_view import VARIABLES, wants_gpus
from kajitori.core.admission.plain_pods.rules import DAEMON_SET_CONTROLLERS, Circumstances, Rule, rules_of
from kajitori.core.admission.policy_objects import Manifest, admission_policy, policy_binding
from kajitori.core.formats.quantities import format_memory
from kajitori.core.naming import names
from kajitori.core.policy.model import Policy

PODS = "kajitori-pods"
"""Name of the policies about Pods, and of their bindings."""
TEMPLATES = "kajitori-pod-templates"
"""Name of the policy about objects with a Pod template."""
CRON_JOBS = "kajitori-cron-jobs"
"""Name of the policy about CronJobs. Their Pod template is one level deeper than that of other objects."""
DEFAULTS = "kajitori-pod-defaults"
"""Name of the policy that fills in defaults."""

POD_POLICIES = (
    *(("ValidatingAdmissionPolicyBinding", name) for name in (PODS, TEMPLATES, CRON_JOBS)),
    *(("ValidatingAdmissionPolicy", name) for name in (PODS, TEMPLATES, CRON_JOBS)),
    ("MutatingAdmissionPolicyBinding", DEFAULTS),
    ("MutatingAdmissionPolicy", DEFAULTS),
)
"""Kinds and names of all objects that `pod_policies` may return, each binding before its policy."""

_LABELS = {"app.kubernetes.io/component": "pod-rules"}
_MAX_ITEMS = 32
"""Number of containers, or of alternatives in a node affinity, that are completed. A Pod with more has to be complete,
or it is refused."""


@dataclass(frozen=True, slots=True)
class _Target:
    """Objects that contain the spec of a Pod."""

    name: str
    spec: str
    """CEL path of the spec."""
    old_spec: str
    resources: tuple[tuple[str, tuple[str, ...]], ...]
    """API groups, each with its resources."""
    from_daemon_set: str


_OF_DAEMON_SET = (
    f"request.userInfo.username in {cel(list(DAEMON_SET_CONTROLLERS))}"
    " && object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet')"
)
_PODS = _Target(
    PODS,
    "object.spec",
    "oldObject.spec",
    (("", ("pods", "pods/ephemeralcontainers", "pods/resize")),),
    _OF_DAEMON_SET,
)
_TEMPLATES = _Target(
    TEMPLATES,
    "object.spec.template.spec",
    "oldObject.spec.template.spec",
    (("apps", ("deployments", "statefulsets", "daemonsets")), ("batch", ("jobs",))),
    "object.kind == 'DaemonSet'",
)
_CRON_JOBS = _Target(
    CRON_JOBS,
    "object.spec.jobTemplate.spec.template.spec",
    "oldObject.spec.jobTemplate.spec.template.spec",
    (("batch", ("cronjobs",)),),
    "false",
)


def pod_policies(policy: Policy, circumstances: Circumstances) -> list[Manifest]:
    """Return all objects that enforce the rules for Pods; none if the rules apply nowhere.

    With `circumstances.is_completed` they include the MutatingAdmissionPolicy, which Kubernetes has since 1.36.
    """
    if not policy.pods.namespaces:
        return []
    as_written = replace(circumstances, is_completed=False)
    deny = "Deny" if policy.pods.action == "refuse" else "Warn"
    objects: list[Manifest] = []
    for target, rules, action in (
        (_PODS, rules_of(policy, circumstances), deny),
        (_TEMPLATES, rules_of(policy, as_written), "Warn"),
        (_CRON_JOBS, rules_of(policy, as_written), "Warn"),
    ):
        if rules:
            objects += [
                _validating_policy(policy, target, rules),
                policy_binding("Validating", target.name, action, _LABELS),
            ]
    mutations = mutations_of(policy, circumstances) if circumstances.is_completed else []
    if mutations:
        objects += [_mutating_policy(policy, mutations), policy_binding("Mutating", DEFAULTS, labels=_LABELS)]
    return objects


def mutations_of(policy: Policy, circumstances: Circumstances) -> list[str]:
    """Return expressions in CEL, each of which makes a JSON patch that fills in a default of the policy."""
    chosen, found = set(policy.pods.rules), []
    if "memoryLimit" in chosen and policy.memory_without_limit == "default":
        amount = cel(format_memory(policy.defaults.memory_bytes))
        found += [_default_memory(part, amount) for part in ("containers", "initContainers")]
    allowed = policy.gpu.cpu_runs_on_gpu_nodes
    stay_off = allowed == "never" or (allowed == "whenNoOthers" and circumstances.has_cpu_nodes)
    if "gpuNodes" in chosen and stay_off:
        found.append(_keep_off_gpu_nodes(policy))
    if "nodeSelector" in chosen and policy.inject.node_selector:
        found.append(_default_node_selector(policy))
    return found


# ------------------------------------------------------------------------------------------ validation


def _validating_policy(policy: Policy, target: _Target, rules: Sequence[Rule]) -> Manifest:
    """Return the policy for one kind of object. All faults are in one message, since the API server reports only the
    first rule that fails."""
    variables = [{"name": "spec", "expression": target.spec}, *_shared_variables(target)]
    variables += [{"name": rule.name, "expression": rule.expression} for rule in rules]
    faults = " + ".join(f"variables.{rule.name}" for rule in rules)
    variables.append({"name": "faults", "expression": faults})
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": _resource_rules(target, ["CREATE", "UPDATE"])},
        "matchConditions": [
            {"name": "namespace", "expression": _namespaces(policy)},
            *_no_readers(target),
            {
                "name": "changed",
                "expression": f"request.operation == 'CREATE' || {target.spec} != {target.old_spec}",
            },
        ],
        "variables": variables,
        "validations": [
            {
                "expression": "size(variables.faults) == 0",
                "messageExpression": "variables.faults.join('; ')",
                "message": "the cluster's policy refuses this Pod",
                "reason": "Forbidden",
            }
        ],
    }
    return admission_policy("Validating", target.name, spec, _LABELS)


def _shared_variables(target: _Target) -> list[dict[str, str]]:
    values = [("fromDaemonSet", target.from_daemon_set), *VARIABLES]
    return [{"name": name, "expression": expression} for name, expression in values]


# ------------------------------------------------------------------------------------------ defaults


def _mutating_policy(policy: Policy, mutations: Sequence[str]) -> Manifest:
    variables = [{"name": "spec", "expression": "object.spec"}, *_shared_variables(_PODS)]
    target = replace(_PODS, resources=(("", ("pods",)),))
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": _resource_rules(target, ["CREATE"])},
        "matchConditions": [{"name": "namespace", "expression": _namespaces(policy)}, *_no_readers(target)],
        "variables": variables,
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}} for expression in mutations],
    }
    return admission_policy("Mutating", DEFAULTS, spec, _LABELS)


def _default_memory(part: str, amount: str) -> str:
    """Return the patches that give containers without a memory limit this one, or their request if that is larger."""
    of = f"object.spec.?{part}.orValue([])"
    path = f"'/spec/{part}/' + string(i) + '/resources"
    limited = f"{of}[i].?resources.?limits[?'memory'].hasValue()"
    request = f"string({of}[i].?resources.?requests[?'memory'].orValue('0'))"
    value = f"quantity({request}).isGreaterThan(quantity({amount})) ? {request} : {amount}"
    by_pod = "object.spec.?resources.?limits[?'memory'].hasValue()"
    return f"{by_pod} ? [] : " + " + ".join(
        _for_each(of, wanted, f"JSONPatch{{op: 'add', path: {path}{tail}', value: {new}}}")
        for wanted, tail, new in (
            (f"!has({of}[i].resources)", "", "{}"),
            (f"!{of}[i].?resources.?limits.hasValue()", "/limits", "{}"),
            (f"!{limited}", "/limits/memory", f"({value})"),
        )
    )


def _keep_off_gpu_nodes(policy: Policy) -> str:
    """Return the patches that add to each alternative of the required node affinity that labels of GPUs are absent."""
    affinity = "object.spec.?affinity"
    required = f"{affinity}.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution"
    terms = f"{required}.?nodeSelectorTerms.orValue([])"
    path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
    absent = [f"{{'key': {cel(label)}, 'operator': 'DoesNotExist'}}" for label in policy.gpu.type_labels]
    parts = [
        f"({affinity}.hasValue() ? [] : {_add_patch('/spec/affinity', '{}')})",
        f"({affinity}.?nodeAffinity.hasValue() ? [] : {_add_patch('/spec/affinity/nodeAffinity', '{}')})",
        f"({required}.hasValue() ? [] : "
        + _add_patch(path, f"{{'nodeSelectorTerms': [{{'matchExpressions': [{', '.join(absent)}]}}]}}")
        + ")",
    ]
    term = f"'{path}/nodeSelectorTerms/' + string(i) + '/matchExpressions"
    parts.append(
        _for_each(terms, f"!has({terms}[i].matchExpressions)", f"JSONPatch{{op: 'add', path: {term}', value: []}}")
    )
    for label, new in zip(policy.gpu.type_labels, absent, strict=True):
        present = (
            f"{terms}[i].?matchExpressions.orValue([]).exists(e, e.key == {cel(label)} && e.operator == 'DoesNotExist')"
        )
        parts.append(_for_each(terms, f"!{present}", f"JSONPatch{{op: 'add', path: {term}/-', value: {new}}}"))
    return f"variables.fromDaemonSet || {wants_gpus(policy)} ? [] : {' + '.join(parts)}"


def _default_node_selector(policy: Policy) -> str:
    parts = [f"(has(object.spec.nodeSelector) ? [] : {_add_patch('/spec/nodeSelector', '{}')})"]
    for key, value in policy.inject.node_selector.items():
        escaped = key.replace("~", "~0").replace("/", "~1")
        present = f"object.spec.?nodeSelector[?{cel(key)}].hasValue()"
        parts.append(f"({present} ? [] : {_add_patch(f'/spec/nodeSelector/{escaped}', cel(value))})")
    return f"variables.fromDaemonSet ? [] : {' + '.join(parts)}"


def _add_patch(path: str, value: str) -> str:
    return f"[JSONPatch{{op: 'add', path: {cel(path)}, value: {value}}}]"


def _for_each(of: str, wanted: str, patch: str) -> str:
    """Return patches for the items `i` of a list for which `wanted` holds. CEL can only count by listing numbers."""
    numbers = f"[{', '.join(map(str, range(_MAX_ITEMS)))}]"
    return f"{numbers}.filter(i, i < size({of}) && {wanted}).map(i, {patch})"


# ------------------------------------------------------------------------------------------ which objects


def _resource_rules(target: _Target, operations: list[str]) -> list[Manifest]:
    return [
        {"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": list(resources)}
        for group, resources in target.resources
    ]


def _no_readers(target: _Target) -> list[Manifest]:
    """Return the condition that exempts Pods by which a controller of Kajitori reads checkpoint folders
    (`core.pods.reader`): such a folder may be on a node with GPUs."""
    if target.name != PODS:
        return []
    is_labelled = f"{cel(names.LABEL_READER)} in object.metadata.?labels.orValue({{}})"
    return [{"name": "no-reader", "expression": f"!({is_labelled} && {IS_CONTROLLER})"}]


def _namespaces(policy: Policy) -> str:
    rules = policy.pods
    expression = f"request.namespace.matches({cel(_one_of(rules.namespaces))})"
    if rules.except_namespaces:
        expression += f" && !request.namespace.matches({cel(_one_of(rules.except_namespaces))})"
    return expression


def _one_of(patterns: Sequence[str]) -> str:
    return f"^({'|'.join(map(regex_of, patterns))})$"
