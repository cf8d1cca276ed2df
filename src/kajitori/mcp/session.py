"""The connection of the tools: the Python client, as the person who started the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kajitori.client.asynchronous import AsyncClient
from kajitori.client.client import Client
from kajitori.client.lookup import find_run
from kajitori.client.web_api import Params
from kajitori.errors import InvalidInput, Unauthenticated, Unavailable

View = dict[str, Any]


class Session:
    """Connects to the server when a tool first needs it, and again after the connection failed.

    An assistant often starts `kaji mcp` before the person starts `kaji up` or signs in.
    """

    def __init__(self, connect: Callable[[], Client], *, allows_changes: bool = False) -> None:
        self._connect = connect
        self._client: Client | None = None
        self.allows_changes = allows_changes

    @property
    def sync(self) -> Client:
        """The synchronous client. Raises Unavailable, InvalidInput or Unauthenticated if no server can be used."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    @property
    def client(self) -> AsyncClient:
        """The asyncio client. It raises the same errors as `sync`."""
        return AsyncClient.of(self.sync)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not be in an answer."""
        token = self._client.target.token if self._client is not None else ""
        return (token,) if token else ()

    def failed(self, error: Exception) -> None:
        """Drop the connection if this error means that it is broken. The next tool call connects again."""
        if isinstance(error, Unavailable | Unauthenticated) and self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()

    async def get(self, path: str, params: Params | None = None) -> Any:
        """Send a GET request to the Web API and return the JSON."""
        return await asyncio.to_thread(self.sync.api.get, path, params)

    async def view(self, run: str, *, or_removed: bool = False) -> View:
        """Return the view of the run with this name or beginning of a name. Raises NotFound, or InvalidInput if several
        runs match."""
        sync = self.sync
        return await asyncio.to_thread(find_run, sync.api, run, sync.namespace or None, or_removed=or_removed)

    async def view_to_change(self, run: str) -> View:
        """Return the view of the run with exactly this name. A run must not be changed by the beginning of its name."""
        view = await self.view(run)
        if view["name"] != run.rpartition("/")[2]:
            hint = f"write the whole name: {view['namespace']}/{view['name']}"
            raise InvalidInput.one("run", "is only the beginning of a name", value=run, hint=hint, code="Ambiguous")
        return view
