"""Runs the forward passes of a stopped step again, on copies of its modules."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from midstep.explore.diagnosis.forward_trace import ForwardTrace, ForwardTracer, TraceEndedError
from midstep.explore.diagnosis.model_copy import CopyRefusedError, copy_module
from midstep.session.diagnosis.held_step import HeldCall
from midstep.session.diagnosis.weights import ChosenWeights
from midstep.session.state.host_memory import free_host_bytes

LIMIT_S = 20.0
"""Seconds for all passes together."""
SHARE_OF_FREE = 0.8
"""Part of the free memory that a copy of a module may take."""
_PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel)


@dataclass(kw_only=True)
class Rerun:
    """What the passes showed."""

    trace: ForwardTrace = field(default_factory=ForwardTrace)
    passes: int = 0
    """How many were repeated."""
    problem: str | None = None
    """Why not all of them were, in words."""
    origin_call: HeldCall | None = None
    """The call in which the first value that is not finite appeared."""


def run_again(
    model: nn.Module,
    calls: Sequence[HeldCall],
    weights: ChosenWeights,
    *,
    interrupted: Callable[[], bool] = lambda: False,
    limit_s: float = LIMIT_S,
    observe: Callable[[str, nn.Module, Any], None] | None = None,
) -> Rerun:
    """Run the calls again in their order, until a value is not finite.

    Nothing of the user's is changed: modules and arguments are copies, and no hook runs. The caller
    guards the random generators.

    Args:
        model: gives the names of modules.
        calls: what its modules were called with.
        weights: to run them with.
        interrupted: True ends the pass.
        limit_s: for all passes together.
        observe: called with the name, the copy and the output of each module.
    """
    tracer = ForwardTracer(limit_s=limit_s, interrupted=interrupted, observe=observe)
    rerun = Rerun(trace=tracer.trace)
    names = {id(module): shown_name(name) for name, module in model.named_modules()}
    memo: dict[int, Any] = {}
    copies: dict[int, nn.Module] = {}
    for call in calls:
        module = unwrapped(call.module)
        name = names.get(id(module), "")
        try:
            if id(module) not in copies:
                _check_room(module)
                copies[id(module)] = copy_module(module, weights.values, memo)
            _run_one(tracer, copies[id(module)], call, name)
        except (CopyRefusedError, TraceEndedError) as error:
            rerun.problem = f"The step could not be run again: {error}"
        except Exception as error:  # noqa: BLE001
            # The user's own code, or no memory for a second model: the run stays parked.
            rerun.problem = (
                f"Running {name or 'the model'} again raised {type(error).__name__}: "
                f"{_first_line(error)}"
            )
        else:
            rerun.passes += 1
        if rerun.trace.origin is not None and rerun.origin_call is None:
            rerun.origin_call = call
        if rerun.problem is not None or rerun.trace.origin is not None:
            break
    return rerun


def _check_room(module: nn.Module) -> None:
    """Refuse a copy that would take most of the memory: the training needs it when it continues.

    Raises:
        CopyRefusedError: there is too little.
    """
    needed: dict[torch.device, int] = {}
    for tensor in (*module.parameters(), *module.buffers()):
        needed[tensor.device] = needed.get(tensor.device, 0) + tensor.nbytes
    for device, size in needed.items():
        free = _free_bytes(device)
        if free is not None and size > SHARE_OF_FREE * free:
            raise CopyRefusedError(
                f"a copy of the model takes {size / 2**30:.1f} GiB on {device}, of which "
                f"{free / 2**30:.1f} are free"
            )


def _free_bytes(device: torch.device) -> int | None:
    if device.type == "cpu":
        return free_host_bytes()
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    # What the allocator has reserved and does not use is free for the copy, too.
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _run_one(tracer: ForwardTracer, module: nn.Module, call: HeldCall, name: str) -> None:
    if module.training != call.training:
        module.train(call.training)
    with ExitStack() as stack, warnings.catch_warnings():
        # The step has shown these warnings already, and a filter may turn them into errors.
        warnings.simplefilter("ignore")
        for context in _autocasts(call):
            stack.enter_context(context)
        for needs_grad in (False, True):
            args, kwargs = _copied(call.args), _copied(dict(call.kwargs))
            try:
                tracer.run(module, args, kwargs, name=name, grad=needs_grad)
            except RuntimeError as error:
                # Gradients take memory: they are on only if `forward` raises without them.
                if needs_grad or "grad" not in str(error):
                    raise
            else:
                break


def _autocasts(call: HeldCall) -> Iterator[AbstractContextManager[Any]]:
    """The precision that the call ran in; nothing is cached, since the weights are copies."""
    for kind in ("cpu", "cuda"):
        dtype = dict(call.autocast).get(kind)
        if dtype is not None:
            yield torch.autocast(kind, dtype=dtype, cache_enabled=False)
        elif torch.is_autocast_enabled(kind):
            yield torch.autocast(kind, enabled=False)


def _copied(value: Any) -> Any:
    """Arguments with tensors of their own memory: modules may write to them."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) in (tuple, list):
        return type(value)(_copied(item) for item in value)
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return value


def unwrapped(module: nn.Module) -> nn.Module:
    """The module of the user in a compiled or parallel one."""
    inner = getattr(module, "_orig_mod", None)
    if isinstance(inner, nn.Module):
        return unwrapped(inner)
    return unwrapped(module.module) if isinstance(module, _PARALLEL) else module


def shown_name(name: str) -> str:
    """The name of a module without the parts that wrappers add.

    >>> shown_name("D._orig_mod.conv1"), shown_name("_orig_mod")
    ('D.conv1', '')
    """
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else "(no message)"
