"""Compilation and evaluation of CEL expressions, as kube-apiserver understands them.

The library is the reference implementation, loaded with the first expression. This module adds these extensions of
kube-apiserver: comparisons of quantities, sums of lists, and the `authorizer` of policies. Others (URLs, addresses,
sets) are missing: an expression that uses them is refused when it is written, with the message of the compiler.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from kajitori.core.formats.quantities import QuantityError, parse_cpu_millis, parse_memory_bytes

AUTHORIZER = "authorizer"
"""Name of the value by which expressions ask what a user may do: a map with the key `user`."""
Check = Callable[[Mapping[str, Any]], str]
"""Decides about the attributes of an access: `user`, `verb`, `group`, `resource` and so on. Returns why it is refused,
or an empty text if it is allowed."""
_UNDECLARED = re.compile(r"undeclared reference to 'variables\.(\w+)' \(in container ''\)")


class ExpressionError(Exception):
    """An expression cannot be compiled or evaluated; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Scope:
    """The names that an expression may use."""

    def __init__(
        self,
        given: Sequence[str],
        variables: Mapping[str, Any] | None = None,
        *,
        has_patches: bool = False,
        check: Check | None = None,
    ) -> None:
        """`given`: names whose types are only known at evaluation. `variables`: types of further names
        (`Expression.type`); NAME is used as `variables.NAME`. With `has_patches`, expressions may make operations of a
        JSON patch (`JSONPatch{op: "add", path: "/a", value: 1}`), which `operations_of` reads. `check` makes
        `authorizer` known."""
        self._given = tuple(given)
        self._variables = dict(variables or {})
        self._has_patches = has_patches
        self._check = check
        self._environment: Any = None

    def with_variable(self, name: str, expression: Expression) -> Scope:
        """Return a scope with one more variable, which stands for an expression."""
        variables = {**self._variables, name: expression.type}
        return Scope(self._given, variables, has_patches=self._has_patches, check=self._check)

    def compile(self, text: str, *results: str) -> Expression:
        """Return a compiled expression. `results`: its type must be one of these, such as "bool". The type is "dyn" if
        it is only known at evaluation.

        Raises:
            ExpressionError: it cannot be compiled, or has another type.
        """
        try:
            if self._environment is None:
                self._environment = _environment(self._given, self._variables, self._has_patches, self._check)
            compiled = self._environment.compile(text)
        except ImportError as error:
            raise ExpressionError(
                f"this server's library for CEL is missing: install cel-expr-python ({error})"
            ) from error
        except (RuntimeError, TypeError, ValueError) as error:
            message = _plain_message(str(error))
            if self._variables:
                message = _UNDECLARED.sub(r"undefined field '\1'", message)
            raise ExpressionError(f"compilation failed: {message}") from error
        kind = _type_name(compiled.return_type())
        if results and kind not in results:
            wanted = results[0] if len(results) == 1 else f"one of [{' '.join(results)}]"
            raise ExpressionError(f"must evaluate to {wanted} but got {kind}")
        return Expression(text, compiled)


class Expression:
    """A compiled expression."""

    def __init__(self, text: str, compiled: Any) -> None:
        self.text = text
        self.type = compiled.return_type()
        self._compiled = compiled

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Return the result as a JSON value; `values` by name. A missing value fails the expression only if it is
        needed.

        Raises:
            ExpressionError: evaluation failed, or a text contains NUL, where the library would cut it off.
        """
        if _contains_nul(dict(values)):
            raise ExpressionError("a text contains the character NUL (U+0000), which expressions cannot compare")
        try:
            answer = self._compiled.eval(data=values)
            result = answer.plain_value()
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise ExpressionError(_plain_message(str(error))) from error
        if _type_name(answer.type()) == "error":
            raise ExpressionError(_plain_message(str(result)))
        return result


def operations_of(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the operations of a JSON patch (RFC 6902) that an expression made."""
    from google.protobuf import json_format

    found = []
    for message in messages:
        operation = {"op": message.op, "path": message.path}
        if getattr(message, "from"):
            operation["from"] = getattr(message, "from")
        if message.op in ("add", "replace", "test"):
            operation["value"] = json_format.MessageToDict(message.value) if message.HasField("value") else None
        found.append(operation)
    return found


def _environment(given: Sequence[str], variables: Mapping[str, Any], has_patches: bool, check: Check | None) -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    types = dict.fromkeys(given, cel.Type.DYN) | {f"variables.{name}": kind for name, kind in variables.items()}
    extensions = [ext_strings.ExtStrings(), ext_optional.ExtOptional(), _quantity_functions()]
    if check is not None:
        types[AUTHORIZER] = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
        extensions.append(_authorizer_functions(check))
    return cel.NewEnv(_message_descriptors() if has_patches else None, variables=types, extensions=extensions)


