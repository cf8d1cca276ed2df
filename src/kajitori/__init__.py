"""Kajitori.

    client = kajitori.Client()
    run = client.run("python:3.11", ["python", "train.py"], gpus=1, code=".")
    run.wait(progress=True)

The names below are imported when they are first used, so that `import kajitori` takes no time.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as true; every member's first step would pay for importing typing
if TYPE_CHECKING:
    from typing import Any

    from kajitori.client.asynchronous import AsyncClient as AsyncClient
    from kajitori.client.asynchronous import AsyncRun as AsyncRun
    from kajitori.client.client import Client as Client
    from kajitori.client.client import Run as Run
    from kajitori.client.functions.calls import Call as Call
    from kajitori.client.functions.calls import CallCancelled as CallCancelled
    from kajitori.client.functions.calls import CallFailed as CallFailed
    from kajitori.client.functions.calls import as_completed as as_completed
    from kajitori.client.functions.function import Function as Function
    from kajitori.client.functions.function import function as function

__version__ = "0.1.0"

_LAZY = {
    "AsyncClient": "kajitori.client.asynchronous",
    "AsyncRun": "kajitori.client.asynchronous",
    "Call": "kajitori.client.functions.calls",
    "CallCancelled": "kajitori.client.functions.calls",
    "CallFailed": "kajitori.client.functions.calls",
    "Client": "kajitori.client.client",
    "Function": "kajitori.client.functions.function",
    "Run": "kajitori.client.client",
    "as_completed": "kajitori.client.functions.calls",
    "function": "kajitori.client.functions.function",
}

__all__ = [
    "AsyncClient",
    "AsyncRun",
    "Call",
    "CallCancelled",
    "CallFailed",
    "Client",
    "Function",
    "Run",
    "__version__",
    "as_completed",
    "function",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'kajitori' has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
