"""Runs a module once and reads, in the order of execution, which inputs and outputs are not finite.

Minus infinity alone is not an error everywhere: attention masks and masked logits consist of it. It
counts in the outputs, and in the first inputs, of modules with parameters of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from midstep.core.errors import MidstepError
from midstep.explore.diagnosis.finite_counts import (
    FiniteCounts,
    count_all,
    count_nonfinite,
    named_tensors,
)

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

Kind = Literal["input", "parameter", "module", "operation", "gradient"]
MOST_ROWS = 1_000
"""Modules that are listed; the first one that is not finite is found whatever its number."""


class TraceEndedError(MidstepError, RuntimeError):
    """The pass took too long, left the copy, or the run was stopped meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where the first value that is not finite appeared."""

    kind: Kind
    """`input`: an argument of the traced module. `parameter`: a weight or buffer was not finite
    before the pass. `module`: the output of a module whose inputs are finite. `operation`: code in
    the `forward` of a module, between the modules in it. `gradient`: found by others, in the
    backward pass."""
    name: str
    """Name of the module; for `parameter`, of the parameter or buffer itself."""
    after: str | None = None
    """For `operation`: the module that ran before."""
    before: str | None = None
    """For `operation`: the module that received it; None at the end of `forward`."""


@dataclass(frozen=True, kw_only=True)
class ModuleReading:
    """The outputs of one module over all its calls."""

    name: str
    counts: FiniteCounts
    is_leaf: bool
    """Whether no other module ran inside of it."""
    is_broken: bool = False
    """Whether its outputs are not finite, by the rule in the header of this module."""


@dataclass(kw_only=True)
class ForwardTrace:
    """What was read in one or several passes."""

    origin: Origin | None = None
    """None if everything is finite."""
    suspect: Origin | None = None
    """The first output of minus infinity that may be a mask; the origin if the loss breaks."""
    readings: dict[str, ModuleReading] = field(default_factory=dict)
    """By name, in the order in which the modules first ended."""
    first_output: Tensor | None = None
    """The first output that is not finite."""
    first_module: str | None = None
    """The module that returned it."""
    output: Any = None
    """What the last pass returned."""


@dataclass
class _Running:
    """A module that is being called."""

    name: str
    last_child: str | None = None


class ForwardTracer:
    """Traces passes through copies of modules, one after the other.

    Args:
        names: of modules by `id`, for those that have another name than in the traced module.
        limit_s: for all passes together.
        interrupted: called at each module; True ends the pass.
        observe: called with the name of each module, itself and its output.
        clock: monotonic seconds.

    >>> tracer = ForwardTracer()
    >>> layer = nn.Linear(2, 1)
    >>> _ = nn.init.constant_(layer.bias, float("inf"))
    >>> tracer.run(nn.Sequential(nn.Tanh(), layer), (torch.ones(1, 2),))
    >>> tracer.trace.origin
    Origin(kind='parameter', name='1.bias', after=None, before=None)
    """

    def __init__(
        self,
        *,
        limit_s: float = 20.0,
        interrupted: Callable[[], bool] = lambda: False,
        observe: Callable[[str, nn.Module, Any], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trace = ForwardTrace()
        self._interrupted, self._observe, self._clock = interrupted, observe, clock
        self._ends_at = clock() + limit_s
        self._running: list[_Running] = []
        self._root = ""

    def run(
        self,
        module: nn.Module,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        grad: bool = False,
    ) -> None:
        """Call `module` once; its gradients are not computed.

        Args:
            module: a copy, since buffers may change; hooks are put on it for this call.
            args: positional arguments; also copies, since modules may write to them.
            kwargs: keyword arguments.
            name: put before the names of its modules.
            grad: whether gradients can be computed inside, which takes memory.

        Raises:
            TraceEndedError: it took too long, or was interrupted.
        """
        self._root, self._running = name, []
        with ExitStack() as undo, torch.set_grad_enabled(grad):
            undo.callback(_refuse_others(module).remove)
            for own_name, each in module.named_modules():
                if isinstance(each, torch.jit.ScriptModule):
                    continue  # a compiled module has no hooks inside
                self._hook(undo, each, f"{name}.{own_name}".strip("."))
            self.trace.output = module(*args, **(kwargs or {}))

    def _hook(self, undo: ExitStack, module: nn.Module, name: str) -> None:
        def enter(each: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            self._enter(name, each, args, kwargs)

        def leave(each: nn.Module, _args: Any, _kwargs: Any, output: Any) -> None:
            self._leave(name, each, output)

        handles = (
            module.register_forward_pre_hook(enter, with_kwargs=True),
            module.register_forward_hook(leave, with_kwargs=True),
        )
        for handle in handles:
            undo.callback(handle.remove)

    @property
    def _is_open(self) -> bool:
        """Whether everything was finite so far."""
        return self.trace.origin is None

    def _enter(
        self, name: str, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        if self._interrupted():
            raise TraceEndedError("the run was stopped meanwhile")
        if self._clock() > self._ends_at:
            raise TraceEndedError("it took too long and was ended")
        if self._is_open and _is_input_broken(module, args, kwargs):
            self._set_origin(self._origin_of_input(name))
        if self._is_open and (broken := _broken_weight(module)) is not None:
            self._set_origin(Origin(kind="parameter", name=f"{name}.{broken}".strip(".")))
        self._running.append(_Running(name))

    def _origin_of_input(self, name: str) -> Origin:
        if not self._running:
            return Origin(kind="input", name=self._root)
        parent = self._running[-1]
        return Origin(kind="operation", name=parent.name, after=parent.last_child, before=name)

    def _leave(self, name: str, module: nn.Module, output: Any) -> None:
        if self._observe is not None:
            self._observe(name, module, output)
        ended = self._running.pop() if self._running else _Running(name)
        if self._running:
            self._running[-1].last_child = name
        counts, is_leaf = count_all(output), ended.last_child is None
        is_broken = counts.is_broken or bool(counts.minus and _has_weights(module))
        if counts.bad and self._is_open:
            kind: Kind = "module" if is_leaf else "operation"
            origin = Origin(kind=kind, name=name, after=ended.last_child)
            if is_broken:
                self._set_origin(origin)
            else:
                self.trace.suspect = self.trace.suspect or origin
        if is_broken and self.trace.first_output is None and is_leaf:
            self.trace.first_output, self.trace.first_module = _first_broken(output), name
        self._add(name, counts, is_leaf=is_leaf, is_broken=is_broken)

    def _add(self, name: str, counts: FiniteCounts, *, is_leaf: bool, is_broken: bool) -> None:
        readings = self.trace.readings
        before = readings.get(name)
        if before is not None:
            readings[name] = replace(
                before,
                counts=before.counts + counts,
                is_leaf=before.is_leaf and is_leaf,
                is_broken=before.is_broken or is_broken,
            )
        elif len(readings) < MOST_ROWS:
            readings[name] = ModuleReading(
                name=name, counts=counts, is_leaf=is_leaf, is_broken=is_broken
            )

    def _set_origin(self, origin: Origin) -> None:
        self.trace.origin = origin


def _refuse_others(copied: nn.Module) -> RemovableHandle:
    """Refuse to call modules with weights outside of the copy: they are the user's own.

    A `forward` that was replaced by a closure, or that uses a global module, would call them.
    """
    own, thread = {id(each) for each in copied.modules()}, threading.get_ident()

    def before(module: nn.Module, _args: Any) -> None:
        if id(module) in own or threading.get_ident() != thread:
            return
        if any(True for _ in module.parameters()) or any(True for _ in module.buffers()):
            raise TraceEndedError(
                f"its forward calls a {type(module).__name__} that is not part of the model"
            )

    return register_module_forward_pre_hook(before)


def _has_weights(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False))


def _is_input_broken(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    if count_all(args).is_broken or count_all(dict(kwargs)).is_broken:
        return True
    first = next(iter(args), None)
    if not _has_weights(module) or not isinstance(first, Tensor):
        return False
    counts = count_nonfinite(first)
    return counts is not None and counts.minus > 0


def _broken_weight(module: nn.Module) -> str | None:
    """The first own parameter or buffer of a module that is not finite."""
    own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    for name, value in own:
        counts = count_nonfinite(value)
        is_parameter = isinstance(value, nn.Parameter)
        # A buffer of minus infinity is a mask.
        if counts is not None and (counts.is_broken or (is_parameter and counts.bad)):
            return name
    return None


def _first_broken(output: Any) -> Tensor | None:
    for _, tensor in named_tensors(output):
        counts = count_nonfinite(tensor)
        if counts is not None and counts.bad:
            return tensor.detach().clone()
    return None
