"""Rules for Pods that people create without Kajitori: they demand of every Pod what the policy demands of members.

Each rule exists twice: as an expression in CEL, which the API server evaluates in an admission policy (`policies`),
and as a function, which checks manifests and running Pods. Both return the same messages; a property test compares
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kajitori.core.admission.plain_pods.expressions import (
    IMAGE_IN_FULL,
    ODD_IMAGE,
    PLAIN_IMAGE,
    any_image_of,
    cel,
    is_plain_image,
    regex_of,
)
from kajitori.core.admission.plain_pods.pod_view import (
    IS_PINNED,
    REQUIRED,
    Object,
    PodView,
    asks_for_gpus,
    asks_for_whole_gpus,
    avoids,
    is_pinned,
    limit_of,
    request_of,
    security_of,
    wants_gpus,
    wants_whole_gpus,
)
from kajitori.core.formats.quantities import (
    QuantityError,
    format_cores,
    memory_there,
    parse_cpu_millis,
    parse_memory_bytes,
)
from kajitori.core.policy.model import Policy
from kajitori.core.policy.pods import PodRule

DAEMON_SET_CONTROLLERS = (
    "system:serviceaccount:kube-system:daemon-set-controller",
    "system:kube-controller-manager",
)
"""Users that create the Pods of DaemonSets: kube-controller-manager, with and without an account per controller."""

_PASSING_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of nodes that do not answer. The API server makes each Pod tolerate them (NoExecute) for some time."""

_MEMORY_PRESSURE = "node.kubernetes.io/memory-pressure"
"""Taint that Kubernetes makes Pods with memory requests tolerate."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The inputs of the rules besides the policy."""

    has_cpu_nodes: bool = True
    """Whether the cluster has nodes without GPUs."""
    is_completed: bool = False
    """Whether the API server has filled in the policy's defaults (`policies.mutations_of`) before the rules apply."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A demand on Pods. Both forms return a list of messages, which is empty for a Pod that meets the demand."""

    name: PodRule
    expression: str
    """CEL with `variables` as in `VARIABLES`."""
    check: Callable[[PodView], Iterator[str]] = field(repr=False)


def rules_of(policy: Policy, circumstances: Circumstances) -> list[Rule]:
    """Return the rules that the policy demands, in the order of their names in `PodRules`."""
    chosen = set(policy.pods.rules)
    return [
        Rule(name, _with_reason(expression, reason), _check_with_reason(check, reason))
        for name, make in _MAKERS.items()
        if name in chosen and (made := make(policy, circumstances)) is not None
        for expression, check in (made,)
        for reason in (_reason(name, policy.pods.reasons.get(name, "")),)
    ]


def faults_of(pod: PodView, rules: Sequence[Rule]) -> list[tuple[PodRule, str]]:
    """Return the rules that a Pod breaks, each with a message."""
    return [(rule.name, message) for rule in rules for message in rule.check(pod)]


def applies_in(policy: Policy, namespace: str) -> bool:
    """Return whether the rules apply to Pods of this namespace."""
    rules = policy.pods
    return any(fnmatchcase(namespace, pattern) for pattern in rules.namespaces) and not any(
        fnmatchcase(namespace, pattern) for pattern in rules.except_namespaces
    )


# ------------------------------------------------------------------------------------------ the rules

_Check = Callable[[PodView], Iterator[str]]
_Made = tuple[str, _Check] | None
"""A rule's expression and its function; None if the policy demands nothing."""


def _memory_limit(policy: Policy, circumstances: Circumstances) -> _Made:
    if policy.memory_without_limit == "unlimited":
        return None
    if policy.memory_without_limit == "default" and not circumstances.is_completed:
        return None
    tail = " has no memory limit: set resources.limits.memory"
    return _of_containers(
        "containers",
        "!c.?resources.?limits[?'memory'].hasValue()",
        lambda c: limit_of(c, "memory") is None,
        tail,
        unless=(
            "variables.spec.?resources.?limits[?'memory'].hasValue()",
            lambda pod: limit_of(pod.spec, "memory") is not None,
        ),
    )


