"""Roles of people and parts. Each rule says what it is for; a test compares them with what the parts use."""

from __future__ import annotations

from kajitori.core.admission.run_changes import ADMINISTER
from kajitori.core.leadership import LEASE_NAME
from kajitori.core.naming.names import GROUP, TICKETS_SECRET
from kajitori.install.parts.objects import RBAC, Object, aggregated_role, cluster_role, role, rule
from kajitori.install.settings import CA_SECRET, TLS_SECRET, InstallSettings

TEAM_VIEWER, TEAM_USER, TEAM_LEAD = "kajitori-team-viewer", "kajitori-team-user", "kajitori-team-lead"
OPERATORS = "kajitori-operators"
"""The roles that people have: the first three by RoleBindings in a team's namespaces, the last by a
ClusterRoleBinding."""

_DEVICES = "resourceslices deviceclasses resourceclaims devicetaintrules"
_ADMISSION = "validatingadmissionpolicies validatingadmissionpolicybindings"


def roles(settings: InstallSettings) -> list[Object]:
    """Return all roles. `kajitori-user` and its additions are bound to people in their namespaces, by operators."""
    found = [*people(), *teams(), server(), controller(), policy_keeper(), team_keeper(), kubelets()]
    found += [leader(settings), tickets(settings), *messages(settings), installer()]
    if settings.agents.enabled:
        found.append(relay())
    if settings.tls.certificates == "own":
        found += [certificates(settings.namespace, CA_SECRET, TLS_SECRET)]
        if settings.agents.enabled:
            found.append(certificates(settings.agents_namespace, TLS_SECRET))
    return found


def people() -> list[Object]:
    """Return the roles of people."""
    return [
        cluster_role(
            "kajitori-user",
            [
                # Submit, read, stop, resume and delete runs. The controller creates the Pods, under the rules of
                # policy.
                rule(GROUP, "runs", "get list watch create update patch delete"),
                # `kaji what-if` and `kaji run --dry-run` show what the namespace's quotas leave.
                rule("", "resourcequotas", "list"),
            ],
            "user lead operator",
        ),
        # `kaji logs` reads with the caller's own rights.
        cluster_role("kajitori-user-logs", [rule("", "pods/log", "get")], "user lead operator"),
        # `kaji exec` acts with the caller's own rights. With it, a user can do in a member what its program can do.
        cluster_role("kajitori-user-exec", [rule("", "pods/exec", "get create")], "user lead"),
        # `kaji attach` and `kaji run -i` act with the caller's own rights, too.
        cluster_role("kajitori-user-attach", [rule("", "pods/attach", "get create")], "user lead"),
        # `kaji port-forward` and the proxy of notebooks act with the caller's own rights.
        cluster_role("kajitori-user-ports", [rule("", "pods/portforward", "get create")], "user lead"),
        # `kaji volumes` shows checkpoints; `kaji rm --volumes` and `kaji volumes rm` delete a checkpoint's claim with
        # the caller's own rights, and so could kubectl any other claim.
        cluster_role(
            "kajitori-user-checkpoints", [rule("", "persistentvolumeclaims", "get list delete")], "user lead operator"
        ),
        # `kaji secret` acts with the caller's own rights. It shows no values, but a user who may list Secrets can read
        # them with other clients, and a user who may create runs can start a run that prints one.
        cluster_role("kajitori-user-secrets", [rule("", "secrets", "list create update delete")], "user lead"),
        cluster_role("kajitori-viewer", [rule(GROUP, "runs", "get list watch")], "viewer"),
        cluster_role(
            "kajitori-lead",
            [
                # `kaji token` makes a service account, gives it a team's role, and asks for its token.
                rule("", "serviceaccounts", "get list create delete"),
                rule("", "serviceaccounts/token", "create"),
                # Access of others to the namespace: a lead may grant these two roles, whatever they contain.
                rule(RBAC, "rolebindings", "get list create delete"),
                rule(RBAC, "clusterroles", "bind", only=[TEAM_VIEWER, TEAM_USER]),
            ],
            "lead",
        ),
        # Lets leads and operators stop, change and delete runs of others even if policy's `security.runChanges` allows
        # it to owners only. No other rule uses this verb.
        cluster_role("kajitori-run-administrator", [rule(GROUP, "runs", ADMINISTER)], "lead operator"),
        # `kaji drain`, `kaji uncordon`, `kaji preflight` and `kaji nodes --healthy`, with the operator's own rights. A
        # ClusterRoleBinding: nodes have no namespace.
        cluster_role(
            "kajitori-operator",
            [
                rule("", "nodes", "get patch"),
                # `kaji policy check --live` looks up what a policy names. It says which objects it may not read:
                # Secrets, ConfigMaps and Pods of DNS resolvers are not among these.
                rule("", "namespaces services persistentvolumeclaims", "get"),
                rule("storage.k8s.io", "storageclasses", "get list"),
                rule("scheduling.k8s.io", "priorityclasses", "get"),
                rule("node.k8s.io", "runtimeclasses", "get"),
                # `kaji policy audit` and `diff` look at everybody's Pods, and `show` at the rules for them.
                rule("", "namespaces pods", "list"),
                rule("admissionregistration.k8s.io", "validatingadmissionpolicies", "get"),
            ],
            "operator",
        ),
    ]


