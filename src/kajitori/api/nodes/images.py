"""The route about images that nodes have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, describes
from kajitori.api.views.nodes import ImageList, ImageView
from kajitori.kube.resources import NODES

router = APIRouter(tags=["cluster"])

LONGEST_SECONDS = 60.0
"""The list of a large cluster is reused for at most this time."""


class _Image(msgspec.Struct, frozen=True):
    """An image, as a kubelet reports it."""

    names: tuple[str, ...] = ()
    sizeBytes: int = 0


class _Status(msgspec.Struct, frozen=True):
    images: tuple[_Image, ...] | None = None


class NodeImages(msgspec.Struct, frozen=True):
    """A Node, read for its images alone: the mirror of all nodes leaves them out, because they take much memory."""

    status: _Status = _Status()


@router.get("/v1/images", responses=describes(ImageList), summary="Images that nodes have")
async def list_images(api: Shared, user: Caller) -> Response:
    """A run with such an image starts without a pull on the nodes that have it. Names of images tell what teams work
    on, so only users who may read nodes at the API server see them, as operators may. A kubelet reports its 50 largest
    images, unless it is configured otherwise."""
    await user.require("get", "", resource=NODES)
    body = await api.remembered.ask("images", lambda: _body(api), longest_seconds=LONGEST_SECONDS)
    return Response(body, media_type="application/json")


async def _body(api: Api) -> bytes:
    nodes: list[NodeImages] = []
    async for page in api.client.list_pages(NODES, type=NodeImages):
        if page.first:
            nodes.clear()
        nodes += page.items
    return msgspec.json.encode(ImageList(items=images_of(nodes)))


@dataclass(slots=True)
class _ImageUse:
    size_bytes: int = 0
    nodes: int = 0
    names: dict[str, None] = field(default_factory=dict)


def images_of(nodes: Iterable[NodeImages]) -> list[ImageView]:
    """Return each image once, those that most nodes have first. One digest, or one name without any, is one image."""
    images: dict[str, _ImageUse] = {}
    for node in nodes:
        for image in node.status.images or ():
            if not image.names:
                continue
            digests = [name.partition("@")[2] for name in image.names if "@" in name]
            entry = images.setdefault(digests[0] if digests else image.names[0], _ImageUse())
            entry.nodes += 1
            entry.size_bytes = max(entry.size_bytes, image.sizeBytes)
            entry.names |= dict.fromkeys(image.names)
    views = [
        ImageView(names=list(entry.names), size_bytes=entry.size_bytes, nodes=entry.nodes) for entry in images.values()
    ]
    return sorted(views, key=lambda view: (-view.nodes, view.names[0]))
