"""Run the blocks of a model a second time, one by one, from their stored inputs.

The bounded sweep keeps only the input of each block. It runs a block again when the block's turn
comes, so the activations of one block are in memory at a time. The last linear map of a block
need not be computed the second time: nothing reads its output (see `skippable_linears`).
"""

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
    """Stores the inputs of blocks until each is taken once.

    Args:
        folder: parent of a temporary folder with one file per tensor, removed at the end. None
            keeps the tensors in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._parent = folder
        self._folder: Path | None = None
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
        """Store a tensor. In memory it is held, not copied."""
        if self._folder is None:
            self._tensors[key] = value
            return
        path = self._folder / f"{key[0]}_{key[1]}.bin"
        # Through a mapping of torch: numpy has no bfloat16.
        mapped = torch.from_file(str(path), shared=True, size=value.numel(), dtype=value.dtype)
        mapped.copy_(value.detach().reshape(-1).cpu())
        self._files[key] = (path, value.shape, value.dtype, value.device)

    def take(self, key: tuple[int, int]) -> Tensor:
        """Return a tensor and delete it from the store."""
        if key in self._tensors:
            return self._tensors.pop(key)
        path, shape, dtype, device = self._files.pop(key)
        mapped = torch.from_file(str(path), shared=True, size=shape.numel(), dtype=dtype)
        # A clone does not depend on the mapping, so the file can be deleted.
        value = mapped.clone().view(shape).to(device)
        path.unlink()
        return value


class BlockReplay:
    """The blocks of one micro-batch: stores their inputs in the first run, and feeds the second.

    While the `with` block lasts, hooks store what each block is called with. They also disable
    autograd between the first and the last block, because the second run makes those graphs.

    Args:
        blocks: the blocks of the residual stream, in order.
        store: where the inputs go.
        number: number of the micro-batch, part of the key in the store.
    """

    def __init__(self, blocks: Sequence[nn.Module], store: BlockInputStore, number: int) -> None:
        self.blocks, self.store, self.number = blocks, store, number
        self.first_input: Tensor | None = None
        """Input of the first block with its graph, which leads to the embeddings."""
        self.gradient: Tensor | None = None
        """Gradient at the output of the block that runs next, counted from the top."""
        self._arguments: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._last_output: Tensor | None = None
        self._handles: list[Any] = []

    def __enter__(self) -> BlockReplay:
        for depth, block in enumerate(self.blocks):
            self._handles.append(
                block.register_forward_pre_hook(self._before(depth), with_kwargs=True)
            )
        # After the last block the graph begins again, for the final norm and the head.
        self._handles.append(self.blocks[-1].register_forward_hook(self._after_last))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _before(self, depth: int) -> Any:
        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            # Models of transformers pass the residual stream by position or as `hidden_states`.
            stream = args[0] if args else kwargs["hidden_states"]
            if depth == 0:
                self.first_input = stream
                # Kept with its graph: the gradient of the embeddings flows through it at the very
                # end.
                torch.set_grad_enabled(False)
            other_kwargs = {k: v for k, v in kwargs.items() if k != "hidden_states"}
            self._arguments[depth] = (args[1:], other_kwargs)
            self.store.put((self.number, depth), stream.detach())

        return before

    def _after_last(self, _: nn.Module, __: Any, output: Any) -> Any:
        stream = output[0] if isinstance(output, tuple) else output
        torch.set_grad_enabled(True)
        # A leaf: the backward pass of the head ends here and leaves its gradient in `.grad`.
        self._last_output = stream.detach().requires_grad_()
        return (self._last_output, *output[1:]) if isinstance(output, tuple) else self._last_output

    def take_gradient(self) -> None:
        """Start the backward run with the gradient that the head left at the last block."""
        if self._last_output is None or self._last_output.grad is None:
            raise RuntimeError("no gradient reached the last block")
        self.gradient, self._last_output = self._last_output.grad, None

    def take_input(self, depth: int) -> Tensor:
        """The stored input of a block, which the store then forgets."""
        return self.store.take((self.number, depth))

    def run_block(self, depth: int, block_input: Tensor) -> Tensor:
        """Call a block with the arguments of its first run, and `block_input` as its stream."""
        args, kwargs = self._arguments[depth]
        out = self.blocks[depth](block_input, *args, **kwargs)
        stream: Tensor = out[0] if isinstance(out, tuple) else out
        return stream


TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
"""Allowed difference of two input gradients, relative to their norm, by type."""
HALF_TOLERANCE = 0.05
"""The same for bfloat16 and float16."""
PROBE_FILLS = (float("nan"), 0.0)
"""NaN spreads from wherever a value is read. 0 finds code that only compares values, such as a
ReLU or a maximum, on which NaN may leave no trace."""


class _SkippedLinear(torch.autograd.Function):
    """A linear map with a constant output and the true gradient of its input.

    The gradient of the input, grad @ W, does not depend on the output. So it stays right when the
    forward product is left out.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, fill: float) -> Tensor:
        ctx.save_for_backward(weight)
        # One number, expanded: not even memory for the output is needed.
        return inputs.new_full((), fill).expand(*inputs.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        return grads[0] @ weight, None, None


@contextmanager
def skip_linear(module: nn.Linear | None, fill: float = 0.0) -> Iterator[None]:
    """Make `module` output a constant while the block runs. None changes nothing."""
    if module is None:
        yield
        return

    def forward(inputs: Tensor) -> Tensor:
        output: Tensor = _SkippedLinear.apply(inputs, module.weight, fill)  # type: ignore[no-untyped-call]
        return output

    # On the instance, so that hooks of the module (our recorder) still run.
    module.forward = forward  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del module.forward


# Weak keys: a cached proof must not keep a large model alive.
_skippable_by_model: WeakKeyDictionary[nn.Module, list[nn.Linear | None]] = WeakKeyDictionary()


def skippable_linears(parts: ModelParts, input_ids: Tensor) -> list[nn.Linear | None]:
    """For each block the linear map that its second run may skip, or None.

    Residual blocks end with `stream + linear(…)`. The second run needs only gradients, and the sum
    passes the same gradient whatever the map returns. Whether a given model is built like this is
    tested once, on `input_ids`, by replacing the output with NaN and with 0.
    """
    if parts.hidden is None:
        return []
    if parts.model in _skippable_by_model:
        return _skippable_by_model[parts.model]
    with BlockInputStore() as store:
        # One forward pass of a short probe finds the calls and the inputs of all blocks.
        replay = BlockReplay(parts.blocks, store, 0)
        calls_by_block: list[list[nn.Module]] = []
        with torch.enable_grad(), replay, _record_calls(parts.blocks, calls_by_block):
            parts.hidden(input_ids)
        _skippable_by_model[parts.model] = [
            _skippable_linear(calls, replay, replay.take_input(depth), depth)
            for depth, calls in enumerate(calls_by_block)
        ]
    return _skippable_by_model[parts.model]


@contextmanager
def _record_calls(
    blocks: Sequence[nn.Module], calls_by_block: list[list[nn.Module]]
) -> Iterator[None]:
    """Record which modules with parameters each block calls, in order."""
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
    calls: list[nn.Module], replay: BlockReplay, block_input: Tensor, depth: int
) -> nn.Linear | None:
    last = calls[-1] if calls else None
    # A subclass (an adapter) or a map used twice computes something else; leave it alone.
    if type(last) is not nn.Linear or calls.count(last) != 1 or "forward" in vars(last):
        return None
    expected = _input_gradient(replay, block_input, depth, nullcontext())
    tolerance = TOLERANCES.get(expected.dtype, HALF_TOLERANCE) * expected.double().norm()
    for fill in PROBE_FILLS:
        other = _input_gradient(replay, block_input, depth, skip_linear(last, fill))
        if not bool((other - expected).double().norm() <= tolerance):  # NaN counts as different
            return None
    return last


def _input_gradient(
    replay: BlockReplay, block_input: Tensor, depth: int, context: AbstractContextManager[None]
) -> Tensor:
    """The gradient at a block's input for a fixed gradient at its output."""
    inputs = block_input.detach().requires_grad_()
    with torch.enable_grad(), context:
        out = replay.run_block(depth, inputs)
    # A fixed wave instead of random numbers: the probe must not draw from a generator.
    span = torch.arange(out.numel(), device=out.device).view_as(out)
    torch.autograd.backward(out, (span * 0.7).sin().to(out.dtype))
    return torch.zeros_like(inputs) if inputs.grad is None else inputs.grad
