"""deploy/Dockerfile, the image of Kajitori's own parts; and the manifests that isolate these parts in a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.harness.platform.images import ImageBuilder, image_builder, needed_by

from kajitori import __version__

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
DOCKERFILES = {"parts": DEPLOY / "Dockerfile", "members": DEPLOY / "image" / "Dockerfile"}


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((DEPLOY / name).read_text()) if document]


def pod_of(name: str) -> dict[str, Any]:
    (found,) = [document for document in documents(name) if document["kind"] in ("Deployment", "DaemonSet")]
    template: dict[str, Any] = found["spec"]["template"]
    return template


@pytest.mark.parametrize("image", DOCKERFILES)
def test_an_image_has_hashed_requirements_and_runs_without_root(image: str) -> None:
    """The base is an argument, so it can be pinned by digest; every copied path exists."""
    text = DOCKERFILES[image].read_text().replace("\\\n", " ")
    assert set(re.findall(r"^FROM (\S+)", text, re.M)) == {"${PYTHON}"}
    assert "PYTHON=python@sha256:" in text
    assert "--require-hashes" in text
    user = re.findall(r"^USER (\d+):(\d+)", text, re.M)[-1]
    assert "0" not in user
    for line in re.findall(r"^COPY (.*)", text, re.M):
        for source in [] if line.startswith("--from") else line.split()[:-1]:
            assert (ROOT / source).exists(), source


def test_each_image_is_built_under_the_name_that_the_manifests_use() -> None:
    """The image of members has its own name, which is not that of the parts' image."""
    tag = re.compile(r"-t registry\.example\.org/(\S+)")
    found = {image: match[1] for image, path in DOCKERFILES.items() if (match := tag.search(path.read_text()))}
    (asked,) = [
        container
        for container in pod_of("server.yaml")["spec"]["containers"][0]["args"]
        if "--member-image" in container
    ]
    assert f"--member-image={found['members']}" == asked
    for name in ("server.yaml", "controller.yaml", "relay.yaml", "agent.yaml"):
        assert {container["image"] for container in pod_of(name)["spec"]["containers"]} == {found["parts"]}


def test_the_requirements_of_members_are_those_of_the_lock_file() -> None:
    """They are one dependency with the hashes of requirements.lock."""
    lines = (DEPLOY / "image" / "requirements.txt").read_text().splitlines()
    assert len([line for line in lines if not line.startswith(" ")]) == 1 < len(lines)
    assert "\n".join(lines) in (ROOT / "requirements.lock").read_text()


def test_only_ports_that_are_served_can_be_reached() -> None:
    """In the namespace no other ports can be reached."""
    policies = {document["metadata"]["name"]: document["spec"] for document in documents("networkpolicies.yaml")}
    assert policies.pop("kajitori-default") == {"podSelector": {}, "policyTypes": ["Ingress"]}
    for part in ("server", "controller", "relay"):
        spec, pod = policies.pop(f"kajitori-{part}"), pod_of(f"{part}.yaml")
        assert spec["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        open_ports = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
        (container,) = pod["spec"]["containers"]
        assert open_ports == {port["containerPort"] for port in container["ports"]}
    assert not policies


@pytest.mark.parametrize("part", ["server", "controller", "relay"])
def test_probes_use_a_port_of_the_part(part: str) -> None:
    (container,) = pod_of(f"{part}.yaml")["spec"]["containers"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in {port["name"] for port in container["ports"]}


@pytest.fixture
def images() -> Iterator[ImageBuilder]:
    with image_builder() as builder:
        yield builder


@pytest.mark.timeout(600)
async def test_the_built_image_runs_kaji_version(images: ImageBuilder) -> None:
    """It is built from the unchanged Dockerfile with hashes, and its user can write to nothing of it."""
    await images.base(needed_by("kajitori[server]", "hatchling"))
    await images.build("deploy/Dockerfile", "localhost/kajitori")
    done = await images.run("localhost/kajitori", "kaji", "--version")
    assert (done.returncode, done.stdout) == (0, f"kaji {__version__}\n"), done
    server = await images.run("localhost/kajitori", "kaji", "server", "--port", "0")
    assert "no Kubernetes cluster is configured" in server.stderr, "its libraries are there"
    user = await images.run("localhost/kajitori", "/usr/bin/id", "-u")
    assert user.stdout == "65532\n"
    writable = await images.run("localhost/kajitori", "/usr/bin/find", "/opt/kajitori", "!", "-type", "l", "-writable")
    assert (writable.returncode, writable.stdout) == (0, ""), writable
