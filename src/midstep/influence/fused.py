"""Pointwise functions that are compiled into one kernel on a GPU and run as they are elsewhere."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch

__all__ = ["fused"]

SMALL = 2**20
"""Fewer values than this are not worth a compilation of their own."""
_log = logging.getLogger(__name__)
_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def fused(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """Compile `function` for large tensors on a GPU; eager, said once, where that fails."""
    compiled: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
        first = next((each for each in args if isinstance(each, torch.Tensor)), None)
        if first is None or not first.is_cuda or first.numel() < SMALL:
            return function(*args, **kwargs)
        if not compiled:
            compiled.append(torch.compile(function))
        try:
            made: _Made = compiled[0](*args, **kwargs)
        except Exception as error:
            if compiled[0] is function:
                raise
            _log.warning("%s runs uncompiled: %s", function.__name__, error)
            compiled[0] = function
            made = function(*args, **kwargs)
        return made

    return call
