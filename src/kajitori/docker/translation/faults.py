"""Faults that the server finds in a run, in the words of Docker's options and of Compose's fields."""

from __future__ import annotations

from dataclasses import replace

from kajitori.errors import Fault, InvalidInput

_OPTIONS = {
    "spec.resources.memory": "--memory",
    "spec.resources.shm": "--shm-size",
    "spec.resources.cpu": "--cpus",
    "spec.resources.gpu": "--gpus",
    "spec.resources.gpuType": "--label kaji.gpu-type",
    "spec.image": "IMAGE",
    "spec.user": "--user",
    "spec.privileged": "--privileged",
    "spec.hostNetwork": "--network host",
    "spec.volumes": "--volume",
    "spec.networks": "--network",
    "spec.env": "--env",
    "spec.timeLimit": "--label kaji.time-limit",
}
"""Option by the field of a run's spec that it becomes."""

_HINTS = {
    "ShmAboveMemory": "say more memory: -m 16g (in a Compose file: mem_limit: 16g)",
}
"""Ways out by the code of a fault, if the server's own names fields."""


def in_dockers_words(error: InvalidInput) -> InvalidInput:
    """Return the server's error with Docker's options in place of fields."""
    return type(error)([_renamed(fault) for fault in error.faults], hint=error.hint)


def _renamed(fault: Fault) -> Fault:
    field = fault.field.partition("[")[0]
    return replace(fault, field=_OPTIONS.get(field, fault.field), hint=_HINTS.get(fault.code, fault.hint))
