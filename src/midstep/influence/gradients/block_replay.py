"""The residual stream at the borders of the blocks, in memory or in one file a border."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.model_parts import ModelParts


class BlockInputStore:
    """Keeps tensors by key until they are taken once.

    Args:
        folder: where to spill, into a folder of its own that is removed at the end. None: memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._parent, self._folder = folder, None if folder is None else Path(folder)
        self._tensors: dict[tuple[int, int], Tensor] = {}
        self._files: dict[tuple[int, int], tuple[Path, torch.Size, torch.dtype, torch.device]] = {}

    def __enter__(self) -> BlockInputStore:
        if self._parent is not None:
            self._folder = Path(tempfile.mkdtemp(prefix="borders-", dir=self._parent))
        return self

    def __exit__(self, *_: object) -> None:
        self._tensors.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def put(self, key: tuple[int, int], value: Tensor) -> None:
        """Keep a tensor; in memory it is not copied."""
        if self._folder is None:
            self._tensors[key] = value
            return
        path = self._folder / f"{key[0]}_{key[1]}.bin"
        mapped = torch.from_file(str(path), shared=True, size=value.numel(), dtype=value.dtype)
        mapped.copy_(value.detach().reshape(-1).cpu())
        self._files[key] = (path, value.shape, value.dtype, value.device)

    def take(self, key: tuple[int, int]) -> Tensor:
        """Give a tensor back and forget it."""
        if key in self._tensors:
            return self._tensors.pop(key)
        path, shape, dtype, device = self._files.pop(key)
        mapped = torch.from_file(str(path), shared=True, size=shape.numel(), dtype=dtype)
        value = mapped.clone().view(shape).to(device)
        path.unlink()
        return value


class BlockReplay:
    """Hooks that note what each block of a micro-batch was given, and cut the graph around them."""

    def __init__(self, blocks: Sequence[nn.Module], store: BlockInputStore, number: int) -> None:
        self.blocks, self.store, self.number = blocks, store, number
        self.calls: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self.first_input: Tensor | None = None
        self.gradient: Tensor | None = None
        self._last_output: Tensor | None = None
        self._handles: list[Any] = []

    def __enter__(self) -> BlockReplay:
        for depth, block in enumerate(self.blocks):
            self._handles.append(
                block.register_forward_pre_hook(self._before(depth), with_kwargs=True)
            )
        self._handles.append(self.blocks[-1].register_forward_hook(self._after_last))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _before(self, depth: int) -> Any:
        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            stream = args[0] if args else kwargs["hidden_states"]
            if depth == 0:
                self.first_input = stream
                torch.set_grad_enabled(False)
            self.calls[depth] = (
                args[1:],
                {k: v for k, v in kwargs.items() if k != "hidden_states"},
            )
            self.store.put((self.number, depth), stream.detach())

        return before

    def _after_last(self, _: nn.Module, __: Any, output: Any) -> Any:
        stream = output[0] if isinstance(output, tuple) else output
        torch.set_grad_enabled(True)
        self._last_output = stream.detach().requires_grad_()
        return (self._last_output, *output[1:]) if isinstance(output, tuple) else self._last_output

    def take_gradient(self) -> None:
        """Keep the gradient that reached the top of the blocks."""
        if self._last_output is None or self._last_output.grad is None:
            raise RuntimeError("no gradient reached the last block")
        self.gradient, self._last_output = self._last_output.grad, None

    def block_arguments(self, depth: int, stream: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a block with its stream put back."""
        args, kwargs = self.calls[depth]
        return (stream, *args), kwargs


TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
HALF_TOLERANCE = 0.05
PROBE_FILLS = (float("nan"), 0.0)
"""NaN spreads from wherever values are read; 0 tells apart what only compares them."""


class _SkippedLinear(torch.autograd.Function):
    """A linear map whose output is a constant and whose input's gradient is right."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, fill: float) -> Tensor:
        ctx.save_for_backward(weight)
        return inputs.new_full((), fill).expand(*inputs.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        return grads[0] @ weight, None, None


@contextmanager
def skip_linear(module: nn.Linear | None, fill: float = 0.0) -> Iterator[None]:
    """While this lasts, `module` gives a constant; None: nothing changes."""
    if module is None:
        yield
        return

    def forward(inputs: Tensor) -> Tensor:
        output: Tensor = _SkippedLinear.apply(inputs, module.weight, fill)  # type: ignore[no-untyped-call]
        return output

    module.forward = forward  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del module.forward


_skippable_by_model: WeakKeyDictionary[nn.Module, list[nn.Linear | None]] = WeakKeyDictionary()


def skippable_linears(parts: ModelParts, input_ids: Tensor) -> list[nn.Linear | None]:
    """For each block the linear map that may be left out; proved once for a model."""
    if parts.model not in _skippable_by_model:
        _skippable_by_model[parts.model] = _find_skippable(parts, input_ids)
    return _skippable_by_model[parts.model]


def _find_skippable(parts: ModelParts, input_ids: Tensor) -> list[nn.Linear | None]:
    if parts.hidden is None:
        return []
    with BlockInputStore() as store:
        replay = BlockReplay(parts.blocks, store, 0)
        calls_by_block: list[list[nn.Module]] = []
        with torch.enable_grad(), replay, _record_calls(parts.blocks, calls_by_block):
            parts.hidden(input_ids)
        return [
            _skippable_linear(block, calls_by_block[depth], replay, store.take((0, depth)), depth)
            for depth, block in enumerate(parts.blocks)
        ]


@contextmanager
def _record_calls(
    blocks: Sequence[nn.Module], calls_by_block: list[list[nn.Module]]
) -> Iterator[None]:
    """Notes the modules with parameters of their own, in the order each block calls them."""
    handles = []
    for block in blocks:
        calls: list[nn.Module] = []
        calls_by_block.append(calls)
        for part in block.modules():
            if any(True for _ in part.parameters(recurse=False)):
                handles.append(
                    part.register_forward_hook(lambda part, *_, calls=calls: calls.append(part))
                )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _skippable_linear(
    block: nn.Module, calls: list[nn.Module], replay: BlockReplay, block_input: Tensor, depth: int
) -> nn.Linear | None:
    last = calls[-1] if calls else None
    if type(last) is not nn.Linear or calls.count(last) != 1 or "forward" in vars(last):
        return None
    expected = _input_gradient(block, replay, block_input, depth, nullcontext())
    tolerance = TOLERANCES.get(expected.dtype, HALF_TOLERANCE) * expected.double().norm()
    for fill in PROBE_FILLS:
        other = _input_gradient(block, replay, block_input, depth, skip_linear(last, fill))
        if not bool((other - expected).double().norm() <= tolerance):  # NaN counts as different
            return None
    return last


def _input_gradient(
    block: nn.Module,
    replay: BlockReplay,
    block_input: Tensor,
    depth: int,
    context: AbstractContextManager[None],
) -> Tensor:
    """What a fixed gradient of the block's output becomes at its input."""
    inputs = block_input.detach().requires_grad_()
    args, kwargs = replay.block_arguments(depth, inputs)
    with torch.enable_grad(), context:
        out = block(*args, **kwargs)
    out = out[0] if isinstance(out, tuple) else out
    span = torch.arange(out.numel(), device=out.device).view_as(out)
    torch.autograd.backward(out, (span * 0.7).sin().to(out.dtype))
    return torch.zeros_like(inputs) if inputs.grad is None else inputs.grad
