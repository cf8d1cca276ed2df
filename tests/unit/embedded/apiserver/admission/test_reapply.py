"""Objects that a platform applies at every start: their expressions are compiled only if they changed."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.harness.servers.embedded_server import APPLY, EmbeddedServer, embedded_server
from tests.helpers.objects.custom_resource import definition

from kajitori.core.admission.owner_policy import owner_policy
from kajitori.core.kubernetes.cel import Scope
from kajitori.core.spec.definition import custom_resource_definition
from kajitori.embedded.apiserver.strategies.custom_kinds import rules

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
async def api() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server() as server:
        yield server


async def test_a_changed_schema_is_checked_again(api: EmbeddedServer) -> None:
    """Also one that differs only in a type: in Python, 1 and true are equal."""
    wanted = definition()
    version = wanted["spec"]["versions"][1]
    version["schema"] = copy.deepcopy(version["schema"])
    size = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
    size["default"] = 1
    assert await apply(api, DEFINITIONS, wanted) == 201
    size["default"] = True
    assert await apply(api, DEFINITIONS, wanted) == 422


async def apply(api: EmbeddedServer, path: str, wanted: dict[str, Any]) -> int:
    place = f"{path}/{wanted['metadata']['name']}?fieldManager=kajitori&force=true"
    return (await api.call("PATCH", place, wanted, content_type=APPLY)).code


@pytest.mark.parametrize(("path", "wanted"), [(POLICIES, owner_policy()), (DEFINITIONS, custom_resource_definition())])
async def test_unchanged_expressions_are_not_compiled_again(
    api: EmbeddedServer, path: str, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart does not load the library for CEL, which takes 15 MB and a twentieth of a second."""
    assert await apply(api, path, wanted) == 201
    rules._compile_rule.cache_clear()
    compiled: list[str] = []
    monkeypatch.setattr(Scope, "compile", lambda self, text, *results: compiled.append(text))
    assert await apply(api, path, wanted) == 200
    assert compiled == []