def teams() -> list[Object]:
    """Return the roles that people have. Each aggregates the roles with its label, so operators can add rights by a
    role with the label `rbac.kajitori.dev/aggregate-to-user: "true"`, for example."""
    return [
        aggregated_role(TEAM_VIEWER, "viewer"),
        aggregated_role(TEAM_USER, "user"),
        aggregated_role(TEAM_LEAD, "lead"),
        aggregated_role(OPERATORS, "operator"),
    ]


def server() -> Object:
    """The Web API reads the cluster with these rights. It writes, and reads logs, only with the rights of its
    caller."""
    return cluster_role(
        "kajitori-server",
        [
            rule(GROUP, "runs", "list watch"),
            rule("", "nodes pods events", "list watch"),
            # GPUs that are devices of dynamic resource allocation, and which of them are in use.
            rule("resource.k8s.io", _DEVICES, "list watch"),
            # Identifies agents that report traffic: each of their tokens is reviewed now and then.
            rule("authentication.k8s.io", "tokenreviews", "create"),
            # Finds the namespaces in which a caller has a role, also before the first run there. The API server
            # then decides what the caller may do there.
            rule(RBAC, "rolebindings", "list"),
        ],
    )


def controller() -> Object:
    """The controller creates and removes what belongs to runs."""
    return cluster_role(
        "kajitori-controller",
        [
            rule(GROUP, "runs", "get list watch patch delete"),
            rule(GROUP, "runs/status", "update"),
            # An owner reference that blocks its owner's deletion needs this if OwnerReferencesPermissionEnforcement is
            # on.
            rule(GROUP, "runs/finalizers", "update"),
            # A broken node gets a taint and its history (policy's `nodeHealth` and `preflight`).
            rule("", "nodes", "get list watch patch"),
            rule("", "pods", "get list watch create patch delete deletecollection"),
            # The end of a member's log is stored before its Pod is deleted.
            rule("", "pods/log", "get"),
            rule("", "services persistentvolumeclaims events", "create"),
            # Repeated Events are counted in the first one. Events also show whether a node ran out of memory when a
            # member was killed (then it was not the member's fault), and what keeps a claim that members mount from
            # being bound.
            rule("", "events", "patch list"),
            # Shows whether such a claim was bound after that Event.
            rule("", "persistentvolumeclaims", "get"),
            # Memory of all members with one request, if a metrics-server serves it.
            rule("metrics.k8s.io", "pods", "list"),
            # The Service of an earlier run of the same name is replaced; that of a network gets further runs as owners.
            rule("", "services", "get delete patch"),
            # The names of runs in their networks; without these rights runs cannot find each other by such names.
            rule("discovery.k8s.io", "endpointslices", "list create patch delete"),
            rule("", "resourcequotas limitranges", "list"),
            # Only if policy names pools that can grow (`nodePools`): a gang asks an autoscaler for nodes, and withdraws
            # the request.
            rule("autoscaling.x-k8s.io", "provisioningrequests", "get list watch create delete deletecollection"),
            rule("", "podtemplates", "get create delete deletecollection"),
            # Each run has a disruption budget (policy's `disruptionBudgets`); without these rights it has none.
            rule("policy", "poddisruptionbudgets", "get list create patch delete"),
            # GPUs that are devices of dynamic resource allocation, and which of them are in use.
            rule("resource.k8s.io", _DEVICES, "list watch"),
            # If no extended resource stands for such GPUs, each run that needs some has a template of claims, which is
            # checked for each attempt.
            rule("resource.k8s.io", "resourceclaimtemplates", "get create"),
            # Network policies of restricted runs: without these rights such runs do not start.
            rule("networking.k8s.io", "networkpolicies", "get list watch create update delete"),
        ],
    )


