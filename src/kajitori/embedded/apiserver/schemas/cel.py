"""CEL, the language of rules inside objects: its expressions are checked and evaluated here.

The library is that of the people who specify CEL; it is loaded with the first expression. What kube-apiserver adds to
the language (quantities, URLs, addresses, sets, sums of lists, `authorizer`) is not there: an expression that uses it
is refused when it is written, in the compiler's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_UNDECLARED = re.compile(r"undeclared reference to 'variables\.(\w+)' \(in container ''\)")


class ExpressionError(Exception):
    """An expression can't be compiled, or has no result; `message` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Scope:
    """Names that an expression may use."""

    def __init__(self, given: Sequence[str], variables: Mapping[str, Any] | None = None) -> None:
        """`given`: names whose type is found out when an expression is evaluated. `variables`: the type of each further
        one (`Expression.type`); NAME is used as `variables.NAME`."""
        self._given = tuple(given)
        self._variables = dict(variables or {})
        self._environment: Any = None

    def with_variable(self, name: str, expression: Expression) -> Scope:
        """The same, and one variable more, which stands for an expression."""
        return Scope(self._given, {**self._variables, name: expression.type})

    def compile(self, text: str, *results: str) -> Expression:
        """An expression, checked. `results`: the types that it must have one of, such as "bool"; one that is only known
        when it is evaluated (dyn) is none of them.

        Raises:
            ExpressionError: it is none.
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
    """A checked expression."""

    def __init__(self, text: str, compiled: Any) -> None:
        self.text = text
        self.type = compiled.return_type()
        self._compiled = compiled

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Its result as JSON has it; `values` by name. A variable that is not among them fails the expression only if
        it is needed.

        Raises:
            ExpressionError: it has no result.
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
    """A type as kube-apiserver names it: `list(int)`."""
    word = str(kind.name()).lower().replace("<", "(").replace(">", ")")
    return "null_type" if word == "null" else word


def _plain(message: str) -> str:
    """A message of the library in cel-go's words: without the library's own codes."""
    message = re.sub(r" \[[A-Z_]+\]$", "", re.sub(r"^[A-Z_]+: ", "", message))
    if len(faults := re.split(r"\n(?=ERROR: <input>:)", message)) > 1:
        message = "\n".join(sorted(faults, key=_place))
    if missing := re.fullmatch(r'Key not found in map : "(.*)"', message, re.DOTALL):
        return f"no such key: {missing[1]}"
    if missing := re.fullmatch(r'No value with name "variables\.(.*)" found in Activation', message):
        return missing_variable(missing[1])
    return message


def missing_variable(name: str) -> str:
    """What an expression says that needs a variable which has no value."""
    return f'composited variable "{name}" fails to evaluate'


def _place(fault: str) -> tuple[int, ...]:
    """Line and column that a compiler's message is about."""
    found = re.match(r"ERROR: <input>:(\d+):(\d+)", fault)
    return tuple(map(int, found.groups())) if found else ()
