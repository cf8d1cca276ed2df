"""Additions of the MPI launcher to the Pods of a run."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.admission.decide import Decision, Facts, RunIdentity, decide
from kajitori.core.naming import first_step
from kajitori.core.pods.manifests import MemberPods
from kajitori.core.pods.tickets import KEY_BYTES
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.errors import Refused

START = {"start": {"image": "kajitori:1", "server": "http://web"}}
RUN = {"image": "pi:1", "replicas": 4, "launcher": "mpi", "command": ["mpirun", "./pi", "$(cat x)"]}


def decision_for(document: dict[str, Any] | None = None, **rules: Any) -> Decision:
    policy = parse_policy(START | rules)
    return decide(parse_spec(RUN | (document or {})), policy, Facts(), run=RunIdentity("pi", "vision"))


def pod(document: dict[str, Any] | None = None, **rules: Any) -> dict[str, Any]:
    """Return the last member of a first attempt."""
    spec, template = parse_spec(RUN | (document or {})), decision_for(document, **rules).template
    about: dict[str, Any] = {"run_name": "pi", "namespace": "vision", "run_uid": "u", "attempt": 1, "port": 20_001}
    pods = MemberPods(template, world_size=spec.replicas, launcher=spec.launcher, key=b"k" * KEY_BYTES, **about)
    made: dict[str, Any] = pods.pod(spec.replicas - 1, "n")["spec"]
    return made


def codes(decision: Decision) -> set[str]:
    return {finding.code for finding in decision.findings}


def env(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}


def mounts(spec: dict[str, Any]) -> dict[str, str]:
    return {mount["mountPath"]: mount.get("subPath", "") for mount in spec["containers"][0]["volumeMounts"]}


def test_the_launcher_starts_a_member_with_the_users_arguments() -> None:
    """It is run by a shell of the image, so it needs no Python. The arguments are unchanged."""
    main = pod()["containers"][0]
    assert main["command"][:2] == ["/bin/sh", "-c"] and "args" not in main
    assert main["command"][-3:] == ["mpirun", "./pi", "$$(cat x)"]
    found = env(main)
    assert found["KAJI_HOSTS"] == "/kajitori/hosts" and found["KAJI_HOSTS_MPICH"] == "/kajitori/hosts-mpich"
    assert found[first_step.MPI_PORT_ENV] == "20001", "of the attempt's own: two runs on one node never meet"
    assert not any("PRIVATE" in value for value in found.values())


def test_a_second_step_checks_the_users_image() -> None:
    """It has the image, user and rights of the program, so it finds what the program will find."""
    spec = pod({"user": 4711})
    ours, looks = spec["initContainers"]
    assert (ours["name"], ours["image"]) == (first_step.CONTAINER, "kajitori:1")
    assert (looks["name"], looks["image"]) == (first_step.IMAGE_STEP, "pi:1")
    assert env(ours)[first_step.MPI_PORT_ENV] == "20001"
    assert looks["securityContext"]["runAsUser"] == 4711
    assert first_step.SERVER_ENV not in env(looks)


@pytest.mark.parametrize(
    ("user", "allow_root", "brings"), [(4711, True, True), (0, True, False), (None, True, False), (None, False, True)]
)
def test_a_user_other_than_root_gets_an_etc_passwd(user: int | None, allow_root: bool, brings: bool) -> None:
    """If the program may run as root, the image's own file stays, since such a program can add users."""
    spec = pod({} if user is None else {"user": user}, security={"allowRoot": allow_root})
    assert (mounts(spec).get("/etc/passwd") == first_step.PASSWD_FILE) is brings
    assert (first_step.MPI_PASSWD_ENV in env(spec["initContainers"][1])) is brings


def test_a_single_member_is_started_in_the_same_way() -> None:
    """`mpirun` finds its hostfile for any number of members."""
    found = pod({"replicas": 1})
    assert env(found["containers"][0])["KAJI_HOSTS"] and len(found["initContainers"]) == 2


def test_mpi_without_a_first_step_is_refused() -> None:
    """The refusal names the launcher and the missing first step."""
    with pytest.raises(Refused) as refused:
        decision_for(start={})
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [("spec.launcher", "NoFirstStep")]


def test_findings_warn_of_common_problems_with_mpi() -> None:
    """They are in the answer to the submission."""
    assert not {"EntrypointLeftOut", "SshdLacksRights", "MembersShareAddress"} & codes(decision_for())
    assert "EntrypointLeftOut" in codes(decision_for({"command": [], "args": ["mpirun", "./pi"]}))
    assert "SshdLacksRights" in codes(decision_for(security={"allowRoot": True}))
    rights = ["SETUID", "SETGID", "SYS_CHROOT"]
    assert "SshdLacksRights" not in codes(decision_for(security={"allowRoot": True, "addCapabilities": rights}))
    assert "MembersShareAddress" in codes(decision_for({"hostNetwork": True}, security={"allowHostNetwork": True}))
