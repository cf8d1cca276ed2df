"""Images that nodes have."""

from __future__ import annotations

from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import node

PYTHON = ["docker.io/library/python@sha256:aa", "docker.io/library/python:3.12"]


async def test_each_image_is_listed_once_with_the_number_of_nodes_that_have_it(world: World) -> None:
    for name, images in (
        ("n1", [{"names": PYTHON, "sizeBytes": 50}, {"names": ["bert:3"], "sizeBytes": 90}, {"names": []}]),
        ("n2", [{"names": [*PYTHON[:1], "mirror.example.org/python:3.12"], "sizeBytes": 50}]),
        ("n3", None),
    ):
        found = node(name)
        found["status"]["images"] = images
        world.kubernetes.put("nodes", found)
    answer = (await world.http.get("/v1/images")).json()
    assert answer["items"] == [
        {"names": [*PYTHON, "mirror.example.org/python:3.12"], "sizeBytes": 50, "nodes": 2},
        {"names": ["bert:3"], "sizeBytes": 90, "nodes": 1},
    ]


async def test_users_who_may_not_read_nodes_see_no_images(world: World) -> None:
    """Names of images tell what other teams work on."""
    world.kubernetes.denied.add(("mallory", "get", "nodes", "*"))
    answer = await world.http.get("/v1/images", headers={"Authorization": "Bearer mallory"})
    assert answer.status_code == 403
