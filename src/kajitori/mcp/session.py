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
    """Finds the server when a tool needs it, and again after it was away: assistants start their tools before people
    start a `kaji up` or sign in."""

    def __init__(self, connect: Callable[[], Client], *, allows_changes: bool = False) -> None:
        self._connect = connect
        self._client: Client | None = None
        self.allows_changes = allows_changes

    @property
    def sync(self) -> Client:
        """The synchronous client. Raises Unavailable, InvalidInput or Unauthenticated if there is no server to use."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    @property
    def client(self) -> AsyncClient:
        """The client for asyncio; errors as for `sync`."""
        return AsyncClient.of(self.sync)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no answer may contain."""
        token = self._client.target.token if self._client is not None else ""
        return (token,) if token else ()

    def failed(self, error: Exception) -> None:
        """Take note of an error: after some, the server is looked for again."""
        if isinstance(error, Unavailable | Unauthenticated) and self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()

    async def get(self, path: str, params: Params | None = None) -> Any:
        """Return the JSON of a GET of the Web API."""
        return await asyncio.to_thread(self.sync.api.get, path, params)

    async def view(self, run: str, *, or_removed: bool = False) -> View:
        """Return the view of the run that a text names. Raises NotFound, and InvalidInput if there are several."""
        sync = self.sync
        return await asyncio.to_thread(find_run, sync.api, run, sync.namespace or None, or_removed=or_removed)

    async def view_to_change(self, run: str) -> View:
        """Return the view of the run with this very name: the beginning of a name is not enough to change a run."""
        view = await self.view(run)
        if view["name"] != run.rpartition("/")[2]:
            hint = f"write the whole name: {view['namespace']}/{view['name']}"
            raise InvalidInput.one("run", "is only the beginning of a name", value=run, hint=hint, code="Ambiguous")
        return view
