"""Images of an engine: pull policies, progress, failures and credentials."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kajitori.embedded.kubelet.engine import images
from kajitori.embedded.kubelet.engine.client import EngineClient, EngineError, split_reference
from kajitori.embedded.kubelet.engine.images import ImageNotReady, Images
from kajitori.errors import NotFound


class FakeEngine(EngineClient):
    """Has some images; a registry that has them all, or refuses."""

    def __init__(self, *present: str) -> None:
        super().__init__("/no/socket")
        self.present = set(present)
        self.refusal = ""
        self.pulls: list[str] = []
        self.goes_on = asyncio.Event()

    async def image(self, reference: str) -> dict[str, Any]:
        if reference not in self.present:
            raise NotFound("no such image")
        return {"Id": f"sha256:{reference}"}

    async def pull(self, reference: str, registry_auth: str = "") -> AsyncIterator[dict[str, Any]]:
        self.pulls.append(reference)
        yield {"id": "a", "status": "Downloading", "progressDetail": {"current": 10**9, "total": 4 * 10**9}}
        await self.goes_on.wait()
        if self.refusal:
            raise EngineError(self.refusal)
        self.present.add(reference)


class Bench:
    def __init__(self, *present: str) -> None:
        self.engine = FakeEngine(*present)
        self.now = 100.0
        self.images = Images(self.engine, lambda: self.now)
        self.events: list[tuple[str, str]] = []

    async def ensure(self, reference: str, policy: str, owner: str = "0") -> str:
        """Return the identifier of the image, or the reason why it is not ready."""
        try:
            found = await self.images.ensure(reference, policy, owner, {}, self._say)
        except ImageNotReady as error:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return f"{error.code}: {error.message}"
        return str(found["Id"])

    async def pulled(self) -> None:
        self.engine.goes_on.set()
        for pull in self.images._pulls.values():
            if pull.task is not None:
                await pull.task

    def _say(self, reason: str, message: str, is_warning: bool) -> None:
        self.events.append((reason, message))


async def test_a_present_image_is_not_pulled() -> None:
    bench = Bench("python:3.12")
    assert await bench.ensure("python:3.12", "IfNotPresent") == "sha256:python:3.12"
    assert await bench.ensure("python:3.12", "Never") == "sha256:python:3.12"
    assert not bench.engine.pulls
    assert (await bench.ensure("other", "Never")).startswith("ErrImageNeverPull: ")


async def test_a_missing_image_is_pulled_once_with_progress() -> None:
    bench = Bench()
    assert await bench.ensure("a:1", "IfNotPresent") == 'ContainerCreating: pulling image "a:1"'
    assert await bench.ensure("a:1", "IfNotPresent") == 'ContainerCreating: pulling image "a:1" (25 % of 4.0 GB)'
    await bench.pulled()
    assert await bench.ensure("a:1", "IfNotPresent") == "sha256:a:1"
    assert bench.engine.pulls == ["a:1"]
    assert [reason for reason, _ in bench.events] == ["Pulling", "Pulled"]


async def test_always_pulls_once_for_each_start() -> None:
    bench = Bench("a:1")
    bench.engine.goes_on.set()
    for owner in ("0", "1"):
        assert (await bench.ensure("a:1", "Always", owner)).startswith("ContainerCreating")
        await bench.pulled()
        assert await bench.ensure("a:1", "Always", owner) == "sha256:a:1"
    assert bench.engine.pulls == ["a:1", "a:1"]


async def test_a_refused_pull_waits_longer_each_time() -> None:
    bench = Bench()
    bench.engine.refusal = "denied: no such repository"
    bench.engine.goes_on.set()
    pauses = []
    for _ in range(7):
        await bench.ensure("a:1", "IfNotPresent")
        await bench.pulled()
        (pull,) = bench.images._pulls.values()
        pauses.append(pull.retry_at - bench.now)
        said = await bench.ensure("a:1", "IfNotPresent")
        assert "denied: no such repository" in said
        bench.now = pull.retry_at
    assert pauses == [10, 20, 40, 80, 160, 300, 300]
    assert said.startswith("ImagePullBackOff: Back-off pulling image")
    bench.engine.refusal = ""
    await bench.ensure("a:1", "IfNotPresent")
    await bench.pulled()
    assert await bench.ensure("a:1", "IfNotPresent") == "sha256:a:1"


async def test_the_first_failure_is_shown_as_such() -> None:
    bench = Bench()
    bench.engine.refusal = "denied"
    bench.engine.goes_on.set()
    await bench.ensure("a:1", "IfNotPresent")
    await bench.pulled()
    assert await bench.ensure("a:1", "IfNotPresent") == "ErrImagePull: denied"
    bench.now += 5
    assert (await bench.ensure("a:1", "IfNotPresent")).startswith("ImagePullBackOff")


@pytest.mark.parametrize(
    ("reference", "parts", "registry", "policy"),
    [
        ("python", ("python", "latest"), images.DOCKER_HUB, "Always"),
        ("team/python:3", ("team/python", "3"), images.DOCKER_HUB, "IfNotPresent"),
        ("host:5000/a/b", ("host:5000/a/b", "latest"), "host:5000", "Always"),
        ("ghcr.io/a@sha256:0f", ("ghcr.io/a", "sha256:0f"), "ghcr.io", "IfNotPresent"),
    ],
)
def test_names_of_images_are_read_as_docker_does(
    reference: str, parts: tuple[str, str], registry: str, policy: str
) -> None:
    assert split_reference(reference) == parts
    assert images.registry_of(reference) == registry
    assert images.pull_policy({"image": reference}) == policy
    assert images.pull_policy({"image": reference, "imagePullPolicy": "Never"}) == "Never"


def test_credentials_go_to_their_registry_only() -> None:
    auths = {
        "ghcr.io": {"auth": base64.b64encode(b"ada:p:w").decode()},
        images.DOCKER_HUB: {"username": "bob", "password": "x"},
    }

    def sent(reference: str) -> dict[str, str]:
        header = images.registry_auth(reference, auths)
        return json.loads(base64.urlsafe_b64decode(header)) if header else {}

    assert sent("ghcr.io/a") == {"username": "ada", "password": "p:w", "serveraddress": "ghcr.io"}
    assert sent("python")["username"] == "bob"
    assert sent("quay.io/a") == {}


def test_the_status_of_a_node_lists_the_largest_images_with_a_name() -> None:
    found: list[dict[str, Any]] = [
        {"RepoTags": ["a:1"], "RepoDigests": None, "Size": 5},
        {"RepoTags": ["<none>:<none>"], "RepoDigests": [], "Size": 7},
        {"RepoTags": ["b:1"], "RepoDigests": ["b@sha256:bb"], "Size": 9},
    ]
    assert images.images_in_status(found) == [
        {"names": ["b@sha256:bb", "b:1"], "sizeBytes": 9},
        {"names": ["a:1"], "sizeBytes": 5},
    ]
    many = [{"RepoTags": [f"a:{number}"], "Size": number} for number in range(100)]
    assert len(images.images_in_status(many)) == images.MOST_IMAGES