def _gpu_nodes(policy: Policy, circumstances: Circumstances) -> _Made:
    allowed = policy.gpu.cpu_runs_on_gpu_nodes
    if allowed == "always" or (allowed == "whenNoOthers" and not circumstances.has_cpu_nodes):
        return None
    taints = sorted({toleration.key for toleration in policy.gpu.tolerations if toleration.key})
    labels = policy.gpu.type_labels
    tolerates = "a Pod without GPUs may not tolerate the taints of nodes with GPUs: leave out the toleration of "
    selects = "a Pod without GPUs may not select nodes with GPUs: leave out the node label "
    stays = f"a Pod without GPUs has to stay off nodes with GPUs: require that they lack the label {labels[0]}"
    parts = [
        f"variables.spec.?tolerations.orValue([]).filter(t, t.?key.orValue('') in {cel(['', *taints])}"
        f" && t.?effect.orValue('') != 'NoExecute')"
        f".map(t, {cel(tolerates)} + (t.?key.orValue('') == '' ? 'all taints' : t.key))",
        f"{cel(labels)}.filter(l, variables.spec.?nodeSelector[?l].hasValue()).map(l, {cel(selects)} + l)",
    ]
    if circumstances.is_completed:
        terms = f"variables.spec.?affinity.?nodeAffinity.?{REQUIRED}"
        absent = "e.key == l && e.operator == 'DoesNotExist'"
        each = f"{cel(labels)}.all(l, t.?matchExpressions.orValue([]).exists(e, {absent}))"
        off = f"{terms}.?nodeSelectorTerms.hasValue() && {terms}.?nodeSelectorTerms.orValue([]).all(t, {each})"
        parts.append(f"({off} ? [] : [{cel(stays)}])")
    exempt = f"variables.fromDaemonSet || {wants_gpus(policy)}"

    def check(pod: PodView) -> Iterator[str]:
        if pod.from_daemon_set or asks_for_gpus(pod, policy):
            return
        for toleration in pod.spec.get("tolerations") or ():
            key = toleration.get("key") or ""
            if key in ("", *taints) and toleration.get("effect") != "NoExecute":
                yield tolerates + (key or "all taints")
        for label in labels:
            if label in (pod.spec.get("nodeSelector") or {}):
                yield selects + label
        if circumstances.is_completed and not avoids(pod, labels):
            yield stays

    return f"{exempt} ? [] : {' + '.join(parts)}", check


def _gpu_type(policy: Policy, _: Circumstances) -> _Made:
    labels = policy.gpu.type_labels
    message = f"a Pod with GPUs has to name their type: set nodeSelector with {labels[0]}"
    selected = f"{cel(labels)}.exists(l, variables.spec.?nodeSelector[?l].hasValue()) || {IS_PINNED}"

    def check(pod: PodView) -> Iterator[str]:
        if not asks_for_whole_gpus(pod, policy) or is_pinned(pod):
            return
        if not any(label in (pod.spec.get("nodeSelector") or {}) for label in labels):
            yield message

    return f"!{wants_whole_gpus(policy)} || {selected} ? [] : [{cel(message)}]", check


def _images(policy: Policy, _: Circumstances) -> _Made:
    images = policy.images
    if not images.allow and not images.deny:
        return None
    own = sorted({image for image in (policy.start.image, policy.preflight.image) if image})
    tests = [f"!c.image.matches({cel(PLAIN_IMAGE)})", f"c.image.matches({cel(ODD_IMAGE)})"]
    if images.allow:
        tests.append(f"![{IMAGE_IN_FULL}].exists(i, i.matches({cel(any_image_of(images.allow))}))")
    if images.deny:
        forms = f"[{IMAGE_IN_FULL}].map(i, i.matches(':[^/@]*@') ? i.split('@')[0] : i) + [{IMAGE_IN_FULL}]"
        tests.append(f"({forms}).exists(i, i.matches({cel(any_image_of(images.deny))}))")
    shown = f" (allowed: {', '.join(images.allow[:5])})" if images.allow else ""
    tail = f" has an image that may not run, or whose name is not written in the usual way{shown}"

    def refused(container: Object) -> bool:
        image = str(container.get("image") or "")
        return image not in own and (not is_plain_image(image) or bool(images.refusal(image)))

    return _of_containers("all", f"!(c.image in {cel(own)}) && ({' || '.join(tests)})", refused, tail)


