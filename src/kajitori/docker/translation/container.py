"""A run as a container: its id, name, state and exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import Any

from kajitori.core.spec.reasons import START_FAILURES, Phase, Reason

ANNOTATION = "docker.kajitori.dev/container"
"""Annotation of a run with those parts of the container's configuration that a spec has no field for, as JSON."""

NETWORK = "bridge"
"""The network of containers whose client named none."""

BUILT_IN_NETWORKS = ("bridge", "host", "none")
"""Networks that each engine of Docker has. In them no container finds another by name."""

STARTING, HEALTHY, UNHEALTHY, NO_CHECK = "starting", "healthy", "unhealthy", "none"
"""Words of Docker for the health of a container."""

NO_TIME = "0001-01-01T00:00:00Z"

KILLED, TERMINATED = 137, 143
"""Exit codes of a program that ended by SIGKILL and by SIGTERM."""
NOT_FOUND = 127

NEVER_RAN = START_FAILURES | {Reason.COMMAND_NOT_FOUND}
"""Reasons of runs whose program never ran."""
PLAIN_ENDS = frozenset(
    {
        Reason.NONE,
        Reason.PROGRAM_FAILED,
        Reason.STOPPED_BY_USER,
        Reason.RESTARTED_BY_USER,
        Reason.STOPPING,
        Reason.DELETING,
    }
)
"""Reasons of runs that ended as their program or their user wanted."""


