"""`@kajitori.function`: Python functions that run on the cluster."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Never,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from kajitori.client.functions import worker
from kajitori.client.functions.calls import IMAGE, Call, CallQueue, result_of
from kajitori.client.functions.pickling import pickled_arguments, pickled_function
from kajitori.client.submit.keywords import RunOptions, check_names
from kajitori.errors import AlreadyExists, InvalidInput, KajitoriError, Unavailable, WrongState

if TYPE_CHECKING:
    from kajitori.client.client import Client, Run

P = ParamSpec("P")
T = TypeVar("T")
First = TypeVar("First")
Item = TypeVar("Item")
Mapped = TypeVar("Mapped")
Result = TypeVar("Result")
"""Type of `result()` of a call: the result of the function, or a list of the items of a generator."""

First_contra = TypeVar("First_contra", contravariant=True)

DEFAULT_AT_MOST = 16
"""Workers of a map that names no number."""
RESTARTS = 3
"""Restarts of each worker after it died."""


class OfOneValue(Protocol[First_contra, Result]):
    """A function that can be called with one value, as `map` needs it.

    `map` takes its types from here and not from `Function[Concatenate[First, …], …]`, with which mypy accepts values of
    any type.
    """

    def remote(self, value: First_contra, /) -> Call[Result]: ...

    def starmap(self, values: Iterable[tuple[Any, ...]], *, at_most: int = ..., ordered: bool = ...) -> Map[Result]: ...


class Function(Generic[P, T, Result]):
    """A function that can be called here (`f(x)`, `f.local(x)`) and on the cluster (`f.remote(x)`, `f.map(xs)`).

    A call on the cluster is done at least once: if its worker is killed, another one does it again.
    """

    def __init__(
        self,
        wrapped: Callable[P, T],
        *,
        image: str | None = None,
        client: Client | None = None,
        options: RunOptions | None = None,
    ) -> None:
        if inspect.iscoroutinefunction(wrapped) or inspect.isasyncgenfunction(wrapped):
            raise TypeError(f"{wrapped.__qualname__} is asynchronous: use a plain function, which calls asyncio.run(…)")
        functools.update_wrapper(self, wrapped)
        self._wrapped = wrapped
        self._image = image or IMAGE
        self._client = client
        self._options: RunOptions = options or {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wrapped(*args, **kwargs)

    def __set_name__(self, owner: type, name: str) -> None:
        raise TypeError(
            f"{owner.__name__}.{name} is a method, and only functions outside of classes can be called on the cluster"
        )

    def __reduce__(self) -> tuple[Any, ...]:  # a worker has the plain function, and no kajitori
        return functools.partial, (self._wrapped,)

    def local(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function in this process."""
        return self._wrapped(*args, **kwargs)

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> Call[Result]:
        """Start a run with one worker that does this call, and return the call without waiting for it."""
        arguments = pickled_arguments(self._wrapped, args, kwargs)
        pool = Pool(self, 1)
        return Call(pool.queue, pool.add([arguments], closed=True)[0])

    def map(
        self: OfOneValue[First, Mapped],
        values: Iterable[First],
        *,
        at_most: int = DEFAULT_AT_MOST,
        ordered: bool = True,
    ) -> Map[Mapped]:
        """Call the function with each value on the workers of one sweep, at most `at_most` at once, and yield the
        results: in the order of the values, or as they come.

        The sweep starts at once. It is ended if the iterator is closed before its end. Raises the exception of the
        first call that failed when its turn comes. Calls that were cancelled are left out.
        """
        return self.starmap(((value,) for value in values), at_most=at_most, ordered=ordered)

    def starmap(
        self, values: Iterable[tuple[Any, ...]], *, at_most: int = DEFAULT_AT_MOST, ordered: bool = True
    ) -> Map[Result]:
        """Do the same as `map` with the arguments of each call in a tuple."""
        calls = [pickled_arguments(self._wrapped, tuple(arguments), {}) for arguments in values]
        if not calls:
            return Map(None, 0, ordered)
        pool = Pool(self, min(at_most, len(calls)))
        return Map(pool.queue, len(pool.add(calls, closed=True)), ordered)

    def pool(self, at_most: int = DEFAULT_AT_MOST) -> Pool[P, Result]:
        """Return workers that stay warm for calls that are added later:

        with f.pool(at_most=8) as pool:
            calls = [pool.remote(x) for x in range(100)]
        """
        return Pool(self, at_most)


