"""The feed of a relay about the Pods of one node: JSON objects, one per line."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kajitori.core.traffic.totals import Pod

PATH = "/v1/nodes/{node}/pods"
SINCE = "since"
"""Query parameter: the stamp of the last line received. The relay repeats nothing if nothing changed since."""

ALIVE_SECONDS = 10.0
"""Longest time between two lines; a client that waits longer knows that the relay is gone."""

MAX_SILENCE_SECONDS = 30.0
"""Time without a line after which a client changes to another relay."""


class Line(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The present state of the node's Pods, or the difference from the line before."""

    stamp: str
    """Identifies everything sent about the node up to this line, for the lifetime of this relay."""
    whole: bool = False
    """Whether `pods` are all Pods of the node, so that the client drops all others."""
    pods: tuple[Pod, ...] = ()
    """Pods that are new or changed."""
    gone: tuple[str, ...] = ()
    """UIDs of Pods that were deleted, or that have ended for good."""
    age_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Age of this state; greater than 0 while the API server is unreachable."""


encode_line = msgspec.json.Encoder().encode
decode_line = msgspec.json.Decoder(Line).decode
