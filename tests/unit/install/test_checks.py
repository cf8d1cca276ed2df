"""The findings of `kaji install --check`, and the progress of parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kajitori.install.checks import State, Survey, findings, lacking_faults, wanted_secrets
from kajitori.install.rollout import progress
from kajitori.install.settings import InstallSettings, parse_settings

ADMISSION = "admissionregistration.k8s.io/v1"
GOOD = Survey(
    version="v1.36.2",
    skew_seconds=0.3,
    served=frozenset(
        {
            f"{ADMISSION} validatingadmissionpolicies",
            f"{ADMISSION} mutatingadmissionpolicies",
            "flowcontrol.apiserver.k8s.io/v1",
            "metrics.k8s.io/v1beta1",
        }
    ),
    changes={"created": 53, "changed": 0},
    storage_classes=("fast", "slow"),
    default_storage="fast",
    nodes=4,
    gpus={"NVIDIA-H100": 32},
)
SETTINGS = parse_settings("""
images: {prefix: registry.example.org, pullSecrets: [regcred]}
store: {url: 's3://bucket'}
signIn: {issuer: 'https://login.example.org', clientSecret: ours}
history: {url: 'postgresql://kaji@db/kaji', secret: database}
""")


def states(survey: Survey, settings: InstallSettings = SETTINGS) -> dict[str, State]:
    """Return the findings that are not OK."""
    found = findings(survey, settings, "0.1.0")
    assert all(bool(finding.way_out) for finding in found if finding.state is not State.OK), "each names a way out"
    return {finding.name: finding.state for finding in found if finding.state is not State.OK}


def test_a_complete_cluster_has_no_findings() -> None:
    assert states(GOOD) == {}
    texts = {finding.name: finding.text for finding in findings(GOOD, SETTINGS, "0.1.0")}
    assert texts["objects"] == "would be 53 created"
    assert texts["gpus"] == "32 NVIDIA-H100"


@pytest.mark.parametrize(
    ("tls", "wanted"),
    [
        ("{}", {"programs": State.WARN}),
        ("{names: ['*.runs.example.org']}", {}),
        ("{certificates: given}", {}),
    ],
)
def test_the_certificate_must_have_the_name_of_programs(tls: str, wanted: dict[str, State]) -> None:
    url = "https://*.runs.example.org"
    people = f"{{issuer: 'https://login.example.org', url: 'https://kaji.example.org', programsUrl: '{url}'}}"
    settings = parse_settings(f"{{signIn: {people}, tls: {tls}}}")
    found = states(GOOD, settings)
    assert {name: state for name, state in found.items() if name == "programs"} == wanted


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"refused": {"ClusterRole kajitori-user": "forbidden"}}, {"rights": State.FAIL}),
        ({"version": "v1.29.1"}, {"version": State.FAIL}),
        ({"version": "v1.31.0"}, {"version": State.WARN}),
        ({"skew_seconds": -7.0}, {"clock": State.WARN}),
        ({"skew_seconds": 700.0}, {"clock": State.FAIL}),
        ({"served": GOOD.served - {f"{ADMISSION} validatingadmissionpolicies"}}, {"admission": State.FAIL}),
        ({"served": GOOD.served - {"flowcontrol.apiserver.k8s.io/v1"}}, {"flow control": State.FAIL}),
        ({"served": GOOD.served - {"metrics.k8s.io/v1beta1"}}, {"metrics": State.WARN}),
        ({"storage_classes": (), "default_storage": ""}, {"storage": State.WARN}),
        ({"gpus": {}}, {"gpus": State.WARN}),
        ({"gpus": {"": 8, "H100": 8}}, {"gpus": State.WARN}),
        ({"nodes": 0}, {"nodes": State.WARN}),
        ({"missing_secrets": ["kajitori/regcred"]}, {"secret": State.FAIL}),
        ({"missing_secrets": ["kajitori/database"]}, {"secret": State.FAIL}),
        ({"lacking_secrets": {"kajitori/database": ["password"]}}, {"secret": State.FAIL}),
        ({"provider_fault": "https://login.example.org did not answer"}, {"sign-in": State.WARN}),
        ({"unreadable": ["nodes"]}, {"reading": State.WARN}),
        ({"installed": "0.2.0"}, {"installed": State.FAIL}),
        ({"installed": "0.1.0", "incomplete": True}, {"installed": State.WARN}),
    ],
)
def test_each_missing_thing_is_a_finding_with_a_way_out(change: dict[str, Any], wanted: dict[str, State]) -> None:
    assert states(replace(GOOD, **change)) == wanted


def test_secrets_of_operators_have_the_keys_that_parts_read() -> None:
    wanted = {"kajitori/regcred": (), "kajitori-agents/regcred": (), "kajitori/database": ("password",)}
    assert wanted_secrets(SETTINGS) == wanted | {"kajitori/ours": ("client-secret",)}
    given = parse_settings("{tls: {certificates: given}, agents: {metricsSecret: prometheus}}")
    certificate = ("tls.crt", "tls.key", "ca.crt")
    assert wanted_secrets(given) == {
        "kajitori/kajitori-tls": certificate,
        "kajitori-agents/kajitori-tls": certificate,
        "kajitori-agents/prometheus": ("token",),
    }


def test_a_secret_without_keys_is_a_fault_that_names_them_all() -> None:
    """`kaji install` and `kaji upgrade` raise these before they change anything."""
    (fault,) = lacking_faults({"kajitori-agents/kajitori-tls": ["tls.crt", "tls.key"]})
    assert fault.message == "the Secret kajitori-agents/kajitori-tls has no key tls.crt, tls.key"
    assert fault.hint == "add tls.crt and tls.key, or leave tls.certificates out"


def test_settings_decide_what_is_checked() -> None:
    without = parse_settings("{history: {url: 'postgresql://db/kaji'}, images: {prefix: r.io}, store: {url: 's3://b'}}")
    assert states(GOOD, without) == {"history": State.WARN}
    assert states(GOOD, InstallSettings()) == {"images": State.WARN, "store": State.WARN}
    text = "{tls: {certificates: certManager, issuer: {name: x}}, images: {prefix: r.io}, store: {url: 's3://b'}}"
    assert states(GOOD, parse_settings(text)) == {"cert-manager": State.FAIL}
    older = replace(GOOD, version="v1.31.0", served=GOOD.served - {"flowcontrol.apiserver.k8s.io/v1"})
    text = "{agents: {enabled: false}, flowControl: false, images: {prefix: r.io}, store: {url: 's3://b'}}"
    assert states(older, parse_settings(text)) == {}


def workload(kind: str = "Deployment", **status: Any) -> dict[str, Any]:
    metadata = {"name": "kajitori-server", "generation": 2}
    return {"kind": kind, "metadata": metadata, "spec": {"replicas": 2}, "status": status}


READY = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}


@pytest.mark.parametrize(
    ("status", "shown", "is_done"),
    [
        ({}, "server 0/2", False),
        (READY, "server 2/2", True),
        (READY | {"observedGeneration": 1}, "server 0/2", False),
        (READY | {"replicas": 3}, "server 2/2", False),
        (READY | {"updatedReplicas": 1, "availableReplicas": 2}, "server 1/2", False),
    ],
)
def test_a_part_is_ready_when_all_its_pods_have_the_new_version(
    status: dict[str, Any], shown: str, is_done: bool
) -> None:
    found = progress(workload(**status), ())
    assert (str(found), found.is_done) == (shown, is_done)


def test_agents_are_counted_by_nodes() -> None:
    status = {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 2}
    assert str(progress(workload("DaemonSet", **status), ())) == "server 2/3"
    assert progress(workload("DaemonSet", **status | {"numberAvailable": 3}), ()).is_done


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}]},
            "ErrImagePull: no such image",
        ),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}, "it ended with 2; kubectl logs p"),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]}, "no node takes it"),
    ],
)
def test_the_progress_says_why_a_pod_does_not_start(pod: dict[str, Any], said: str) -> None:
    found = progress(workload(), [{"metadata": {"name": "p"}, "status": pod}])
    assert said in found.trouble and bool(said) == bool(found.trouble)


def test_the_progress_says_why_pods_are_refused() -> None:
    """By a quota or a Pod security standard; then there is no Pod to look at."""
    refused = {"type": "ReplicaFailure", "status": "True", "message": "violates PodSecurity"}
    assert progress(workload(conditions=[refused]), ()).trouble == "violates PodSecurity"