def _ceilings(policy: Policy, _: Circumstances) -> _Made:
    most = policy.ceilings.member
    wanted: list[tuple[str, float, str, Callable[[str], float]]] = []
    if most.memory_bytes is not None:
        wanted.append(("memory", most.memory_bytes, memory_there(most.memory_bytes), parse_memory_bytes))
    if most.cpu_millis is not None:
        shown = format_cores(most.cpu_millis)
        wanted.append(("cpu", most.cpu_millis / 1000, shown, _cores))
    if most.gpus is not None:
        wanted.append((policy.gpu.resource, most.gpus, str(most.gpus), parse_memory_bytes))
    if not wanted:
        return None
    messages = {
        name: f"its containers may use or reserve more {name} together than the ceiling of {shown}"
        for name, _, shown, _ in wanted
    }
    parts = []
    for name, limit, _shown, _parse in wanted:
        limits, requests = f"?resources.?limits[?{cel(name)}]", f"?resources.?requests[?{cel(name)}]"
        asked = _number(f"c.{limits}.orValue(c.{requests}.orValue('0'))")
        at_once = f"variables.concurrent.map(c, {asked}).sum() > {float(limit)!r}"
        in_a_step = f"variables.spec.?initContainers.orValue([]).exists(c, {asked} > {float(limit)!r})"
        reserved = f"{_number(f'variables.spec.{requests}.orValue(0)')} > {float(limit)!r}"
        whole = f"{_number(f'variables.spec.{limits}.orValue(0)')} > {float(limit)!r}"
        above = f"variables.spec.{limits}.hasValue() ? {whole} : {at_once} || {in_a_step} || {reserved}"
        parts.append(f"(({above}) ? [{cel(messages[name])}] : [])")

    def check(pod: PodView) -> Iterator[str]:
        for name, limit, _shown, parse in wanted:
            try:
                most = _most(pod, name, parse)
            except QuantityError:  # no number, or a larger amount than any cluster has
                most = math.inf
            if most > limit:
                yield messages[name]

    return " + ".join(parts), check


def _most(pod: PodView, name: str, parse: Callable[[str], float]) -> float:
    """Return the amount of a resource that counts against a ceiling: the limit of the whole Pod, or else the largest of
    what its containers ask for together, what one init container asks for, and the request of the whole Pod. A
    container without a limit counts with its request."""
    whole = limit_of(pod.spec, name)
    if whole is not None:
        return parse(str(whole))

    def asked(container: Object) -> float:
        limit = limit_of(container, name)
        return parse(str(request_of(container, name) or "0" if limit is None else limit))

    steps = map(asked, pod.spec.get("initContainers") or ())
    return max(sum(map(asked, pod.concurrent)), parse(str(request_of(pod.spec, name) or "0")), *steps)


def _privileged(policy: Policy, _: Circumstances) -> _Made:
    if policy.security.allow_privileged:
        return None
    return _of_containers(
        "all",
        "c.?securityContext.?privileged.orValue(false)",
        lambda c: bool(security_of(c).get("privileged")),
        " is privileged: leave out securityContext.privileged",
    )


def _privilege_escalation(policy: Policy, _: Circumstances) -> _Made:
    if policy.security.allow_privilege_escalation:
        return None
    return _of_containers(
        "all",
        "c.?securityContext.?allowPrivilegeEscalation.orValue(true)",
        lambda c: security_of(c).get("allowPrivilegeEscalation") in (None, True),
        " may gain privileges: set securityContext.allowPrivilegeEscalation to false",
    )


