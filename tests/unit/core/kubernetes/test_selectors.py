"""Label and field selectors, as Kubernetes' parsers read and refuse them (apimachinery `pkg/labels`, `pkg/fields`)."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.kubernetes.selectors import (
    LabelSelector,
    Requirement,
    SelectorError,
    holds,
    parse_fields,
    parse_labels,
)

KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"
UNPARSABLE = "unable to parse requirement: "


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("  ", {"a": "1"}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("! a", {"a": ""}, False),
        ("!a=b", {"a": "b"}, True),
        ("a,!b", {"a": "1", "b": "2"}, False),
        ("a=1,b!=2", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a=", {"a": ""}, True),
        ("a=,b", {"a": "", "b": "1"}, True),
        ("a != b", {"a": "b"}, False),
        ("x.org/a in (1, 2)", {"x.org/a": "2"}, True),
        ("x.io/a in (,b)", {"x.io/a": ""}, True),
        ("a in (b,)", {"a": ""}, True),
        ("a in (b,,c)", {"a": ""}, True),
        ("a in ()", {"a": ""}, True),
        ("a in (b)", {}, False),
        ("a notin (1,2),b", {"b": "1"}, True),
        ("in in (in, notin)", {"in": "notin"}, True),
        ("a>4", {"a": "5"}, True),
        ("a<4", {"a": "5"}, False),
        ("a>4", {"a": "x"}, False),
        ("a>4", {"a": "1_000"}, False),
        ("a>4", {}, False),
        ("a\n,\tb", {"a": "", "b": ""}, True),
    ],
)
def test_label_selectors_match_labels(text: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_labels(text).matches(labels) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a,=", "found '=', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a in ()x", "found 'x', expected: ',' or 'end of string'"),
        ("!", f"{UNPARSABLE}found '', expected: identifier"),
        ("!!a", f"{UNPARSABLE}found '!', expected: identifier"),
        ("a b", f"{UNPARSABLE}found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a (b)", f"{UNPARSABLE}found '(', expected: in, notin, =, ==, !=, gt, lt"),
        ("a==(", f"{UNPARSABLE}found '(', expected: identifier"),
        ("a in", f"{UNPARSABLE}found '' expected: '('"),
        ("a in b", f"{UNPARSABLE}found 'b' expected: '('"),
        ("a in (", f"{UNPARSABLE}found '', expected: ',', ')' or identifier"),
        ("a in (=", f"{UNPARSABLE}found '=', expected: ',', ')' or identifier"),
        ("a in (b", f"{UNPARSABLE}found '', expected: ',' or ')'"),
        ("a in (b c", f"{UNPARSABLE}found 'c', expected: ',' or ')'"),
        ("a in (b,=", f"{UNPARSABLE}found '=', expected: ',', or identifier"),
        ("@=1", f'{UNPARSABLE}<nil>: Invalid value: "@": {KEY}'),
        ("a/b/c", f'{UNPARSABLE}<nil>: Invalid value: "a/b/c": a valid label key'),
        ("é", f'{UNPARSABLE}<nil>: Invalid value: "é": {KEY}'),
        ("a=@", f'{UNPARSABLE}values[0][a]: Invalid value: "@": {VALUE}'),
        ("a in (b,c@)", f'{UNPARSABLE}values[1][a]: Invalid value: "c@": {VALUE}'),
        ("a<x", f'{UNPARSABLE}values[0]: Invalid value: "x": {INTEGER}'),
        ("a>9223372036854775808", f'{UNPARSABLE}values[0]: Invalid value: "9223372036854775808": {INTEGER}'),
        (
            "a>@",
            f'{UNPARSABLE}[values[0]: Invalid value: "@": {INTEGER}, values[0][a]: Invalid value: "@": {VALUE}]',
        ),
    ],
)
def test_invalid_label_selectors_are_refused(text: str, message: str) -> None:
    """With Kubernetes' message; none is read as another selector."""
    with pytest.raises(SelectorError) as refused:
        parse_labels(text)
    assert refused.value.message.startswith(message)


@given(st.text(string.ascii_letters + string.digits + " ,=!()<>in./-_@", max_size=30))
def test_any_text_is_a_label_selector_or_refused(text: str) -> None:
    try:
        parse_labels(text).matches({"a": "b"})
    except SelectorError as refused:
        assert refused.message


names = st.text(string.ascii_letters + string.digits, min_size=1, max_size=4)
requirements = st.builds(
    Requirement,
    names,
    st.sampled_from(("In", "NotIn")),
    st.sets(names, min_size=1, max_size=3).map(lambda found: tuple(sorted(found))),
) | st.builds(Requirement, names, st.sampled_from(("Exists", "DoesNotExist")))


@given(st.lists(requirements, max_size=4))
def test_a_formatted_selector_is_parsed_as_the_same(wanted: list[Requirement]) -> None:
    written = {
        "In": "{0} in ({1})",
        "NotIn": "{0} notin ({1})",
        "Exists": "{0}",
        "DoesNotExist": "!{0}",
    }
    text = ",".join(written[one.operator].format(one.key, ",".join(one.values)) for one in wanted)
    assert parse_labels(text) == LabelSelector(tuple(wanted))


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("Gt", ["1"], {"k": "2"}, True),
        ("Gt", ["2"], {"k": "2"}, False),
        ("Lt", ["1"], {"k": "2"}, False),
        ("Lt", ["-1"], {"k": "-2"}, True),
        ("Lt", [], {"k": "2"}, False),
        ("Lt", ["1", "2"], {"k": "0"}, False),
        ("In", [], {"k": "2"}, False),
        ("Odd", ["2"], {"k": "2"}, False),
    ],
)
def test_operators_of_selectors_inside_objects(
    operator: str, values: list[str], labels: dict[str, str], expected: bool
) -> None:
    """Unknown operators, and values that are not numbers, match nothing."""
    assert holds("k", operator, values, labels) is expected


def test_field_selectors_are_parsed() -> None:
    """Escaped commas and equal signs belong to the value; nothing between commas is omitted."""
    found = parse_fields(r"a=x\,y,,b!=z\=")
    assert found.matches({"a": "x,y"})
    assert not found.matches({"a": "x,y", "b": "z="})
    assert not found.matches({"b": ""})
    assert found.exact("a") == "x,y"
    assert found.exact("b") is None
    assert parse_fields("a==1").exact("a") == "1"
    assert not parse_fields("")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b,a", "invalid selector: 'b,a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_invalid_field_selectors_are_refused(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse_fields(text)
    assert refused.value.message == message
