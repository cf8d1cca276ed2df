"""The contract of each verb with programs: whether it changes something, and the shape of its `-o json` output.

A shape is the name of a shape of the Web API; `items:X` is a document with a list of them, `list:X` the list alone, and
`X|Y` either of two. `docs/generate.py` makes JSON schemas from them; a test compares this table with click's own tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCHEMAS = "docs/reference/output.schema.json"
"""The JSON schemas of all outputs, in the repository and beside the reference on the documentation's site."""


@dataclass(frozen=True)
class Contract:
    """The contract of one verb with programs."""

    shape: str = ""
    """Shape of what it prints with -o json; empty if it has no -o json."""
    without: str = ""
    """Why it has no -o json."""
    changes: bool = False
    """Whether it changes something in the cluster or on this machine."""


def _reads(shape: str) -> Contract:
    return Contract(shape)


def _changes(shape: str = "Done") -> Contract:
    return Contract(shape, changes=True)


def _neither(without: str, *, changes: bool = False) -> Contract:
    return Contract(without=without, changes=changes)


_PROCESS = "it is a process that runs until it is ended; its log is on stderr (--log-format json)"
_PERSON = "it is for a person at a terminal or a browser"
_PROGRAM = "its output is that of a program, byte for byte"
_MANIFESTS = "it prints YAML manifests or text for another tool as they are"
_INSTALLER = "it tells each step of an installation as it happens; kubectl shows the result"

CONTRACTS: Mapping[str, Contract] = {
    "run": _changes("RunView|DryRun"),
    "notebook": _neither(_PERSON, changes=True),
    "wait": _reads("Waited"),
    **{
        verb: _changes()
        for verb in ("stop", "park", "keep", "update", "kill", "resume", "start", "restart", "rm", "prune")
    },
    "ps": _reads("items:RunView"),
    "logs": _reads("LogLine"),
    "attach": _neither(_PROGRAM),
    "describe": _reads("RunView"),
    "explain": _reads("ExplanationView"),
    "what-if": _reads("WhatIf"),
    "why": _reads("RunReason"),
    "idle": _reads("IdleList|IdleReport"),
    "events": _reads("items:EventView|EventView"),
    "stats": _reads("RunStats|StatsList"),
    "metrics": _reads("RunMetrics|RankMetrics"),
    "report": _reads("RunTimeView|TimeReport"),
    "results": _reads("items:MemberResult"),
    "history": _reads("items:RecordedRun"),
    "inspect": _reads("list:InspectedRun"),
    "open": _neither(_PERSON),
    "tensorboard": _neither(_PERSON),
    "exec": _neither(_PROGRAM, changes=True),
    "ssh": _neither(_PROGRAM, changes=True),
    "ssh-config": _neither("it edits the configuration of OpenSSH", changes=True),
    "cp": _neither("it copies files; with - it reads or writes a tar archive", changes=True),
    "files": _reads("FileList"),
    "top": _reads("Processes"),
    "stacks": _reads("RunStacks"),
    "port": _reads("Listening"),
    "port-forward": _neither("it serves ports of this machine until it is ended"),
    "secret create": _changes(),
    "secret ls": _reads("SecretList"),
    "secret rm": _changes(),
    "volumes": _reads("VolumeList"),
    "volumes rm": _changes(),
    "gpus": _reads("GpuBoard|PublicBoard|items:NodeView"),
    "queue": _reads("QueueView"),
    "nodes": _reads("NodeList|NodeView"),
    "team ls": _reads("items:TeamView"),
    "team render": _neither(_MANIFESTS),
    "policy show": _reads("PolicyView"),
    "policy check": _reads("ClusterCheck"),
    "policy diff": _reads("PolicyDiff"),
    "policy audit": _reads("PodAudit"),
    "policy render": _neither(_MANIFESTS),
    "traffic": _reads("TrafficList|RunTrafficView|TrafficHistory"),
    "network ls": _reads("NetworksView"),
    "network forecast": _reads("AddressForecasts"),
    "network check": _reads("PathsChecked"),
    "network bench": _reads("PathsMeasured"),
    "network render": _neither(_MANIFESTS),
    "network validate": _neither("it prints faults alone, and its exit code is the answer"),
    "plan network": _reads("NetworkPlan"),
    "drain": _changes(),
    "uncordon": _changes(),
    "preflight": _changes("items:NodeView"),
    "usage": _reads("UsageAnswer"),
    "audit log": _reads("items:AuditRow"),
    "audit clients": _reads("ClientAudit"),
    "install": _changes("Findings|KubernetesList"),
    "upgrade": _neither(_INSTALLER, changes=True),
    "uninstall": _neither(_INSTALLER, changes=True),
    "backup": _changes("Backup|BackupCheck|BackupList"),
    "restore": _changes("Restored"),
    **{verb: _neither(_PROCESS, changes=True) for verb in ("up", "demo", "node", "sim", "controller")},
    **{verb: _neither(_PROCESS) for verb in ("server", "relay", "agent", "docker", "mcp")},
    "node uninstall": _neither(_INSTALLER, changes=True),
    "agent uninstall": _neither(_INSTALLER, changes=True),
    "login": _neither(_PERSON, changes=True),
    "logout": _neither("it forgets a sign-in on this machine, and its exit code is the answer", changes=True),
    "whoami": _reads("SignedIn"),
    "token create": _changes("RobotToken"),
    "token ls": _reads("items:Robot"),
    "token rm": _changes(),
    "notify add": _changes(),
    "notify ls": _reads("ChannelList"),
    "notify rm": _changes(),
    "notify test": _changes(),
    "context ls": _reads("Contexts"),
    "context show": _reads("Context"),
    "context use": _changes(),
    "docker context": _neither("it calls docker's own command, which prints", changes=True),
    "version": _reads("Versions"),
    "completion": _neither(_MANIFESTS),
}
"""By the words of the command without `kaji`."""


def schema_of(shape: str) -> dict[str, Any]:
    """Return the JSON schema of a shape; shapes that it names are references into `$defs`."""
    if "|" in shape:
        return {"anyOf": [schema_of(part) for part in shape.split("|")]}
    kind, _, name = shape.rpartition(":")
    found = {"$ref": f"#/$defs/{name}"}
    if kind == "items":
        return {"type": "object", "properties": {"items": {"type": "array", "items": found}}, "required": ["items"]}
    return {"type": "array", "items": found} if kind == "list" else found


def schema_address(verb: str) -> str:
    """Return where the schema of a verb's output is."""
    return f"{SCHEMAS}#/verbs/{verb.replace(' ', '%20')}"
