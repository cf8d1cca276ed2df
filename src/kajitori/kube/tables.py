"""Lists as `kubectl get` shows them: some cells of each object, and its metadata."""

from __future__ import annotations

from typing import Any

import msgspec

from kajitori.kube.client import KubeClient
from kajitori.kube.decoding import decode
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import Resource

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
"""The only accepted format, so that an API server never answers whole objects instead."""
PAGE_SIZE = 500


class _Column(msgspec.Struct):
    name: str


class _Partial(msgspec.Struct):
    metadata: ObjectMeta


class _TableRow(msgspec.Struct):
    cells: list[Any]
    object: _Partial


class _ListMeta(msgspec.Struct, rename={"continue_": "continue"}):
    continue_: str = ""


class _Table(msgspec.Struct, rename="camel"):
    column_definitions: list[_Column] = []
    rows: list[_TableRow] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class Row(msgspec.Struct, frozen=True):
    """One object of a table."""

    metadata: ObjectMeta
    cells: dict[str, Any]
    """Cells by the column's title in lower case."""


async def list_table(client: KubeClient, resource: Resource, namespace: str) -> list[Row]:
    """Return a row for each object of a namespace. Raises the same errors as `KubeClient.list`."""
    rows: list[Row] = []
    titles: list[str] = []
    params = {"limit": str(PAGE_SIZE), "includeObject": "Metadata"}
    while True:
        answer = await client.request("GET", resource.path(namespace), params=params, headers={"Accept": TABLE})
        table = decode(answer, _Table)
        titles = [column.name.lower() for column in table.column_definitions] or titles  # only the first page has them
        rows += [Row(row.object.metadata, dict(zip(titles, row.cells, strict=False))) for row in table.rows or ()]
        if not table.metadata.continue_:
            return rows
        params["continue"] = table.metadata.continue_
