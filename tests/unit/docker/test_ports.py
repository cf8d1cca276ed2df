"""Ports that a container publishes where the bridge runs."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from tests.unit.docker.test_containers import container

from kajitori.client.target import Target
from kajitori.docker.engine import Engine
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


class Deleting(Platform):
    """A server that remembers which runs were deleted."""

    def __init__(self) -> None:
        super().__init__(Target("http://127.0.0.1:1"))
        self.deleted: list[tuple[str, bool]] = []

    async def delete(self, container: Container, *, at_once: bool, checkpoint: bool = False) -> None:
        self.deleted.append((container.name, at_once))


@pytest.mark.parametrize("removes", [True, False])
async def test_a_container_with_rm_whose_port_is_taken_is_removed(removes: bool) -> None:
    """As Docker's daemon does. Its client waits for that, so `docker run --rm -p` did not end."""
    platform = Deleting()
    with socket.create_server((LOOPBACK, 0)) as taken:
        ports = {"80/tcp": [{"HostPort": str(taken.getsockname()[1])}]}
        web = container("Stopped", notes={"HostConfig": {"PortBindings": ports, "AutoRemove": removes}})
        with pytest.raises(Unavailable, match="can't be opened here"):
            await Engine(platform).start(web)
    assert platform.deleted == ([(web.name, True)] if removes else [])


class OneMember(Platform):
    """A server on this machine, with a run whose member has this address."""

    def __init__(self, address: str) -> None:
        super().__init__(Target("http://127.0.0.1:1"))
        self.address = address

    async def members(self, container: Container) -> list[dict[str, Any]]:
        return [{"rank": 0, "address": self.address}]


@pytest.mark.parametrize(("address", "is_the_programs"), [(LOOPBACK, True), ("192.0.2.7", False)])
async def test_a_port_that_the_program_opens_on_this_machine_is_left_to_it(address: str, is_the_programs: bool) -> None:
    """`docker run -p 8080:8080` on `kaji up` took the port away from the program, which ended with "address in use"."""
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    asked = {"HostConfig": {"PortBindings": {f"{port}/tcp": [{"HostPort": str(port)}]}}}
    ports = PublishedPorts(OneMember(address))
    await ports.open(container("Queued", notes=asked))
    assert ports.of(container()) == {f"{port}/tcp": [{"HostIp": LOOPBACK, "HostPort": str(port)}]}
    assert is_free(port), "as long as it does not run"
    await ports.settle(container(notes=asked))
    assert is_free(port) == is_the_programs
    ports.close_all()
    with socket.create_server((LOOPBACK, port)):  # the program, which the next bridge finds running
        if is_the_programs:
            await ports.open(container(notes=asked))
        else:
            with pytest.raises(Unavailable, match=f"{LOOPBACK}:{port} can't be opened here: "):
                await ports.open(container(notes=asked))


def is_free(port: int) -> bool:
    try:
        with socket.create_server((LOOPBACK, port)):
            return True
    except OSError:
        return False


@pytest.mark.parametrize("text", ["80-", "x", "8099-8080", "80-65536", "1-2-3"])
async def test_what_is_no_port_is_named(text: str) -> None:
    with pytest.raises(InvalidInput, match="neither a port nor a range"):
        await PublishedPorts(Platform(Target("http://127.0.0.1:1"))).open(publishing(text))
