"""Additions of the MPI launcher to the Pod template of a run.

Rank 0 runs the user's program, usually mpirun. Every other member runs an sshd that rank 0 connects to. A script that
the first step provides starts both, in the user's image, which must contain OpenSSH and a shell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kajitori.core.naming import first_step
from kajitori.core.pods.resolved import Findings, Resolved
from kajitori.core.policy.model import Policy
from kajitori.core.spec.run import RunSpec

Manifest = dict[str, Any]

_SCRIPTS = f"{first_step.FOLDER}/{first_step.MPI_FOLDER}"
_PASSWD = f"{first_step.FOLDER}/{first_step.PASSWD_FILE}"
_SSHD_CAPABILITIES = ("SETGID", "SETUID", "SYS_CHROOT")
"""Capabilities without which an sshd that runs as root refuses all logins."""


def launch_command(words: Sequence[str]) -> list[str]:
    """Return the command line of every member: the launch script with the user's command as its arguments."""
    return ["/bin/sh", "-c", f'exec /bin/sh "${first_step.MPI_ENV}/launch" "$@"', "kajitori", *words]


def launcher_env(start_deadline_seconds: float) -> dict[str, str]:
    """Return the environment variables of every member."""
    return {
        first_step.HOSTS_MPICH_ENV: f"{first_step.FOLDER}/{first_step.HOSTS_MPICH_FILE}",
        first_step.MPI_ENV: _SCRIPTS,
        first_step.MPI_PATIENCE_ENV: str(max(1, int(start_deadline_seconds * first_step.DEADLINE_SHARE))),
    }


def needs_passwd(policy: Policy, resolved: Resolved) -> bool:
    """Whether members get their own /etc/passwd, because a user other than root may be missing in the image's file. As
    root, the image's file stays, so that a program can add users to it."""
    return not _may_be_root(policy, resolved)


def _may_be_root(policy: Policy, resolved: Resolved) -> bool:
    return policy.security.allow_root and (resolved.user or "0").partition(":")[0] == "0"


def image_step(member: Mapping[str, Any], step: Mapping[str, Any]) -> Manifest:
    """Return the init container that follows the first step. It checks the user's image, as the program's user, with
    the resources of the first step."""
    env = {first_step.MPI_ENV: _SCRIPTS, first_step.UNFIT_ENV: str(first_step.UNFIT_IMAGE)}
    if any(mount["mountPath"] == first_step.ETC_PASSWD for mount in member["volumeMounts"]):
        env[first_step.MPI_PASSWD_ENV] = _PASSWD
    return {
        **step,
        "name": first_step.IMAGE_STEP,
        "image": member["image"],
        "command": ["/bin/sh", "-c", f'exec /bin/sh "${first_step.MPI_ENV}/check"'],
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }


def add_findings(spec: RunSpec, policy: Policy, resolved: Resolved, findings: Findings) -> None:
    """Add warnings about effects of this launcher that users may not expect."""
    if spec.args and not spec.command:
        message = f"the program is {spec.args[0]}: launcher mpi does not use the image's entrypoint"
        findings.add("EntrypointLeftOut", message, "spec.args")
    if spec.host_network:
        message = (
            "members on the same node share its address, so MPI takes them for one machine, and all of its processes "
            "run in one of these members"
        )
        findings.add("MembersShareAddress", message, "spec.hostNetwork")
    security = policy.security
    missing = [capability for capability in _SSHD_CAPABILITIES if capability not in security.add_capabilities]
    if _may_be_root(policy, resolved) and "ALL" in security.drop_capabilities and missing and not spec.privileged:
        message = f"the policy drops {', '.join(missing)}, so sshd refuses logins as root; set a user (--user 1000)"
        findings.add("SshdLacksRights", message, "spec.user")
