"""An operator's own formula for the queue's order: arithmetic over a few names, and nothing else.

It is read when the policy is, so that what can't be worked out is refused then. Afterwards nothing in it can fail or
take long: all is done in floating-point numbers, on all runs at once; what has no value (0 / 0) counts as the least.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kajitori.core.words.suggestions import did_you_mean

Values = npt.NDArray[np.float64]

NAMES = ("waited", "expected", "size", "userShare", "teamShare")
"""Seconds, seconds, and parts of the cluster from 0 to 1."""

LONGEST = 500
"""Characters."""

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}
_FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int]] = {
    "min": (np.minimum, 2),
    "max": (np.maximum, 2),
    "sqrt": (np.sqrt, 1),
    "log": (np.log, 1),
    "exp": (np.exp, 1),
    "abs": (np.abs, 1),
}
_DEEPEST = 50


class FormulaError(ValueError):
    """A formula that can't be worked out; says what about it, with a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Formula:
    """A formula that was found to be in order. Called with all of `NAMES`, it answers the score of each run."""

    def __init__(self, text: str) -> None:
        """Raises FormulaError."""
        self.text = text
        self._tree = _read(text)
        _check(self._tree)
        self(**{name: np.array([0.5, 1.0]) for name in NAMES})

    def __call__(self, **values: Values) -> Values:
        """The scores; each of `values` is as long as the answer."""
        with np.errstate(all="ignore"):
            found = np.asarray(_evaluate(self._tree, values), dtype=np.float64)
        scores = np.broadcast_to(found, values[NAMES[0]].shape)
        return np.where(np.isnan(scores), -np.inf, scores)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


def _read(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise FormulaError(f"a formula of {len(text)} characters; {LONGEST} are allowed")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        raise FormulaError(f"this is no formula{where}", "such as (waited / expected) ** 3 * size") from None


def _check(node: ast.AST, depth: int = 0) -> None:
    """Raises FormulaError for all that is not arithmetic over known names."""
    if depth > _DEEPEST:
        raise FormulaError(f"nested deeper than {_DEEPEST} levels")
    match node:
        case ast.Constant(value=value):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise FormulaError(f"{ast.unparse(node):.80} is no number")
            if not abs(value) < 1e300:
                raise FormulaError("a number is too large")
        case ast.Name(id=name):
            if name not in NAMES:
                raise FormulaError(f"{name:.80} is not known here", did_you_mean(name, NAMES))
        case ast.BinOp(left=left, op=operator, right=right):
            _check_operator(node, operator)
            _check(left, depth + 1)
            _check(right, depth + 1)
        case ast.UnaryOp(op=operator, operand=operand):
            _check_operator(node, operator)
            _check(operand, depth + 1)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            takes = _FUNCTIONS[name][1]
            if len(arguments) != takes:
                values = "one value" if takes == 1 else f"{takes} values"
                raise FormulaError(f"{name} takes {values}, not {len(arguments)}")
            for argument in arguments:
                _check(argument, depth + 1)
        case _:
            hint = f"there are + - * / ** and {', '.join(_FUNCTIONS)}"
            raise FormulaError(f"{ast.unparse(node):.80} is no arithmetic", hint)


def _check_operator(node: ast.AST, operator: ast.AST) -> None:
    if type(operator) not in _OPERATORS:
        raise FormulaError(f"{ast.unparse(node):.80} is no arithmetic", "there are + - * / **")


def _evaluate(node: ast.AST, values: Mapping[str, Values]) -> Any:
    """The value of what was checked; numbers as NumPy's, which never take long: 9 ** 9 ** 9 ** 9 is infinite."""
    match node:
        case ast.Constant(value=value):
            return np.float64(value)  # type: ignore[arg-type]
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=operator, right=right):
            return _OPERATORS[type(operator)](_evaluate(left, values), _evaluate(right, values))
        case ast.UnaryOp(op=operator, operand=operand):
            return _OPERATORS[type(operator)](_evaluate(operand, values))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name][0](*(_evaluate(argument, values) for argument in arguments))
    raise AssertionError(f"{ast.dump(node)} was checked")
