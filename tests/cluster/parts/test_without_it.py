"""`kaji uninstall` leaves users' data, and `kaji install` completes a half-done installation or removal.

The parts are gone after these tests, so no other module may come after this one.
"""

from __future__ import annotations

from tests.harness.platform.installation import RUNS, TOGETHER, Installation

from kajitori.entrypoints.installation.planning import DEFINITION

DEFINITIONS = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RECORD = "/api/v1/namespaces/kajitori/configmaps/kajitori-install"
OWNERS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/kajitori-run-owner"
OURS = "labelSelector=app.kubernetes.io/managed-by=kajitori"

pytestmark = TOGETHER


def test_uninstalling_leaves_runs_and_what_they_need(installed: Installation) -> None:
    """The command asks for confirmation and lists what stays. A second call says that nothing is installed."""
    installed.submit("stays", stopped=True)
    assert installed.as_administrator("uninstall", check=False).returncode not in (0, 2), "nobody answered the question"
    assert installed.get(f"{RBAC}/clusterroles/kajitori-server")
    done = installed.as_administrator("uninstall", "--yes")
    assert "of them active" in done.stdout and "ConfigMap kajitori/kajitori" in done.stdout
    assert installed.get(f"{RUNS}/stays") and installed.get(DEFINITIONS) and installed.get(OWNERS)
    assert installed.get("/api/v1/namespaces/kajitori/configmaps/kajitori")["data"]["policy.yaml"]
    for path in (f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings", f"{RBAC}/namespaces/kajitori/roles"):
        assert installed.get(f"{path}?{OURS}")["items"] == [], path
    assert installed.get(f"/apis/apps/v1/deployments?{OURS}")["items"] == []
    assert installed.get(f"/apis/apps/v1/daemonsets?{OURS}")["items"] == []
    secrets = {each["metadata"]["name"] for each in installed.get("/api/v1/namespaces/kajitori/secrets")["items"]}
    assert not {"kajitori-ca", "kajitori-tls"} & secrets and "kajitori-tickets" in secrets
    again = installed.as_administrator("uninstall", "--yes", check=False)
    assert again.returncode == 2 and "nothing is installed" in again.stderr


def test_installing_again_repairs_what_is_half_done(installed: Installation) -> None:
    """First everything is missing, then some objects are removed during the installation. The policy in force is still
    the one that operators wrote."""
    policy = installed.get("/api/v1/namespaces/kajitori/configmaps/kajitori")["data"]["policy.yaml"]
    installed.as_administrator("install", "--wait", "0")
    assert installed.get("/api/v1/namespaces/kajitori/configmaps/kajitori")["data"]["policy.yaml"] == policy
    installed.change("DELETE", f"{RBAC}/clusterroles/kajitori-server")
    installed.change("DELETE", "/apis/apps/v1/namespaces/kajitori/deployments/kajitori-relay")
    installed.change("PATCH", RECORD, {"data": {"complete": "false"}})
    found = installed.as_administrator("install", "--check").stdout
    assert "did not come to its end" in found and "2 created" in found
    assert "2 created, 0 changed" in installed.as_administrator("install", "--wait", "0").stderr
    assert installed.get(RECORD)["data"]["complete"] == "true"
