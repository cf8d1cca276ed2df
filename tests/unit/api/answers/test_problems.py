"""Every type of error as an HTTP answer."""

from __future__ import annotations

import pytest

from kajitori import errors
from kajitori.api.answers.problems import bug_response, error_response, problem_of
from kajitori.errors import Fault, KajitoriError
from kajitori.kube.errors import error_from_status

TREE: list[tuple[KajitoriError, int, str]] = [
    (errors.InvalidInput([Fault("a", "b")]), 422, "Invalid"),
    (errors.Refused([Fault("a", "b"), Fault("c", "d")]), 422, "Refused"),
    (errors.NotFound("x"), 404, "NotFound"),
    (errors.AlreadyExists("x"), 409, "AlreadyExists"),
    (errors.WrongState("x"), 409, "WrongState"),
    (errors.Conflict("x"), 409, "Conflict"),
    (errors.Unauthenticated("x"), 401, "Unauthenticated"),
    (errors.Forbidden("x"), 403, "Forbidden"),
    (errors.TooLarge("x"), 413, "TooLarge"),
    (errors.Unavailable("x"), 503, "Unavailable"),
    (errors.Unsupported("x"), 501, "Unsupported"),
    (errors.KajitoriError("x"), 500, "Internal"),
]


@pytest.mark.parametrize(("error", "status", "code"), TREE, ids=lambda error: getattr(error, "code", None))
def test_each_error_type_has_a_status_and_a_code(error: KajitoriError, status: int, code: str) -> None:
    """The answer has every fault."""
    problem = problem_of(error)
    assert (problem.status, problem.code, problem.type) == (status, code, f"tag:kajitori.dev,2026:{code}")
    assert len(problem.faults) == len(getattr(error, "faults", ()))
    assert error_response(error).status_code == status


ANSWERS = {400: 422, 401: 401, 403: 403, 404: 404, 409: 409, 410: 409, 413: 413, 418: 502, 422: 422, 429: 429, 500: 503}
ANSWERS |= {501: 501, 504: 503}


@pytest.mark.parametrize(("kubernetes", "status"), ANSWERS.items())
def test_an_error_of_the_api_server_is_never_an_internal_error(kubernetes: int, status: int) -> None:
    error = error_from_status({"message": "x", "code": kubernetes, "details": {"retryAfterSeconds": 7}})
    response = error_response(error)
    assert response.status_code == status
    assert response.headers.get("retry-after") == ("7" if status in (429, 503) else None)


def test_an_internal_error_shows_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """The caller gets a number, under which the log has the traceback."""
    try:
        raise ZeroDivisionError("internal matters")
    except ZeroDivisionError as error:
        response = bug_response(error)
    body = bytes(response.body).decode()
    assert response.status_code == 500
    assert "internal matters" not in body
    number = body.partition("under ")[2][:8]
    assert number in caplog.text
    assert "internal matters" in caplog.text
