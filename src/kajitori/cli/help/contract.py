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
    """Name of the shape that it prints with -o json; empty if it has no -o json."""
    without: str = ""
    """Why it has no -o json."""
    changes: bool = False
    """Whether it changes something in the cluster or on this machine."""


def _reading_verb(shape: str) -> Contract:
    return Contract(shape)


def _changing_verb(shape: str = "Done") -> Contract:
    return Contract(shape, changes=True)


def _verb_without_json(without: str, *, changes: bool = False) -> Contract:
    return Contract(without=without, changes=changes)


_PROCESS = "it is a process that runs until it is ended; its log is on stderr (--log-format json)"
_PERSON = "it is for a person at a terminal or a browser"
_PROGRAM = "its output is that of a program, byte for byte"
_MANIFESTS = "it prints YAML manifests or text for another tool as they are"
_INSTALLER = "it tells each step of an installation as it happens; kubectl shows the result"

CONTRACTS: Mapping[str, Contract] = {
    "run": _changing_verb("RunView|DryRun"),
    "notebook": _verb_without_json(_PERSON, changes=True),
    "wait": _reading_verb("Waited"),
    **{
        verb: _changing_verb()
        for verb in ("stop", "park", "keep", "update", "label", "kill", "resume", "start", "restart", "rm", "prune")
    },
    "note": _changing_verb("RunView"),
    "ps": _reading_verb("items:RunView"),
    "logs": _reading_verb("LogLine"),
    "attach": _verb_without_json(_PROGRAM),
    "describe": _reading_verb("RunView"),
    "explain": _reading_verb("ExplanationView"),
    "what-if": _reading_verb("WhatIf"),
    "why": _reading_verb("RunReason"),
    "idle": _reading_verb("IdleList|IdleReport"),
    "events": _reading_verb("items:EventView|EventView"),
    "stats": _reading_verb("RunStats|StatsList"),
    "metrics": _reading_verb("RunMetrics|RankMetrics|NodeMetrics"),
    "report": _reading_verb("RunTimeView|TimeReport"),
    "results": _reading_verb("items:MemberResult"),
    "history": _reading_verb("items:RecordedRun"),
    "compare": _reading_verb("Comparison"),
    "inspect": _reading_verb("list:InspectedRun"),
    "open": _verb_without_json(_PERSON),
    "tensorboard": _verb_without_json(_PERSON),
    "exec": _verb_without_json(_PROGRAM, changes=True),
    "ssh": _verb_without_json(_PROGRAM, changes=True),
    "ssh-config": _verb_without_json("it edits the configuration of OpenSSH", changes=True),
    "cp": _verb_without_json("it copies files; with - it reads or writes a tar archive", changes=True),
    "files": _reading_verb("FileList"),
    "top": _reading_verb("items:RunningProcess"),
    "stacks": _reading_verb("RunStacks"),
    "port": _reading_verb("Listening"),
    "port-forward": _verb_without_json("it serves ports of this machine until it is ended"),
    "secret create": _changing_verb(),
    "secret ls": _reading_verb("SecretList"),
    "secret rm": _changing_verb(),
    "volumes": _reading_verb("VolumeList"),
    "volumes rm": _changing_verb(),
    "gpus": _reading_verb("GpuBoard|PublicBoard|items:NodeView"),
    "queue": _reading_verb("QueueView"),
    "nodes": _reading_verb("NodeList|NodeView"),
    "team ls": _reading_verb("items:TeamView"),
    "team render": _verb_without_json(_MANIFESTS),
    "policy show": _reading_verb("PolicyView"),
    "policy explain": _reading_verb("items:RuleGroupView"),
    "policy check": _reading_verb("ClusterCheck"),
    "policy diff": _reading_verb("PolicyDiff"),
    "policy audit": _reading_verb("PodAudit"),
    "policy render": _verb_without_json(_MANIFESTS),
    "traffic": _reading_verb("TrafficList|RunTrafficView|TrafficHistory"),
    "network ls": _reading_verb("NetworksView"),
    "network forecast": _reading_verb("AddressForecasts"),
    "network check": _reading_verb("PathsChecked"),
    "network bench": _reading_verb("PathsMeasured"),
    "network render": _verb_without_json(_MANIFESTS),
    "network validate": _verb_without_json("it prints faults alone, and its exit code is the answer"),
    "plan network": _reading_verb("NetworkPlan"),
    "drain": _changing_verb(),
    "uncordon": _changing_verb(),
    "preflight": _changing_verb("items:NodeView"),
    "usage": _reading_verb("UsageAnswer"),
    "audit log": _reading_verb("items:AuditRow"),
    "audit clients": _reading_verb("ClientAudit"),
    "install": _changing_verb("Findings|KubernetesList"),
    "upgrade": _verb_without_json(_INSTALLER, changes=True),
    "uninstall": _verb_without_json(_INSTALLER, changes=True),
    "backup": _changing_verb("Backup|BackupCheck|BackupList"),
    "restore": _changing_verb("Restored"),
    **{verb: _verb_without_json(_PROCESS, changes=True) for verb in ("up", "demo", "node", "sim", "controller")},
    **{verb: _verb_without_json(_PROCESS) for verb in ("server", "relay", "agent", "docker", "mcp")},
    "node uninstall": _verb_without_json(_INSTALLER, changes=True),
    "agent uninstall": _verb_without_json(_INSTALLER, changes=True),
    "login": _verb_without_json(_PERSON, changes=True),
    "logout": _verb_without_json("it forgets a sign-in on this machine, and its exit code is the answer", changes=True),
    "whoami": _reading_verb("SignedIn"),
    "token create": _changing_verb("RobotToken"),
    "token ls": _reading_verb("items:Robot"),
    "token rm": _changing_verb(),
    "notify add": _changing_verb(),
    "notify ls": _reading_verb("ChannelList"),
    "notify rm": _changing_verb(),
    "notify test": _changing_verb(),
    "context ls": _reading_verb("Contexts"),
    "context show": _reading_verb("Context"),
    "context use": _changing_verb(),
    "docker context": _verb_without_json("it calls docker's own command, which prints", changes=True),
    "version": _reading_verb("Versions"),
    "completion": _verb_without_json(_MANIFESTS),
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
    """Return the address of the schema of a verb's output."""
    return f"{SCHEMAS}#/verbs/{verb.replace(' ', '%20')}"
