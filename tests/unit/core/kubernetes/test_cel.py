"""CEL expressions: compiled when they are written, evaluated on JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.kubernetes.cel import ExpressionError, Scope

TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)


def result(text: str, **values: Any) -> Any:
    return Scope(tuple(values)).compile(text).evaluate(values)


@given(JSON)
def test_a_literal_evaluates_to_its_value(value: Any) -> None:
    assert result("x", x=value) == value
    assert result("x == x", x=value) is True


@pytest.mark.parametrize("value", ["team\0x", {"\0": None}, [{"name": "a\0"}]])
def test_a_text_with_nul_is_refused_not_cut_off(value: Any) -> None:
    """The library cuts texts off at NUL: "team\\0x" would equal "team" and pass a policy that compares names."""
    with pytest.raises(ExpressionError, match="NUL"):
        result("x == x", x=value)


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    """Any text that is no expression raises ExpressionError."""
    try:
        expression = Scope(("object",)).compile(text)
        expression.evaluate({"object": {}})
    except ExpressionError as error:
        assert error.message


def test_an_authorizer_asks_about_each_part_of_an_access() -> None:
    asked: list[dict[str, Any]] = []

    def check(attributes: Any) -> str:
        asked.append(dict(attributes))
        return "" if attributes["user"]["username"] == "ada" else "no role"

    text = "authorizer.group('g').resource('r').subresource('s').namespace(x).name('n').check('update')"
    scope = Scope(("x",), check=check)
    allowed, reason = scope.compile(f"{text}.allowed()", "bool"), scope.compile(f"{text}.reason()", "string")
    for name, answers in (("ada", (True, "")), ("grace", (False, "no role"))):
        values = {"authorizer": {"user": {"username": name}}, "x": "team"}
        assert (allowed.evaluate(values), reason.evaluate(values)) == answers
    parts = {"group": "g", "resource": "r", "subresource": "s", "namespace": "team", "name": "n", "verb": "update"}
    assert asked[0] == {"user": {"username": "ada"}, **parts}
    with pytest.raises(ExpressionError):
        Scope(("x",)).compile(text)


def test_expensive_expressions_are_aborted() -> None:
    """Nested loops over a large object end with an error and do not block the server for minutes."""
    text = "x.all(a, x.all(b, x.all(c, a == b || b == c || true)))"
    with pytest.raises(ExpressionError):
        result(text, x=list(range(3000)))


def test_a_number_too_large_for_the_language_is_an_error() -> None:
    with pytest.raises(ExpressionError, match="out of range"):
        result("x.big == 1", x={"big": 2**70})


def test_variables_are_evaluated_only_when_they_are_needed() -> None:
    """As in kube-apiserver, a variable without a value fails only the expressions that need it."""
    scope = Scope(("x",))
    scope = scope.with_variable("a", scope.compile("x.a + 1"))
    with pytest.raises(ExpressionError, match="found no matching overload"):
        Scope(("x",)).with_variable("a", scope.compile("'text'")).compile("variables.a + 1")
    expression = scope.compile("x == null || variables.a == 2", "bool")
    assert expression.evaluate({"x": None}) is True
    assert expression.evaluate({"x": {}, "variables.a": 2}) is True
    with pytest.raises(ExpressionError, match='composited variable "a" fails to evaluate'):
        expression.evaluate({"x": {}})
    with pytest.raises(ExpressionError, match="undefined field 'b'"):
        scope.compile("variables.b")
