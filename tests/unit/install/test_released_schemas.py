"""Runs that released versions stored stay valid, by the rules of docs/operate/run-compatibility.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kajitori import __version__
from kajitori.core.naming.names import VERSION
from kajitori.core.spec.definition import custom_resource_definition
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.install.versions import breaks, step_fault

FOLDER = Path(__file__).parent / "released"
RELEASED = sorted(path.stem for path in FOLDER.glob("*.yaml"))
STORED: dict[str, dict[str, Any]] = {
    "0.1.0": {
        "type": "batch",
        "image": "registry/bert:3",
        "command": ["python", "train.py"],
        "env": {"LR": "3e-4"},
        "replicas": 4,
        "launcher": "torchrun",
        "resources": {"cpu": 8, "memory": "64Gi", "gpu": 8, "gpuType": "h100", "shm": "16Gi", "wholeNode": False},
        "volumes": [{"name": "imagenet", "path": "/data", "readOnly": True}],
        "checkpoint": {"path": "/ckpt", "size": "100Gi"},
        "restarts": 10,
        "priority": "normal",
        "timeLimit": "7d",
        "grace": "60s",
        "ports": [8888],
    }
}
"""A spec as each version stores it."""


def current() -> dict[str, Any]:
    """Return the schema of this version."""
    (version,) = [version for version in custom_resource_definition()["spec"]["versions"] if version["name"] == VERSION]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def test_the_schema_of_this_version_is_stored() -> None:
    """With a new version, store its schema: later versions are compared with it."""
    minor = re.match(r"\d+\.\d+", __version__)
    assert minor is not None and f"{minor[0]}.0" in RELEASED == sorted(STORED)


@pytest.mark.parametrize("released", RELEASED)
def test_specs_that_a_released_version_accepted_are_accepted(released: str) -> None:
    """No field is removed, restricted or newly required, for every version that this one may follow."""
    if step_fault(released, __version__) is not None:
        pytest.skip(f"{__version__} does not follow {released} directly")
    schema = yaml.safe_load((FOLDER / f"{released}.yaml").read_text())
    way_out = "keep what it accepted; if that version is not released yet, store its schema: docs/generate.py --schema"
    assert list(breaks(schema, current())) == [], way_out


@pytest.mark.parametrize("released", RELEASED)
def test_a_stored_spec_keeps_its_meaning(released: str) -> None:
    """Read and written again it is the same, with the defaults that this version adds."""
    found = parse_spec(STORED[released])
    assert parse_spec(found.model_dump(by_alias=True, mode="json")) == found
    assert (found.replicas, found.resources.gpus, found.grace_seconds, found.time_limit_seconds) == (4, 8, 60, 604800)
    assert (found.launcher, found.checkpoint and found.checkpoint.path, found.ports) == ("torchrun", "/ckpt", [8888])