def policy_keeper() -> Object:
    """Bound only on purpose: with it the controller applies the admission policies that enforce the policy file,
    whenever that changes. An account that may write admission policies can refuse or change any object of the cluster.
    Without it, operators apply them: `kaji policy render | kubectl apply --server-side -f -`."""
    mutating = "mutatingadmissionpolicies mutatingadmissionpolicybindings"
    return cluster_role(
        "kajitori-policy-keeper",
        [
            rule("admissionregistration.k8s.io", f"{_ADMISSION} {mutating}", "get create patch delete"),
            # Shows whether the API server can change Pods by policies.
            rule("admissionregistration.k8s.io", "mutatingadmissionpolicies", "list"),
        ],
    )


def team_keeper() -> Object:
    """Bound only on purpose: with it the controller applies the policy's teams whenever these change. An account that
    has it can give these three roles to anybody in any namespace. Without it, operators apply them: `kaji install
    --policy` or `kaji team render`."""
    return cluster_role(
        "kajitori-team-keeper",
        [
            rule("", "namespaces", "create patch"),
            rule(RBAC, "rolebindings", "list create patch delete"),
            # Kubernetes demands that an account that gives a role has its rights, or this one.
            rule(RBAC, "clusterroles", "bind", only=[TEAM_VIEWER, TEAM_USER, TEAM_LEAD]),
        ],
    )


def kubelets() -> Object:
    """Only for clusters without a metrics-server, and bound only on purpose: with it the controller asks each kubelet
    for members' memory. An account that has this right and reaches the kubelets can do much more than read figures.
    Without it, and without a metrics-server, peaks are known only for members that ran out of memory or ended on nodes
    of `kaji node`."""
    return cluster_role("kajitori-controller-kubelets", [rule("", "nodes/proxy", "get")])


def leader(settings: InstallSettings) -> Object:
    """Rights of the controller in its namespace: the Lease by which the leader is elected, the key of members' tickets,
    and the runs that test nodes. If policy's `preflight.namespace` is another namespace, the last of these rules
    belongs there."""
    return role(
        "kajitori-leader",
        settings.namespace,
        [
            rule("coordination.k8s.io", "leases", "create"),
            rule("coordination.k8s.io", "leases", "get update", only=[LEASE_NAME]),
            rule("", "secrets", "create"),
            rule("", "secrets", "get", only=[TICKETS_SECRET]),
            rule(GROUP, "runs", "create delete"),
        ],
    )


def tickets(settings: InstallSettings) -> Object:
    """Rights of the Web API in the same namespace: it verifies the tickets that the controller gave to members, and
    tells users if no controller renews the Lease."""
    return role(
        "kajitori-tickets",
        settings.namespace,
        [
            rule("", "secrets", "get", only=[TICKETS_SECRET]),
            rule("coordination.k8s.io", "leases", "get", only=[LEASE_NAME]),
        ],
    )


def messages(settings: InstallSettings) -> list[Object]:
    """Rights in the namespace of messages. No other account has rights there. The Web API stores channels of users that
    the API server has authenticated. The leading controller reads them, and stores messages that are not delivered
    yet."""
    space = settings.messages_namespace
    return [
        role("kajitori-channels", space, [rule("", "secrets", "get create update")]),
        role("kajitori-messenger", space, [rule("", "secrets", "list watch create update")]),
    ]


def relay() -> Object:
    """The relay reads the Pods and Runs about which it tells agents."""
    return cluster_role(
        "kajitori-relay",
        [
            rule("", "pods", "list watch"),
            # A Run has the owner of its Pods.
            rule(GROUP, "runs", "list watch"),
            # Identifies agents: each of their tokens is reviewed now and then.
            rule("authentication.k8s.io", "tokenreviews", "create"),
        ],
    )


def certificates(namespace: str, *secrets: str) -> Object:
    """The CronJob that renews the certificates of parts and agents, with the installation's own authority."""
    return role("kajitori-certificates", namespace, [rule("", "secrets", "get patch", only=secrets)])


def installer() -> Object:
    """Rights of an account that may apply the resource `runs.kajitori.dev`, as each part tries when it starts.

    `kaji install` needs more: it creates roles, and Kubernetes demands that an account that gives a right has it.
    """
    return cluster_role(
        "kajitori-installer",
        [
            rule("apiextensions.k8s.io", "customresourcedefinitions", "get create patch"),
            rule("scheduling.k8s.io", "priorityclasses", "get create patch"),
            # The API server checks who submitted a run.
            rule("admissionregistration.k8s.io", _ADMISSION, "get create patch"),
        ],
    )
