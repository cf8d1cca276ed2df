"""Faulty specs: how each is written in YAML and on the command line, and what the answer must name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SPEC: dict[str, Any] = {
    "image": "bert:3",
    "command": ["train"],
    "resources": {"cpu": 1, "memory": "1Gi"},
    "grace": "2s",
}
"""A spec without a fault."""


@dataclass(frozen=True)
class Case:
    """A fault, how it is written in each of the three ways, and what the answer must name."""

    spec: dict[str, Any]
    arguments: tuple[str, ...]
    fields: tuple[str, ...]
    words: tuple[str, ...] = ()
    resources: dict[str, Any] = field(default_factory=dict)
    option: str = ""
    """A word that must be in the error of the command line, besides `words`."""
    refused_at_once: tuple[str, ...] = ()
    """Parts of the API server's answer if the schema refuses the Run, so that `kubectl apply` fails."""

    @property
    def whole(self) -> dict[str, Any]:
        return {**SPEC, "resources": {**SPEC["resources"], **self.resources}, **self.spec}


WHOLE_NODE = {"gpu": 8, "gpuType": "h100"}
CASES = {
    "unknown-gpu-type": Case(
        {},
        ("--gpus", "1", "--gpu-type", "b300"),
        ("spec.resources.gpuType",),
        ("b300", "known: h100"),
        {"gpu": 1, "gpuType": "b300"},
        "--gpu-type",
    ),
    "more-gpus-than-any-node": Case(
        {}, ("--gpus", "9"), ("spec.resources.gpu",), ("9", "no", "more than 8"), {"gpu": 9}, "--gpus"
    ),
    "more-cores-than-any-node": Case(
        {}, ("--cpus", "4000"), ("spec.resources.cpu",), ("4000", "more than 32"), {"cpu": 4000}, "--cpus"
    ),
    "larger-than-the-cluster": Case(
        {"replicas": 9},
        ("-n", "9", "--gpus", "8", "--gpu-type", "h100"),
        ("spec.replicas",),
        ("9 members", "8"),
        WHOLE_NODE,
        "--replicas",
    ),
    "unparsable-quantities": Case(
        {"timeLimit": "soon"},
        ("--cpus", "many", "-m", "1Qi", "--time-limit", "soon"),
        ("spec.resources.cpu", "spec.resources.memory", "spec.timeLimit"),
        ("many", "1Qi", "soon"),
        {"cpu": "many", "memory": "1Qi"},
        refused_at_once=("spec.resources.memory", "write a size", "spec.timeLimit", "write seconds, or a time"),
    ),
    "negative-quantities": Case(
        {"replicas": -1, "restarts": -2},
        ("--cpus", "-1", "-m", "-1g", "--gpus", "-3", "-n", "-1", "--restarts", "-2"),
        ("spec.resources.cpu", "spec.resources.memory", "spec.resources.gpu", "spec.replicas", "spec.restarts"),
        (),
        {"cpu": -1, "memory": "-1Gi", "gpu": -3},
        "--gpus",
        ("a run has at least one member", "spec.restarts", "spec.resources.gpu", "spec.resources.memory"),
    ),
    "request-above-limit": Case(
        {"qos": "burstable"},
        (),
        ("spec.resources.cpuRequest", "spec.resources.memoryRequest"),
        ("above the limit",),
        {"cpuRequest": 4, "memoryRequest": "2Gi"},
    ),
    "unknown-fields": Case(
        {"replica": 3},
        (),
        ("spec.replica", "spec.resources.gpuTipe"),
        ("replicas", "gpuType"),
        {"gpuTipe": "h100"},
    ),
    "unknown-volume": Case(
        {"volumes": [{"name": "imagnet", "path": "/data"}]},
        ("-v", "imagnet:/data"),
        ("spec.volumes[0].name",),
        ("imagnet", "imagenet"),
        option="-v",
    ),
    "forbidden-mount-and-privilege": Case(
        {
            "volumes": [{"hostPath": "/etc", "path": "/etc"}],
            "privileged": True,
            "hostNetwork": True,
            "user": "0",
        },
        ("-v", "/etc:/etc", "--privileged", "--network", "host", "--user", "0"),
        ("spec.volumes[0].hostPath", "spec.privileged", "spec.hostNetwork", "spec.user"),
        ("/etc", "privileged", "root"),
        option="--privileged",
    ),
    "forbidden-mount-in-disguise": Case(
        {"volumes": [{"hostPath": "/srv/data/../../etc", "path": "/data"}]},
        ("-v", "/srv/data/../../etc:/data"),
        ("spec.volumes[0].hostPath",),
        ("/etc",),
    ),
    "too-much-text": Case(
        {"env": {"NOVEL": "x" * 100_000, "SEQUEL": "x" * 100_000}},
        ("-e", f"NOVEL={'x' * 100_000}", "-e", f"SEQUEL={'x' * 100_000}"),
        ("spec",),
        ("131072 are allowed",),
    ),
    "too-many-labels": Case(
        {
            "labels": {f"label-{number}": "x" for number in range(2000)},
            "nodeSelector": {f"label-{number}": "x" for number in range(2000)},
        },
        (),
        ("spec.labels", "spec.nodeSelector"),
        refused_at_once=("spec.labels: Too many", "spec.nodeSelector: Too many"),
    ),
    "faulty-and-refused": Case(
        {"privileged": True, "timeLimit": "soon", "volumes": [{"path": "no"}, {"name": "ghost", "path": "/g"}]},
        ("--privileged", "--time-limit=soon", "-vhere", "-vghost:/g", "-mlots", "--gpus=1", "--gpu-type=b300"),
        (
            "spec.privileged",
            "spec.timeLimit",
            "spec.volumes[0].path",
            "spec.volumes[1].name",
            "spec.resources.memory",
            "spec.resources.gpuType",
        ),
        ("soon", "ghost", "lots", "b300"),
        resources={"memory": "lots", "gpu": 1, "gpuType": "b300"},
        option="here",
        refused_at_once=("spec.timeLimit", "spec.volumes[0].path", "begin it with /", "spec.resources.memory"),
    ),
    "nothing-but-nonsense": Case(
        {"image": "UPPER CASE", "launcher": "tourchrun", "volumes": [{"name": "imagenet", "path": "data"}]},
        ("--launcher", "tourchrun", "-v", "imagenet:data"),
        ("spec.image", "spec.launcher", "spec.volumes[0].path"),
        ("torchrun",),
        refused_at_once=("spec.launcher", "torchrun"),
    ),
}
