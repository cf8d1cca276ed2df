"""Pickles of functions and of their arguments, and errors that name what cannot be pickled."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kajitori.errors import Fault, InvalidInput, Unsupported


def pickled_function(function: Callable[..., Any]) -> bytes:
    """Return the function pickled by value.

    Raises InvalidInput that names each variable of it that cannot be pickled, and Unsupported without cloudpickle.
    """
    try:
        return _pickle(function)
    except Exception as error:
        name = getattr(function, "__name__", "function")
        faults = list(_pickling_faults(_variables_of(function), "make it in the function, or pass what it is made of"))
        raise InvalidInput(faults or [Fault(name, f"cannot be pickled: {error}")]) from error


def pickled_arguments(function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> bytes:
    """Return the arguments of a call as a pickle.

    Raises TypeError if the function does not take them, InvalidInput that names each one that cannot be pickled, and
    Unsupported without cloudpickle.
    """
    named = _arguments_of(function, args, keywords)
    try:
        return _pickle((args, keywords))
    except Exception as error:
        faults = list(_pickling_faults(named, "pass what it is made of, such as a path, and make it in the function"))
        raise InvalidInput(faults or [Fault("arguments", f"cannot be pickled: {error}")]) from error


def _pickling_faults(named: Mapping[str, Any], hint: str) -> Iterator[Fault]:
    for name, value in named.items():
        try:
            _pickle(value)
        except Exception as error:
            yield Fault(name, f"cannot be pickled: {error}", reprlib.repr(value), hint)


def _variables_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the variables outside of the function that it uses, by name."""
    try:
        used = inspect.getclosurevars(function)
    except TypeError:  # not a function, but another callable
        return {}
    return {**used.globals, **used.nonlocals}


def _arguments_of(function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by the function's names for them. Raises TypeError if it does not take them."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function of C without a signature
        return {f"argument {position + 1}": value for position, value in enumerate(args)} | dict(keywords)
    return signature.bind(*args, **keywords).arguments


def _pickle(value: object) -> bytes:
    try:
        import cloudpickle
    except ImportError as error:
        raise Unsupported("functions need cloudpickle", hint="pip install 'kajitori[functions]'") from error
    found: bytes = cloudpickle.dumps(value)
    return found
