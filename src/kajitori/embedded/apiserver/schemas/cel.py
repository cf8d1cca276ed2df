"""CEL expressions: compiled and evaluated.

The library is the reference implementation, loaded with the first expression. It lacks the extensions of kube-apiserver
(quantities, URLs, addresses, sets, sums of lists, `authorizer`): an expression that uses them is refused when it is
written, with the message of the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_UNDECLARED = re.compile(r"undeclared reference to 'variables\.(\w+)' \(in container ''\)")


class ExpressionError(Exception):
    """An expression cannot be compiled or evaluated; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Scope:
    """The names that an expression may use."""

    def __init__(self, given: Sequence[str], variables: Mapping[str, Any] | None = None) -> None:
        """`given`: names whose types are only known at evaluation. `variables`: types of further names
        (`Expression.type`); NAME is used as `variables.NAME`."""
        self._given = tuple(given)
        self._variables = dict(variables or {})
        self._environment: Any = None

    def with_variable(self, name: str, expression: Expression) -> Scope:
        """Return a scope with one more variable, which stands for an expression."""
        return Scope(self._given, {**self._variables, name: expression.type})

    def compile(self, text: str, *results: str) -> Expression:
        """Return a compiled expression. `results`: its type must be one of these, such as "bool". An expression whose
        type is only known at evaluation has the type "dyn".

        Raises:
            ExpressionError: it cannot be compiled, or has another type.
        """
        try:
            if self._environment is None:
                self._environment = _environment(self._given, self._variables)
            compiled = self._environment.compile(text)
        except ImportError as error:
            raise ExpressionError(
                f"this server's library for CEL is missing: install cel-expr-python ({error})"
            ) from error
        except (RuntimeError, TypeError, ValueError) as error:
            message = _plain(str(error))
            if self._variables:
                message = _UNDECLARED.sub(r"undefined field '\1'", message)
            raise ExpressionError(f"compilation failed: {message}") from error
        kind = _word(compiled.return_type())
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
            ExpressionError: evaluation failed.
        """
        try:
            answer = self._compiled.eval(data=values)
            result = answer.plain_value()
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise ExpressionError(_plain(str(error))) from error
        if _word(answer.type()) == "error":
            raise ExpressionError(_plain(str(result)))
        return result


def _environment(given: Sequence[str], variables: Mapping[str, Any]) -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    types = dict.fromkeys(given, cel.Type.DYN) | {f"variables.{name}": kind for name, kind in variables.items()}
    extensions = [ext_strings.ExtStrings(), ext_optional.ExtOptional()]  # as kube-apiserver has, and no others
    return cel.NewEnv(variables=types, extensions=extensions)


def _word(kind: Any) -> str:
    """Return the name of a type in the notation of kube-apiserver: `list(int)`."""
    word = str(kind.name()).lower().replace("<", "(").replace(">", ")")
    return "null_type" if word == "null" else word


def _plain(message: str) -> str:
    """Return a message of the library in the form of cel-go, without the library's own codes."""
    message = re.sub(r" \[[A-Z_]+\]$", "", re.sub(r"^[A-Z_]+: ", "", message))
    if len(faults := re.split(r"\n(?=ERROR: <input>:)", message)) > 1:
        message = "\n".join(sorted(faults, key=_place))
    if missing := re.fullmatch(r'Key not found in map : "(.*)"', message, re.DOTALL):
        return f"no such key: {missing[1]}"
    if missing := re.fullmatch(r'No value with name "variables\.(.*)" found in Activation', message):
        return missing_variable(missing[1])
    return message


def missing_variable(name: str) -> str:
    """Return the message about an expression that needs a variable without a value."""
    return f'composited variable "{name}" fails to evaluate'


def _place(fault: str) -> tuple[int, ...]:
    """Return the line and column that a compiler's message is about."""
    found = re.match(r"ERROR: <input>:(\d+):(\d+)", fault)
    return tuple(map(int, found.groups())) if found else ()