def _host_namespaces(policy: Policy, _: Circumstances) -> _Made:
    fields = ["hostPID", "hostIPC", *(() if policy.security.allow_host_network else ("hostNetwork",))]
    what = {"hostPID": "process IDs", "hostIPC": "shared memory", "hostNetwork": "network"}
    messages = {name: f"a Pod may not use the {what[name]} of its node: leave out {name}" for name in fields}
    parts = [f"(variables.spec.?{name}.orValue(false) ? [{cel(messages[name])}] : [])" for name in fields]

    def check(pod: PodView) -> Iterator[str]:
        yield from (messages[name] for name in fields if pod.spec.get(name))

    return " + ".join(parts), check


def _host_folders(policy: Policy, _: Circumstances) -> _Made:
    offered = (volume.host_path for volume in policy.volumes.values() if volume.host_path is not None)
    checkpoints = (policy.checkpoint.root,) if policy.checkpoint.kind == "folder" and policy.checkpoint.root else ()
    allowed = sorted({path.rstrip("/") for path in (*policy.mounts.host_paths, *offered, *checkpoints)})
    head, tail = "a Pod may not mount the folder ", f" of its node (allowed: {', '.join(allowed[:5]) or 'none'})"
    within = f"{cel(allowed)}.exists(p, v.hostPath.path == p || v.hostPath.path.startsWith(p + '/'))"
    expression = (
        f"variables.spec.?volumes.orValue([]).filter(v, has(v.hostPath) && !{within})"
        f".map(v, {cel(head)} + v.hostPath.path + {cel(tail)})"
    )

    def check(pod: PodView) -> Iterator[str]:
        for volume in pod.spec.get("volumes") or ():
            path = (volume.get("hostPath") or {}).get("path")
            if path is not None and not any(path == root or path.startswith(f"{root}/") for root in allowed):
                yield head + path + tail

    return expression, check


def _capabilities(policy: Policy, _: Circumstances) -> _Made:
    if policy.security.allow_privileged:
        return None
    allowed = sorted(policy.security.add_capabilities)
    return _of_containers(
        "all",
        f"c.?securityContext.?capabilities.?add.orValue([]).exists(a, !(a in {cel(allowed)}))",
        lambda c: any(name not in allowed for name in (security_of(c).get("capabilities") or {}).get("add") or ()),
        f" adds capabilities (allowed: {', '.join(allowed) or 'none'})",
    )


def _tolerations(policy: Policy, _: Circumstances) -> _Made:
    refused = policy.security.refuse_tolerations
    if not refused:
        return None
    injected = [toleration.key for toleration in policy.inject.tolerations]
    pattern = f"^({'|'.join(regex_of(pattern) for pattern in refused)})$"
    head = "a Pod may not tolerate "
    key = "t.?key.orValue('')"
    harmless = (
        f"({key} in {cel([*injected, _MEMORY_PRESSURE])}"
        f" || ({key} in {cel(list(_PASSING_TAINTS))} && t.?effect.orValue('') == 'NoExecute'))"
    )
    expression = (
        f"variables.fromDaemonSet ? [] : variables.spec.?tolerations.orValue([])"
        f".filter(t, !{harmless} && ({key} == '' || {key}.matches({cel(pattern)})))"
        f".map(t, {cel(head)} + ({key} == '' ? 'all taints' : 'the taint ' + {key}))"
    )

    def check(pod: PodView) -> Iterator[str]:
        for toleration in () if pod.from_daemon_set else pod.spec.get("tolerations") or ():
            name = toleration.get("key") or ""
            if name in (*injected, _MEMORY_PRESSURE):
                continue
            if name in _PASSING_TAINTS and toleration.get("effect") == "NoExecute":
                continue
            if not name or any(fnmatchcase(name, pattern) for pattern in refused):
                yield head + (f"the taint {name}" if name else "all taints")

    return expression, check


