"""Images as Docker's clients see them."""

from __future__ import annotations

import pytest
from tests.unit.docker.test_containers import container

from kajitori.docker.translation.images import familiar_name, find, fits, gathered, image_id
from kajitori.docker.translation.inspection import summary

ON_NODES = [
    {"names": ["docker.io/library/python@sha256:aa", "docker.io/library/python:3.12"], "sizeBytes": 50, "nodes": 3},
    {"names": ["registry.example.org:5000/ml/bert:3"], "sizeBytes": 90, "nodes": 1},
]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("busybox", "busybox:latest"),
        ("docker.io/library/busybox:1", "busybox:1"),
        ("docker.io/team/web", "team/web:latest"),
        ("localhost:5000/web", "localhost:5000/web:latest"),
        ("web@sha256:aa", "web@sha256:aa"),
    ],
)
def test_names_are_those_that_dockers_clients_show(name: str, shown: str) -> None:
    assert familiar_name(name) == shown


def test_images_of_nodes_of_runs_and_of_pulls_are_listed_once() -> None:
    """`docker images` once listed images of runs only."""
    runs = [container(spec={"image": "python:3.12"}), container(spec={"image": "alpine"}, uid="u2")]
    found = gathered(ON_NODES, runs, ["alpine:latest", "redis:7"])
    assert [one.names for one in found] == [
        ["python:3.12", "python@sha256:aa"],
        ["registry.example.org:5000/ml/bert:3"],
        ["alpine:latest"],
        ["redis:7"],
    ]
    shown = found[0].summary()
    assert (shown["Size"], shown["Containers"], shown["RepoTags"]) == (50, 1, ["python:3.12"])
    assert shown["Id"] == summary(runs[0], 0.0)["ImageID"]


def test_an_image_is_found_by_name_and_id() -> None:
    """A name that nothing knows is none: `docker inspect` of a wrong name once showed an image."""
    images = gathered(ON_NODES, [], [])
    for reference in ("python:3.12", "docker.io/library/python:3.12", "python@sha256:aa", images[0].id[:19]):
        assert find(images, reference) is images[0]
    assert find(images, images[0].id.removeprefix("sha256:")[:12]) is images[0]
    assert find(images, "python") is None and find(images, "nope") is None
    assert image_id("python") == image_id("docker.io/library/python:latest")


def test_an_image_is_as_old_as_the_users_first_run_with_it() -> None:
    """`docker compose images` showed an age of 292 years."""
    used, unused = gathered(ON_NODES, [container(spec={"image": "python:3.12"}, createdAt="2026-11-29T06:00:00Z")], [])
    assert used.inspection()["Created"] == used.inspection()["Metadata"]["LastTagTime"] == "2026-11-29T06:00:00Z"
    assert "Created" not in unused.inspection()


def test_filters_by_reference() -> None:
    python, bert = gathered(ON_NODES, [], [])
    assert all(fits(python, text) for text in ("python", "python:3.12", "pyth*", "docker.io/library/python"))
    assert fits(bert, "registry.example.org:5000/ml/bert") and not fits(bert, "python")
