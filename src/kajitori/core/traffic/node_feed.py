"""What a relay tells about the Pods of one node: JSON objects, one a line."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kajitori.core.traffic.totals import Pod

PATH = "/v1/nodes/{node}/pods"
SINCE = "since"
"""Query parameter: the stamp of the last line that was heard. Where nothing changed since, nothing is told again."""

ALIVE_SECONDS = 10.0
"""A line comes at least this often, so that whoever hears nothing for longer knows that the relay is gone."""

SILENCE_SECONDS = 30.0
"""After so long without a line a client asks another relay."""


class Line(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What is so now, or how it differs from the line before."""

    stamp: str
    """Stands for all that was told of the node up to here, as long as this relay lives."""
    whole: bool = False
    """These are all of the node's Pods: what else was known is gone."""
    pods: tuple[Pod, ...] = ()
    """Came, or changed."""
    gone: tuple[str, ...] = ()
    """UIDs of those that left, or whose containers have ended for good."""
    age_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """How long ago this was known to be so; more than nothing while the API server is away."""


encode_line = msgspec.json.Encoder().encode
decode_line = msgspec.json.Decoder(Line).decode
