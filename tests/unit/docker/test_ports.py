"""Ports that a container publishes where the bridge runs."""

from __future__ import annotations

import socket

import pytest
from tests.unit.docker.test_containers import container

from kajitori.client.target import Target
from kajitori.docker.platform import Platform
from kajitori.docker.ports import LOOPBACK, PublishedPorts
from kajitori.docker.translation.container import Container
from kajitori.errors import InvalidInput, Unavailable


def publishing(port: str) -> Container:
    return container(notes={"HostConfig": {"PortBindings": {"80/tcp": [{"HostPort": port}]}}})


async def test_the_first_free_port_of_a_range_is_opened() -> None:
    """`docker run -p 8080-8099:80`, and Compose's `ports`, were refused."""
    ports = PublishedPorts(Platform(Target("http://127.0.0.1:1")))
    with socket.create_server((LOOPBACK, 0)) as taken:
        first = taken.getsockname()[1]
        web = publishing(f"{first}-{min(first + 50, 65535)}")
        await ports.open(web)
        opened = ports.of(web)
        assert opened is not None and first < int(opened["80/tcp"][0]["HostPort"]) <= first + 50
        ports.close_all()
        with pytest.raises(Unavailable, match=f"{LOOPBACK}:{first} can't be opened here: "):
            await ports.open(publishing(str(first)))


@pytest.mark.parametrize("text", ["80-", "x", "8099-8080", "80-65536", "1-2-3"])
async def test_what_is_no_port_is_named(text: str) -> None:
    with pytest.raises(InvalidInput, match="neither a port nor a range"):
        await PublishedPorts(Platform(Target("http://127.0.0.1:1"))).open(publishing(text))