def _node_selector(policy: Policy, circumstances: Circumstances) -> _Made:
    wanted = policy.inject.node_selector
    if not wanted:
        return None
    messages = {
        key: f"all Pods run on nodes with {key}={value}: set it in nodeSelector" for key, value in wanted.items()
    }
    parts = []
    for key, value in wanted.items():
        without = "''" if circumstances.is_completed else cel(value)
        chosen = f"variables.spec.?nodeSelector[?{cel(key)}].orValue({without})"
        parts.append(f"({chosen} == {cel(value)} ? [] : [{cel(messages[key])}])")

    def check(pod: PodView) -> Iterator[str]:
        for key, value in wanted.items():
            without = "" if circumstances.is_completed else value
            if (pod.spec.get("nodeSelector") or {}).get(key, without) != value:
                yield messages[key]

    exempt = "variables.fromDaemonSet ? [] : "
    return exempt + " + ".join(parts), lambda pod: iter(()) if pod.from_daemon_set else check(pod)


def _root(policy: Policy, _: Circumstances) -> _Made:
    if policy.security.allow_root:
        return None
    user = "c.?securityContext.?runAsUser.orValue(variables.spec.?securityContext.?runAsUser.orValue(-1))"
    not_root = "c.?securityContext.?runAsNonRoot.orValue(variables.spec.?securityContext.?runAsNonRoot.orValue(false))"
    tail = " may run as root: set securityContext.runAsUser to another user, or runAsNonRoot to true"
    breaks = f"{user} == 0 || ({user} == -1 && !{not_root})"
    expression = f"variables.all.filter(c, {breaks}).map(c, {cel(_HEAD)} + c.name + {cel(tail)})"

    def check(pod: PodView) -> Iterator[str]:
        of_pod = pod.spec.get("securityContext") or {}
        for container in pod.all:
            own = security_of(container)
            user = own.get("runAsUser", of_pod.get("runAsUser"))
            if user == 0 or (user is None and not own.get("runAsNonRoot", of_pod.get("runAsNonRoot"))):
                yield _HEAD + container["name"] + tail

    return expression, check


_MAKERS: dict[PodRule, Callable[[Policy, Circumstances], _Made]] = {
    "memoryLimit": _memory_limit,
    "gpuNodes": _gpu_nodes,
    "gpuType": _gpu_type,
    "images": _images,
    "ceilings": _ceilings,
    "privileged": _privileged,
    "hostNamespaces": _host_namespaces,
    "hostFolders": _host_folders,
    "capabilities": _capabilities,
    "tolerations": _tolerations,
    "nodeSelector": _node_selector,
    "root": _root,
    "privilegeEscalation": _privilege_escalation,
}


# ------------------------------------------------------------------------------------------ parts of rules

_HEAD = "container "


def _of_containers(
    which: str,
    test: str,
    breaks: Callable[[Object], bool],
    tail: str,
    *,
    unless: tuple[str, Callable[[PodView], bool]] | None = None,
) -> tuple[str, _Check]:
    """Return both forms of a rule about single containers. `c` is the container in `test`; the Pod is exempt if
    `unless` holds."""
    expression = f"variables.{which}.filter(c, {test}).map(c, {cel(_HEAD)} + c.name + {cel(tail)})"

    def check(pod: PodView) -> Iterator[str]:
        if unless is not None and unless[1](pod):
            return
        yield from (_HEAD + c["name"] + tail for c in getattr(pod, which) if breaks(c))

    return (f"{unless[0]} ? [] : {expression}" if unless is not None else expression), check


def _number(amount: str) -> str:
    """Return the expression for a quantity as a number."""
    return f"quantity(string({amount})).asApproximateFloat()"


def _cores(amount: str) -> float:
    return parse_cpu_millis(amount) / 1000


def _reason(rule: PodRule, reason: str) -> str:
    return f" [{rule}{': ' + reason if reason else ''}]"


def _with_reason(expression: str, reason: str) -> str:
    return f"({expression}).map(f, f + {cel(reason)})"


def _check_with_reason(check: _Check, reason: str) -> _Check:
    return lambda pod: (message + reason for message in check(pod))