class Map(Iterator[Result]):
    """The results of a map. Its run is ended if this iterator is closed or dropped before its end."""

    def __init__(self, queue: CallQueue | None, count: int, ordered: bool) -> None:
        self.calls: list[Call[Result]] = [Call(queue, number) for number in range(count)] if queue is not None else []
        """The calls in the order of the values: each can be waited for and cancelled on its own."""
        self._queue = queue
        self._results: Iterator[Result] = _results_of(queue, count, ordered) if queue is not None else iter(())

    def __next__(self) -> Result:
        return next(self._results)

    def cancel(self) -> None:
        """End the run at once, with all calls that it has. Does nothing if it has ended."""
        if self._queue is not None:
            with contextlib.suppress(WrongState):
                self._queue.client.kill(self._queue.run)

    def close(self) -> None:
        """End the run if some of its results were not fetched yet."""
        if isinstance(self._results, Generator):
            self._results.close()


class Pool(Generic[P, Result]):
    """A run with workers that do calls of a function until the pool is closed."""

    def __init__(self, function: Function[P, Any, Result], workers: int) -> None:
        from kajitori.client.client import Client

        if workers < 1:
            raise InvalidInput.one("at_most", "is the number of workers: 1 or more", value=str(workers))
        self._wrapped = function._wrapped
        pickled = pickled_function(function._wrapped)
        client = function._client or Client()
        token = secrets.token_urlsafe(32)
        name = f"{_run_name(function._wrapped)}-{secrets.token_hex(3)}"
        options: RunOptions = {**function._options, "name": name}
        options.setdefault("restarts", RESTARTS)
        options["array"] = f"0-{workers - 1}"
        options["stop_at"] = "first-success"  # a worker ends once no call is left: then the others are not needed
        with tempfile.TemporaryDirectory(prefix="kajitori-") as folder:
            command = ["python3", "-u", f"{worker.FOLDER}/{Path(worker.__file__).name}"]
            namespace = options.get("namespace") or client.namespace or _default_namespace(client)
            _stage_files(Path(folder), function, pickled, {"token": token, "namespace": namespace})
            options["code"], options["namespace"] = folder, namespace
            run = _started(client, function._image, command, options)
        self.queue = CallQueue(client, run, hashlib.sha256(token.encode()).hexdigest())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            _end_run(self.queue)

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> Call[Result]:
        """Add a call and return it without waiting for it."""
        return Call(self.queue, self.queue.add([pickled_arguments(self._wrapped, args, kwargs)])[0])

    def add(self, calls: Sequence[bytes], *, closed: bool) -> range:
        """Add the first calls, and return their numbers. The run is ended if they are refused."""
        try:
            return self.queue.add(calls, closed=closed)
        except BaseException:
            _end_run(self.queue)
            raise

    def close(self) -> None:
        """Add no more calls: the run ends once all are done."""
        self.queue.close()


class Decorator(Protocol):
    """The decorator that `@function(…)` returns for its options."""

    @overload
    def __call__(self, wrapped: Callable[P, Never], /) -> Function[P, Any, Any]: ...
    @overload
    def __call__(self, wrapped: Callable[P, Iterator[Item]], /) -> Function[P, Iterator[Item], list[Item]]: ...
    @overload
    def __call__(self, wrapped: Callable[P, T], /) -> Function[P, T, T]: ...