@cache
def _message_descriptors() -> Any:
    """Return the descriptors of messages that expressions may make: the operation of a JSON patch."""
    from google.protobuf import descriptor_pb2, descriptor_pool, struct_pb2

    text, message, optional = (
        descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
        descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
        descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
    )
    file = descriptor_pb2.FileDescriptorProto(
        name="kajitori/jsonpatch.proto", syntax="proto3", dependency=[struct_pb2.DESCRIPTOR.name]
    )
    operation = file.message_type.add(name="JSONPatch")
    for number, name in enumerate(("op", "path", "from"), 1):
        operation.field.add(name=name, number=number, type=text, label=optional)
    operation.field.add(name="value", number=4, type=message, label=optional, type_name=".google.protobuf.Value")
    pool = descriptor_pool.Default()
    pool.Add(file)
    return pool


@cache
def _quantity_functions() -> Any:
    """Return the functions for quantities (k8s.io/apiserver/pkg/cel/library/quantity.go). A quantity is a
    floating-point number here, which is exact up to 2^53."""
    from cel_expr_python import cel

    text, number, boolean, numbers = cel.Type.STRING, cel.Type.DOUBLE, cel.Type.BOOL, cel.Type.List(cel.Type.DOUBLE)

    def function(name: str, result: Any, parameters: list[Any], call: Callable[..., Any]) -> Any:
        is_member = name not in ("quantity", "isQuantity")
        return cel.FunctionDecl(name, [cel.Overload(f"kubernetes_{name}", result, parameters, is_member, call)])

    return cel.CelExtension(
        "kubernetes.quantity",
        [
            function("quantity", number, [text], _quantity),
            function("isQuantity", boolean, [text], _is_quantity),
            function("asApproximateFloat", number, [number], float),
            function("isGreaterThan", boolean, [number, number], operator.gt),
            function("isLessThan", boolean, [number, number], operator.lt),
            function("add", number, [number, number], operator.add),
            function("sub", number, [number, number], operator.sub),
            function("sum", number, [numbers], lambda items: float(sum(items))),
            function("compareTo", cel.Type.INT, [number, number], lambda one, other: (one > other) - (one < other)),
        ],
    )


def _authorizer_functions(check: Check) -> Any:
    """Return the functions of `authorizer` (k8s.io/apiserver/pkg/cel/library/authz.go): questions about an access, each
    part of it a call. The questions are maps, so the compiler does not see calls in a wrong order."""
    from cel_expr_python import cel

    text, question = cel.Type.STRING, cel.Type.Map(cel.Type.STRING, cel.Type.DYN)

    def method(name: str, result: Any, call: Callable[..., Any], *parameters: Any) -> Any:
        overload = cel.Overload(f"{AUTHORIZER}_{name}", result, [question, *parameters], True, call)
        return cel.FunctionDecl(name, [overload])

    def part(name: str) -> Any:
        return method(name, question, lambda asked, value: {**asked, name: value}, text)

    def decision(asked: Mapping[str, Any], verb: str) -> dict[str, Any]:
        return {"reason": check({**asked, "verb": verb})}

    functions = [part(name) for name in ("group", "resource", "subresource", "namespace", "name", "path")]
    functions += [
        method("check", question, decision, text),
        method("allowed", cel.Type.BOOL, lambda decided: not decided["reason"]),
        method("reason", text, lambda decided: decided["reason"]),
        method("errored", cel.Type.BOOL, lambda decided: False),
        method("error", text, lambda decided: ""),
    ]
    return cel.CelExtension(AUTHORIZER, functions)


def _quantity(text: str) -> float:
    try:
        return parse_cpu_millis(text) / 1000 if text.endswith(("m", "u", "n")) else float(parse_memory_bytes(text))
    except QuantityError as error:
        raise ValueError(error.message) from error


def _is_quantity(text: str) -> bool:
    try:
        _quantity(text)
    except ValueError:
        return False
    return True


def _contains_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_contains_nul(key) or _contains_nul(part) for key, part in value.items())
    return isinstance(value, list | tuple) and any(map(_contains_nul, value))


def _type_name(kind: Any) -> str:
    """Return the name of a type in the notation of kube-apiserver: `list(int)`."""
    word = str(kind.name()).lower().replace("<", "(").replace(">", ")")
    return "null_type" if word == "null" else word


def _plain_message(message: str) -> str:
    """Return a message of the library in the form of cel-go, without the library's own codes."""
    message = re.sub(r" \[[A-Z_]+\]$", "", re.sub(r"^[A-Z_]+: ", "", message))
    if len(faults := re.split(r"\n(?=ERROR: <input>:)", message)) > 1:
        message = "\n".join(sorted(faults, key=_fault_position))
    if missing := re.fullmatch(r'Key not found in map : "(.*)"', message, re.DOTALL):
        return f"no such key: {missing[1]}"
    if missing := re.fullmatch(r'No value with name "variables\.(.*)" found in Activation', message):
        return missing_variable(missing[1])
    return message


def missing_variable(name: str) -> str:
    """Return the message about an expression that needs a variable without a value."""
    return f'composited variable "{name}" fails to evaluate'


def _fault_position(fault: str) -> tuple[int, ...]:
    """Return the line and column that a compiler's message is about."""
    found = re.match(r"ERROR: <input>:(\d+):(\d+)", fault)
    return tuple(map(int, found.groups())) if found else ()