@dataclass(frozen=True)
class Container:
    """One container: a run, or one member of a gang."""

    view: Mapping[str, Any]
    """The run, as the Web API shows it."""
    rank: int = 0
    is_member: bool = False
    """Whether a client named the rank, as in `bert.3`, and so means one member and not the run."""

    @cached_property
    def id(self) -> str:
        """64 hexadecimal digits that follow from the run's UID, so that each bridge finds the same.

        A container that was renamed before its start keeps the id that its first run gave it.
        """
        return str(self.notes.get("Id") or container_id(self.uid))

    @property
    def uid(self) -> str:
        return str(self.view["uid"])

    @property
    def run(self) -> str:
        """Name of the run."""
        return str(self.view["name"])

    @property
    def name(self) -> str:
        """Name of the container; it differs from the run's if that can't have such a name."""
        return str(self.notes.get("Name") or self.run)

    @property
    def shown_name(self) -> str:
        """Name of the container, or of the member that the client named."""
        return f"{self.name}.{self.rank}" if self.is_member else self.name

    @cached_property
    def notes(self) -> Mapping[str, Any]:
        """Notes that the bridge stored with the run; empty if the run was not made by `docker`."""
        try:
            notes = json.loads((self.view.get("annotations") or {}).get(ANNOTATION, "{}"))
        except ValueError:
            return {}
        return notes if isinstance(notes, dict) else {}

    @property
    def config(self) -> Mapping[str, Any]:
        config = self.notes.get("Config")
        return config if isinstance(config, dict) else {}

    @property
    def host_config(self) -> Mapping[str, Any]:
        config = self.notes.get("HostConfig")
        return config if isinstance(config, dict) else {}

    @property
    def labels(self) -> dict[str, str]:
        labels = self.config.get("Labels")
        return dict(labels if isinstance(labels, dict) else self.view.get("labels") or {})

    @property
    def networks(self) -> dict[str, list[str]]:
        """Names of the container's networks, each with its aliases there."""
        stored = self.notes.get("Networks")
        noted = dict(stored) if isinstance(stored, dict) else {}
        used = {str(use["name"]): list(use.get("aliases") or ()) for use in self.spec.get("networks") or ()}
        networks = {name: names for name, names in noted.items() if name in BUILT_IN_NETWORKS or name in used}
        for name, names in used.items():
            known = {alias.lower() for alias in (self.name, *networks.get(name, ()))}
            if name not in networks or not known.issuperset(names):
                networks[name] = names
        return networks if networks or noted else {NETWORK: []}

    @property
    def network_labels(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of the networks that clients had made when the container was created, by the network's name."""
        labels = self.notes.get("NetworkLabels")
        return labels if isinstance(labels, dict) else {}

    @property
    def driver_options(self) -> Mapping[str, Any]:
        """Options that the client gave for networks, by the network's name. They change nothing."""
        options = self.notes.get("DriverOpts")
        return options if isinstance(options, dict) else {}

    @property
    def unset_variables(self) -> list[str]:
        """Names of variables that the client named without a value."""
        names = self.notes.get("Unset")
        return [str(name) for name in names] if isinstance(names, list) else []

    @property
    def spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.view["spec"]
        return spec

    @property
    def status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self.view["status"]
        return status

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What policy changed, and warnings."""
        return list(self.status.get("findings") or ())

    @property
    def has_terminal(self) -> bool:
        return bool(self.config.get("Tty"))

    @property
    def has_stdin(self) -> bool:
        return bool(self.config.get("OpenStdin"))

    @property
    def is_removed_at_end(self) -> bool:
        return bool(self.host_config.get("AutoRemove"))

    @property
    def attempts(self) -> int:
        return int(self.status.get("attempts") or 0)

    @property
    def resumes(self) -> int:
        """Number of times that the run was asked to start again. Of two views, the one with the smaller number is
        older."""
        return int(self.spec.get("resumes") or 0)

    @property
    def seen_resumes(self) -> int:
        """The part of `resumes` on which the controller has acted."""
        return int(self.status.get("resumes") or 0)

    @property
    def restarts(self) -> int:
        """Number of times that all members were started again after a failure, since the last start by a user."""
        return int(self.status.get("restarts") or 0)

    @property
    def is_service(self) -> bool:
        """Whether its program is started again whenever it has ended."""
        return self.spec.get("type") == "service"

    @property
    def has_health_check(self) -> bool:
        return bool(self.spec.get("health"))

    @property
    def health(self) -> str:
        """Docker's word for its health, for a gang that of all members; `none` without a check. As with Docker, a
        container that has ended is unhealthy, and one whose program has not started yet is starting."""
        if not self.has_health_check:
            return NO_CHECK
        if self.has_ended:
            return UNHEALTHY
        return str((self.status.get("health") or {}).get("status") or STARTING)

    @property
    def last_exit_code(self) -> int | None:
        """Exit code of the newest failure that the run tells of, preferably of this rank; None if there is none."""
        failures = [one for one in self.status.get("notable") or () if one.get("exitCode") is not None]
        failures.sort(key=lambda one: (one["rank"] == self.rank, int(one.get("attempt") or 0)))
        return int(failures[-1]["exitCode"]) if failures else None

    @property
    def replicas(self) -> int:
        return int(self.spec.get("replicas") or 1)

    @property
    def phase(self) -> Phase:
        """The run's phase; Queued from the moment at which the run was asked to start again."""
        phase = Phase(self.status["phase"])
        return Phase.QUEUED if phase.is_final and self.is_starting_again else phase

    @property
    def is_starting_again(self) -> bool:
        """Whether the run was asked to start, and its controller has not acted on that yet: it may have to end."""
        return not self.spec.get("stopped") and self.resumes > self.seen_resumes

    @property
    def number_of_start(self) -> int:
        """Number of the latest start that the controller knows or that is asked for: a run that is restarted counts as
        its earlier start until that has ended."""
        return self.resumes if Phase(self.status["phase"]).is_final else self.seen_resumes

    def has_ended_start(self, number: int) -> bool:
        """Whether the start with this number has ended, also if a user has started the run again since."""
        is_final = Phase(self.status["phase"]).is_final
        return self.seen_resumes > number or (self.seen_resumes == number and is_final)

    def exit_code_of_start(self, number: int) -> int:
        """Return the exit code of a start; 0 if it has not ended. A run forgets it once it is queued again: then it is
        that of a program which ended by SIGTERM."""
        if not self.has_ended_start(number):
            return 0
        return self._code_of_end if self.seen_resumes == number else TERMINATED

    @property
    def was_never_started(self) -> bool:
        """Whether the run was created as a stopped run, and has never been started."""
        is_new = not self.attempts and not self.resumes
        return bool(is_new and self.spec.get("stopped") and self.notes)

    @property
    def is_active(self) -> bool:
        """Whether the run was started and has not ended. It may still wait for nodes."""
        return not self.was_never_started and not self.phase.is_final

    @property
    def has_ended(self) -> bool:
        return self.phase.is_final and not self.was_never_started

    @property
    def is_settled(self) -> bool:
        """Whether a run that was created is known to its controller, so that it can be started."""
        return Phase(self.status["phase"]).is_final

    @property
    def state(self) -> str:
        """Docker's word: created, running, restarting, removing or exited. A run that waits for nodes is `created`,
        and `restarting` if its program has run and failed before."""
        if self.view.get("deleting"):
            return "removing"
        if self.was_never_started:
            return "created"
        is_between = self.restarts > 0 and self.phase in (Phase.QUEUED, Phase.STARTING)
        return "restarting" if is_between else _STATES[self.phase]

    @property
    def exit_code(self) -> int:
        """The exit code of the run; 0 while it has none."""
        return self._code_of_end if self.has_ended else 0

    @property
    def _code_of_end(self) -> int:
        """The exit code of a run in a final phase, also if a user has started it again since."""
        code, phase = self.status.get("exitCode"), Phase(self.status["phase"])
        if phase is Phase.STOPPED and self.spec.get("stopGrace") in ("0s", "0"):
            return KILLED  # the platform asks programs to end before it kills them, which Docker does not
        if code is not None:
            return int(code)
        if phase is Phase.SUCCEEDED:
            return 0
        if phase is Phase.STOPPED:
            return TERMINATED
        return {Reason.OUT_OF_MEMORY: KILLED, Reason.COMMAND_NOT_FOUND: NOT_FOUND}.get(self.reason, 1)

    @property
    def reason(self) -> Reason:
        """Why the run is in its phase; none if a newer server has a reason that is not known here."""
        try:
            return Reason(self.status.get("reason") or "")
        except ValueError:
            return Reason.NONE

    @property
    def message(self) -> str:
        """The run's own words about its phase."""
        return str(self.status.get("message") or "")

    @property
    def could_not_start(self) -> bool:
        """Whether the run has failed before its program ran."""
        return self.has_ended and self.phase is Phase.FAILED and self.reason in NEVER_RAN

    @property
    def was_ended_by_others(self) -> bool:
        """Whether neither the program nor its user has ended the run, but the platform: for its memory, its time…"""
        return self.has_ended and self.phase is not Phase.SUCCEEDED and self.reason not in PLAIN_ENDS

    @property
    def checkpoint_path(self) -> str:
        """Folder of its checkpoint in the container; empty if it has none."""
        return str((self.spec.get("checkpoint") or {}).get("path") or "")

    @property
    def what_is_kept(self) -> str:
        """The sentence that says what is left of an ended container; empty for one that has not ended."""
        if not self.has_ended:
            return ""
        folder, name = self.checkpoint_path, self.name
        copied = f"docker cp {name}:{folder} ." if folder else "there is none (--label kaji.checkpoint=/PATH)"
        return f"{name} has ended; its log (docker logs {name}) and its volumes are kept, and its checkpoint: {copied}"

    @property
    def started_at(self) -> str:
        return str(self.status.get("startedAt") or "")

    @property
    def finished_at(self) -> str:
        return str(self.status.get("finishedAt") or "") if self.has_ended else ""


_STATES = {
    Phase.QUEUED: "created",
    Phase.STARTING: "created",
    Phase.RUNNING: "running",
    Phase.RESTARTING: "restarting",
    Phase.SUCCEEDED: "exited",
    Phase.FAILED: "exited",
    Phase.STOPPED: "exited",
}


def container_id(uid: str) -> str:
    """Return the id of the container of a run."""
    return sha256(f"kajitori run {uid}".encode()).hexdigest()


def network_id(name: str) -> str:
    """Return the id of a network, which exists for clients alone."""
    return sha256(f"kajitori network {name}".encode()).hexdigest()


def split_rank(reference: str) -> tuple[str, int | None]:
    """Return the container and the rank that a reference names: `bert.3` is rank 3 of the gang `bert`."""
    name, dot, rank = reference.rpartition(".")
    return (name, int(rank)) if dot and rank.isascii() and rank.isdigit() and len(rank) <= 5 else (reference, None)


def seconds_of(time: str) -> float:
    """Return seconds since the epoch of a time such as 2026-11-23T20:17:01Z; 0 for an empty one."""
    return datetime.fromisoformat(time).timestamp() if time else 0.0
