"""What an MPI launcher adds to the Pod template of a run.

Rank 0 runs the user's program, as a rule mpirun; every other member is an sshd that it reaches. Both are started by a
script that the first step brings along, in the user's own image, which has to have OpenSSH and a shell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kajitori.core.pods.resolved import Findings, Resolved
from kajitori.core.policy.model import Policy
from kajitori.core.spec.run import RunSpec
from kajitori.core.words import first_step

Manifest = dict[str, Any]

_SCRIPTS = f"{first_step.FOLDER}/{first_step.MPI_FOLDER}"
_PASSWD = f"{first_step.FOLDER}/{first_step.PASSWD_FILE}"
_ROOTS_RIGHTS = ("SETGID", "SETUID", "SYS_CHROOT")
"""Without these root's sshd cannot let anybody in."""


def started_by(words: Sequence[str]) -> list[str]:
    """The command line of every member: that of the launcher, which is given the user's."""
    return ["/bin/sh", "-c", f'exec /bin/sh "${first_step.MPI_ENV}/launch" "$@"', "kajitori", *words]


def told(start_deadline_seconds: float) -> dict[str, str]:
    """Variables of every member."""
    return {
        first_step.HOSTS_MPICH_ENV: f"{first_step.FOLDER}/{first_step.HOSTS_MPICH_FILE}",
        first_step.MPI_ENV: _SCRIPTS,
        first_step.MPI_PATIENCE_ENV: str(max(1, int(start_deadline_seconds * first_step.DEADLINE_SHARE))),
    }


def brings_passwd(policy: Policy, resolved: Resolved) -> bool:
    """Whether members get an /etc/passwd of their own: whoever is not root may have no line in the image's. Root has
    one, and a program that makes itself a user as root finds the image's file as it is."""
    return not _may_be_root(policy, resolved)


def _may_be_root(policy: Policy, resolved: Resolved) -> bool:
    return policy.security.allow_root and (resolved.user or "0").partition(":")[0] == "0"


def image_step(member: Mapping[str, Any], step: Mapping[str, Any]) -> Manifest:
    """The init container after the first step: looks at the user's image, as the program's own user, with what the
    first step may use."""
    env = {first_step.MPI_ENV: _SCRIPTS, first_step.UNFIT_ENV: str(first_step.UNFIT_IMAGE)}
    if any(mount["mountPath"] == first_step.ETC_PASSWD for mount in member["volumeMounts"]):
        env[first_step.MPI_PASSWD_ENV] = _PASSWD
    looks: Manifest = {
        **step,
        "name": first_step.IMAGE_STEP,
        "image": member["image"],
        "command": ["/bin/sh", "-c", f'exec /bin/sh "${first_step.MPI_ENV}/check"'],
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    return looks


def tell(spec: RunSpec, policy: Policy, resolved: Resolved, findings: Findings) -> None:
    """What a user of this launcher may not expect."""
    if spec.args and not spec.command:
        message = f"the program is {spec.args[0]}: with launcher mpi the image's own entrypoint is left out"
        findings.add("EntrypointLeftOut", message, "spec.args")
    if spec.host_network:
        message = (
            "members on one node share its address: to MPI they are one machine, whose processes run in one of them"
        )
        findings.add("MembersShareAddress", message, "spec.hostNetwork")
    security = policy.security
    lacks = [right for right in _ROOTS_RIGHTS if right not in security.add_capabilities]
    if _may_be_root(policy, resolved) and "ALL" in security.drop_capabilities and lacks and not spec.privileged:
        message = f"as root its sshd lets nobody in: policy takes {', '.join(lacks)} away; name a user (--user 1000)"
        findings.add("SshdLacksRights", message, "spec.user")
