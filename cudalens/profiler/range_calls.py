"""Wrap functions so that each call is a named range: plain and coroutine functions, generators and async generators."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

#: Opens the range of a call, or of a generator's run to its next ``yield``.
Open = Callable[[], AbstractContextManager[Any]]


def named(function: Callable[P, R], open_range: Open) -> Callable[P, R]:
    """Wrap `function` so that each call is a range."""
    for kind, wrap in (
        (inspect.isasyncgenfunction, _async_generator),
        (inspect.iscoroutinefunction, _coroutine),
        (inspect.isgeneratorfunction, _generator),
    ):
        if kind(function):
            return cast("Callable[P, R]", wrap(function, open_range))

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with open_range():
            return function(*args, **kwargs)

    return call


def _coroutine(function: Callable[..., Any], open_range: Open) -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with open_range():
            return await function(*args, **kwargs)

    return call


def _generator(function: Callable[..., Any], open_range: Open) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        act: Callable[[], Any] = partial(next, generator)
        while True:
            try:
                with open_range():
                    value = act()
            except StopIteration as end:
                return end.value
            try:
                sent = yield value
            except GeneratorExit:
                with open_range():  # cleanup code of the generator belongs to the range, too
                    generator.close()
                raise
            except BaseException as error:
                act = partial(generator.throw, error)
            else:
                act = partial(generator.send, sent)

    return call


def _async_generator(function: Callable[..., Any], open_range: Open) -> Callable[..., Any]:
    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        act: Callable[[], Any] = partial(anext, generator)
        while True:
            try:
                with open_range():
                    value = await act()
            except StopAsyncIteration:
                return
            try:
                sent = yield value
            except GeneratorExit:
                with open_range():
                    await generator.aclose()
                raise
            except BaseException as error:
                act = partial(generator.athrow, error)
            else:
                act = partial(generator.asend, sent)

    return call
