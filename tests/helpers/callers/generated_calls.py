"""Calls of the whole Web API with generated arguments, from its OpenAPI document.

schemathesis makes the arguments, valid ones and others. Half of them are then aimed at objects that exist, since random
names reach little code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import jsonschema_rs
import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode, SerializationContext
from schemathesis.core.result import Ok

from kajitori.api.app import openapi_document, operations

ANSWER_SECONDS = 30.0
LONG = "application/x-ndjson"
"""Content type of answers that may have no end: only their beginning is looked at."""


ZSTD, MSGPACK = "application/zstd", "application/vnd.msgpack"
for _kind in (ZSTD, MSGPACK):
    schemathesis.openapi.media_type(_kind, st.binary(max_size=100))


@schemathesis.serializer(ZSTD, MSGPACK)
def _as_it_is(_context: SerializationContext, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


_TO_NOBODY = (401, 404, 405)
"""Answers to callers without credentials: nothing else is decided before it is known who calls. A path with generated
names may be that of no operation."""


_OF_MEMBERS = ("/member-files", "/processes", "/signal", "/signal-programs")
"""Ends of the paths that need a program in a member. Members on simulated nodes have none: the answer is 501."""


@dataclass
class GeneratedCalls:
    """A running Web API, callers, and names of existing objects by parameter."""

    url: str
    callers: Mapping[str, dict[str, str]]
    """Headers by role; a caller without headers is not signed in."""
    known: Mapping[str, Sequence[str]]
    faults: dict[str, str] = field(default_factory=dict)
    """The first fault of each kind, with the call."""
    answers: dict[str, set[int]] = field(default_factory=dict)
    """Statuses by role."""
    sent: int = 0

    def make(self, examples: int, *, same: bool) -> None:
        """Send at most `examples` generated calls of each operation, each by every caller.

        With `same`, they are the same every time, and each is sent by one half of the callers, then by the other: two
        examples let every caller call every operation. Operations that delete come last, so that the others find
        something.
        """
        document = openapi_document()
        schema = schemathesis.openapi.from_dict(document)
        found = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
        assert len(found) == len(list(operations(document)))
        settings = hypothesis.settings(
            max_examples=examples,
            derandomize=same,
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        with requests.Session() as session:
            session.trust_env = False
            for number, operation in enumerate(sorted(found, key=lambda one: one.method.upper() == "DELETE")):
                cases = st.one_of(
                    operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
                    operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
                )
                checks = _Checks(document, operation.path, operation.method)
                settings(
                    hypothesis.given(case=cases, aim=self._aims())(
                        self._sending(session, checks, halves(self.callers, number) if same else None)
                    )
                )()

    def _sending(
        self, session: requests.Session, checks: _Checks, turns: Iterator[Sequence[str]] | None
    ) -> Callable[[Case[Any], dict[str, str]], None]:
        """Return a function that sends a call by every caller; with `turns`, by the callers of the next turn."""

        def send(case: Case[Any], aim: dict[str, str]) -> None:
            _aim(case, aim)
            for role in self.callers if turns is None else next(turns):
                self._send(session, checks, case, role, self.callers[role])

        return send

    def _aims(self) -> st.SearchStrategy[dict[str, str]]:
        """Return values of parameters; half of the time none."""
        fixed = st.fixed_dictionaries({name: st.sampled_from(list(values)) for name, values in self.known.items()})
        return st.one_of(st.just({}), fixed)

    def _send(
        self, session: requests.Session, checks: _Checks, case: Case[Any], role: str, headers: dict[str, str]
    ) -> None:
        asked = case.as_transport_kwargs(base_url=self.url, headers=headers)
        asked["headers"] = {name: value for name, value in dict(asked["headers"]).items() if value is not None}
        if "Authorization" not in headers:
            asked["headers"].pop("Authorization", None)
        try:
            answer = session.request(**asked, stream=True, timeout=ANSWER_SECONDS, allow_redirects=False)
        except (requests.exceptions.InvalidHeader, UnicodeError):
            return  # a client cannot send this
        with answer:
            self.sent += 1
            self.answers.setdefault(role, set()).add(answer.status_code)
            fault = checks.fault(answer, knows=bool(headers))
        if fault:
            body = asked.get("json", asked.get("data"))
            shown = f"{role}: {case.method} {asked['url']} {asked.get('params')} {body!r:.600}"
            self.faults.setdefault(f"{checks.method} {checks.path}: {fault:.160}", f"{shown} -> {fault:.1500}")


def halves(callers: Iterable[str], number: int) -> Iterator[Sequence[str]]:
    """Yield one half of the callers and the other in turns; which one is first depends on the operation's number."""
    everyone = list(callers)
    return (everyone[turn % 2 :: 2] for turn in itertools.count(number))


class _Checks:
    """What the OpenAPI document says about the answers of one operation."""

    def __init__(self, document: dict[str, Any], path: str, method: str) -> None:
        self.path, self.method = path, method.upper()
        operation = document["paths"][path][method.lower()]
        self._is_open = operation.get("security") == []
        self._responses = operation["responses"]
        self._schemas = {
            (status, kind): jsonschema_rs.validator_for({**content["schema"], "components": document["components"]})
            for status, response in self._responses.items()
            for kind, content in response.get("content", {}).items()
            if "schema" in content
        }

    def fault(self, answer: requests.Response, *, knows: bool) -> str:
        """Return the fault of an answer; empty if it has none. `knows`: the caller showed credentials."""
        status = answer.status_code
        is_expected = (status == 503 and self.path == "/readyz") or (status == 501 and self.path.endswith(_OF_MEMBERS))
        if status >= 500 and not is_expected:
            return f"{status}: {answer.text}"
        if not knows and not self._is_open and status not in _TO_NOBODY:
            return f"{status} for a caller without credentials: {answer.text:.300}"
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if str(status) not in self._responses and status < 400:
            return f"status {status} is not documented"
        where = str(status) if str(status) in self._responses else "default"
        if self.method == "HEAD" or status == 204 or kind == LONG:
            return ""
        documented = self._responses[where].get("content", {})
        if kind not in documented:
            return f"{status} with the content type {kind!r}, not {', '.join(documented)}"
        schema = self._schemas.get((where, kind))
        if schema is None or not kind.endswith("json"):
            return ""
        try:
            first = next(schema.iter_errors(answer.json()), None)
        except ValueError as error:
            return f"{status}: the body is no JSON: {error}"
        return f"{status}: {first}" if first is not None else ""


def _aim(case: Case[Any], aim: Mapping[str, str]) -> None:
    """Replace generated parameters by existing names."""
    for container in (case.path_parameters, case.query):
        for name in set(aim) & set(container or {}):
            container[name] = aim[name]
    if isinstance(case.body, dict) and "namespace" in case.body and "namespace" in aim:
        case.body["namespace"] = aim["namespace"]