@overload  # for functions without annotations
def function(wrapped: Callable[P, Never], /) -> Function[P, Any, Any]: ...
@overload
def function(wrapped: Callable[P, Iterator[Item]], /) -> Function[P, Iterator[Item], list[Item]]: ...
@overload
def function(wrapped: Callable[P, T], /) -> Function[P, T, T]: ...
@overload
def function(*, image: str | None = None, client: Client | None = None, **options: Unpack[RunOptions]) -> Decorator: ...


def function(
    wrapped: Callable[..., Any] | None = None,
    /,
    *,
    image: str | None = None,
    client: Client | None = None,
    **options: Any,
) -> Any:
    """Make a function whose calls can be done on the cluster. The options are those of `Client.run`, for each worker.

    `image` needs Python of the version that runs here; without one it is `python:3.X`. `code` is a folder whose modules
    the function imports, such as `"."`. `client` is the server to use; without one, `Client()`.
    """

    def decorate(wrapped: Callable[..., Any]) -> Function[..., Any, Any]:
        return Function(wrapped, image=image, client=client, options=cast(RunOptions, options))

    check_names("function", options, RunOptions.__annotations__.keys() - {"array", "replicas", "stop_at"})
    return decorate if wrapped is None else decorate(wrapped)


def _results_of(queue: CallQueue, count: int, ordered: bool) -> Iterator[Any]:
    try:
        for call in range(count) if ordered else queue.ended(count):
            found = queue.outcome(call)
            if found.kind != "cancelled":
                yield result_of(found, f"call {queue.run.name}/{call}")
    except BaseException:
        _end_run(queue)
        raise


def _started(client: Client, image: str, command: Sequence[str], options: RunOptions) -> Run:
    """Start the run of a pool. Without an answer it is not known whether the run was made, so the request is sent once
    more: its name is no other run's."""
    try:
        return client.run(image, command, **options)
    except Unavailable:
        try:
            return client.run(image, command, **options)
        except AlreadyExists:
            return client.get(f"{options['namespace']}/{options['name']}")


def _end_run(queue: CallQueue) -> None:
    """End the run of a queue; errors are ignored."""
    with contextlib.suppress(KajitoriError):
        queue.client.kill(queue.run)


def _stage_files(folder: Path, wanted: Function[..., Any, Any], pickled: bytes, settings: dict[str, Any]) -> None:
    """Write everything that workers need into a folder: the caller's code, the function, the worker and cloudpickle."""
    import cloudpickle

    if (code := wanted._options.get("code")) is not None:
        from kajitori.codepack.packing import pack
        from kajitori.codepack.unpacking import unpack

        packed = pack(Path(code))
        unpack(packed.stream(), folder / "code", digest=packed.digest, size_bytes=packed.size_bytes)
        for path in (folder / "code").iterdir():
            shutil.move(path, folder / path.name)
        (folder / "code").rmdir()
    own = folder / worker.FOLDER
    own.mkdir()
    shutil.copy(worker.__file__, own)
    shutil.copytree(
        Path(cloudpickle.__file__).parent,
        own / worker.LIBRARY_FOLDER / "cloudpickle",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (own / worker.FUNCTION_FILE).write_bytes(pickled)
    settings |= {"python": list(sys.version_info[:2]), "source": _source_of(wanted._wrapped)}
    (own / worker.SETTINGS_FILE).write_text(json.dumps(settings), encoding="utf-8")


def _source_of(wrapped: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the function's lines, which tracebacks of workers show; None if they are not known."""
    try:
        code = wrapped.__code__
        lines, first = inspect.getsourcelines(code)
    except (AttributeError, OSError, TypeError):
        return None
    return {"file": code.co_filename, "first": first, "lines": lines}


def _default_namespace(client: Client) -> str:
    """Return the namespace that the server gives to runs that name none."""
    return str(client.api.get("/v1/sign-in")["namespace"])


def _run_name(wrapped: Callable[..., Any]) -> str:
    """Return the function's name as the beginning of a run's name."""
    words = re.sub(r"[^a-z0-9]+", "-", getattr(wrapped, "__name__", "function").lower()).strip("-")
    return words[:30].rstrip("-") if words[:1].isalpha() else f"f-{words[:30]}".rstrip("-")
