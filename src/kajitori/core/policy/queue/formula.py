"""Formulas by which operators order the queue: arithmetic over a few names, and nothing else.

A formula is checked when the policy is read, so that an invalid one is refused then. Its evaluation cannot fail or take
long: it computes the scores of all runs at once, with arrays of floats. A result that is not a number (0 / 0) sorts
last.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kajitori.core.suggestions import did_you_mean

Values = npt.NDArray[np.float64]

NAMES = ("waited", "expected", "size", "userShare", "teamShare")
"""Variables of a formula. `waited` and `expected` are in seconds, the others are shares of the cluster from 0 to 1."""

LONGEST = 500
"""Maximum length of a formula, in characters."""

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
    """A formula is invalid. `message` says why, `hint` what to write instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Formula:
    """A valid formula. Called with an array for each of `NAMES`, it returns the score of each run."""

    def __init__(self, text: str) -> None:
        """Parse and check a formula. Raises FormulaError."""
        self.text = text
        self._tree = _parse_formula(text)
        _check_node(self._tree)
        self(**{name: np.array([0.5, 1.0]) for name in NAMES})

    def __call__(self, **values: Values) -> Values:
        """Return the scores. All arrays in `values` have one element per run, and so has the result."""
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


def _parse_formula(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise FormulaError(f"the formula has {len(text)} characters; at most {LONGEST} are allowed")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        hint = "write arithmetic, for example (waited / expected) ** 3 * size"
        raise FormulaError(f"this is not a valid formula{where}", hint) from None


def _check_node(node: ast.AST, depth: int = 0) -> None:
    """Raise FormulaError for everything but arithmetic over known names."""
    if depth > _DEEPEST:
        raise FormulaError(f"nested deeper than {_DEEPEST} levels")
    match node:
        case ast.Constant(value=value):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise FormulaError(f"{ast.unparse(node):.80} is not a number")
            if not abs(value) < 1e300:
                raise FormulaError("a number is too large")
        case ast.Name(id=name):
            if name not in NAMES:
                raise FormulaError(f"unknown variable {name:.80}", did_you_mean(name, NAMES))
        case ast.BinOp(left=left, op=operator, right=right):
            _check_operator(node, operator)
            _check_node(left, depth + 1)
            _check_node(right, depth + 1)
        case ast.UnaryOp(op=operator, operand=operand):
            _check_operator(node, operator)
            _check_node(operand, depth + 1)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            arity = _FUNCTIONS[name][1]
            if len(arguments) != arity:
                values = "one value" if arity == 1 else f"{arity} values"
                raise FormulaError(f"{name} takes {values}, not {len(arguments)}")
            for argument in arguments:
                _check_node(argument, depth + 1)
        case _:
            hint = f"use + - * / ** and {', '.join(_FUNCTIONS)}"
            raise FormulaError(f"{ast.unparse(node):.80} is not arithmetic", hint)


def _check_operator(node: ast.AST, operator: ast.AST) -> None:
    if type(operator) not in _OPERATORS:
        raise FormulaError(f"{ast.unparse(node):.80} is not arithmetic", "use + - * / **")


def _evaluate(node: ast.AST, values: Mapping[str, Values]) -> Any:
    """Return the value of a checked expression. Numbers are NumPy floats, so that 9 ** 9 ** 9 ** 9 is infinite at once
    instead of taking long."""
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
