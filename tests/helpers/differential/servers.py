"""The two servers that are compared, with the same custom resources."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.harness.servers.embedded_server import embedded_server
from tests.harness.servers.real_server import RealServer, running_real_server
from tests.helpers.differential.lockstep import Pair, connection
from tests.helpers.differential.operations import Operation
from tests.helpers.objects.custom_resource import definition

from kajitori.core.spec.definition import custom_resource_definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def real_server() -> contextlib.AbstractContextManager[RealServer]:
    """Start a real API server without the admission plugins that have no effect without controllers."""
    return running_real_server("--disable-admission-plugins=TaintNodesByCondition,StorageObjectInUseProtection")


@asynccontextmanager
async def pair_of(real: RealServer) -> AsyncIterator[Pair]:
    """Start an embedded server beside the real one."""
    async with embedded_server(controllers=False) as embedded:
        real_trust = ssl.create_default_context(cafile=str(real.config.ca_file))
        our_trust = ssl.create_default_context(cafile=str(embedded.certificates.ca))
        async with (
            connection("ours", embedded.url, embedded.token, our_trust) as ours,
            connection("real", real.config.server, real.tokens["admin"], real_trust) as theirs,
        ):
            pair = Pair(ours, theirs)
            for body in definitions():
                await pair.everywhere(Operation("POST", DEFINITIONS, body))
            for path in ("/apis/sea.example/v1/boats", "/apis/sea.example/v1alpha1/boats"):
                await pair.until_served(path)
            await pair.until_served("/apis/kajitori.dev/v1alpha1/runs")
            yield pair


def definitions() -> tuple[dict[str, Any], ...]:
    """Return the definitions of the custom resources in the catalogue."""
    return _boats(), custom_resource_definition()


def _boats() -> dict[str, Any]:
    """Return the definition of boats with different schemas: a real server refuses selectable fields if all versions
    share one schema."""
    body: dict[str, Any] = json.loads(json.dumps(definition()))
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "As boats were."
    return body
