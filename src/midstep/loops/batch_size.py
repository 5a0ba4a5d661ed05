"""`find_batch_size`: the largest batch that fits into memory, for `data.batch_size=auto`.

The search trains on trial batches. Afterwards weights, buffers, gradients, optimizer state and
random generators are as before.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil
import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, require
from midstep.data.random_state import Generators, RandomState

if TYPE_CHECKING:
    from torch.optim import Optimizer

TryStep = Callable[[int], object]
FIRST_SIZE = 32
"""The first trial; smaller sizes are tried only if it does not fit."""
REFINEMENTS = 3
"""Trials between the last size that fits and the first that does not."""
CPU_SHARE = 0.25
"""Of the free memory, for the growth that a step on the CPU may cause."""
CGROUP = Path("/sys/fs/cgroup")
_OUT_OF_MEMORY = ("out of memory", "alloc_failed")
"""In the messages of backends that have no error class of their own for it."""


class MemoryMeter(Protocol):
    """Measures the memory of this process."""

    def free_bytes(self) -> int:
        """Bytes that can still be allocated."""

    def peak_of(self, call: Callable[[], object]) -> int:
        """Bytes by which the process grew at most during a call."""


def find_batch_size(
    try_step: TryStep,
    *,
    device: torch.device,
    dataset_size: int,
    parts: Sequence[nn.Module | Optimizer] = (),
    generators: Generators = (),
    memory: MemoryMeter | None = None,
) -> int:
    """The largest batch size that fits, at most the size of the dataset.

    On a GPU, sizes are tried until memory runs out. On a CPU a step must not take all memory, so
    the growth of the process is measured and kept within a quarter of what is free.

    Args:
        try_step: makes one whole training step, optimizer included, on a batch of the given size.
        device: where the step runs.
        dataset_size: samples of the training split.
        parts: the models and optimizers that `try_step` changes; they are restored.
        generators: generators besides the global ones that `try_step` draws from.
        memory: how memory of the CPU is measured.

    Raises:
        ConfigError: not even one sample fits.
    """
    require(at_least("dataset_size", dataset_size, 1))
    if device.type == "cuda" and torch.cuda.is_available():
        torch.cuda.init()  # type: ignore[no-untyped-call]  # else its generator is not saved
    with _unchanged(parts, generators):
        if device.type == "cpu":
            return _by_growth(try_step, dataset_size, memory or ProcessMemory())
        return _by_trial(try_step, dataset_size, device)


# -- GPU ----------------------------------------------------------------------------------------


def _by_trial(try_step: TryStep, most: int, device: torch.device) -> int:
    fits, fails = 0, most + 1
    size = min(FIRST_SIZE, most)
    while fails == most + 1 and fits < most:
        if _fits(try_step, size):
            fits, size = size, min(2 * size, most)
        else:
            fails = size
    for _ in range(REFINEMENTS if fits else FIRST_SIZE.bit_length()):
        size = (fits + fails) // 2
        if size == fits:
            break
        if _fits(try_step, size):
            fits = size
        else:
            fails = size
    if not fits:
        raise ConfigError(
            f"one sample does not fit into the memory of {device}; make the model smaller, or "
            "train on another device"
        )
    return fits


def _fits(try_step: TryStep, size: int) -> bool:
    """Whether two steps fit: the first one may allocate the optimizer state only at its end."""
    is_over = False
    try:
        for _ in range(2):
            try_step(size)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        is_over = True
    # Outside the handler: until then the traceback keeps the tensors of the failed step alive.
    if is_over:
        gc.collect(1)  # what the step left in cycles is young; a full collection takes long
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return not is_over


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether an error says that a device has no memory left.

    >>> is_out_of_memory(RuntimeError("MPS backend out of memory"))
    True
    """
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or any(
        words in text for words in _OUT_OF_MEMORY
    )


# -- CPU ----------------------------------------------------------------------------------------


def _by_growth(try_step: TryStep, most: int, memory: MemoryMeter) -> int:
    """Double the size while the next doubling stays within the budget, then extrapolate once."""
    budget = int(memory.free_bytes() * CPU_SHARE)
    size, growth = min(FIRST_SIZE, most), 0
    while True:
        growth = max(growth, memory.peak_of(partial(try_step, size)))
        if growth > budget:
            return _shrink(try_step, size, budget, memory)
        if size == most:
            return most
        if 2 * growth > budget:
            # Memory grows at most in proportion to the size, since weights have a share in it.
            return min(most, max(size, size * budget // growth))
        size = min(2 * size, most)


def _shrink(try_step: TryStep, size: int, budget: int, memory: MemoryMeter) -> int:
    """A smaller size after one that was above the budget."""
    while size > 1:
        size //= 2
        if memory.peak_of(partial(try_step, size)) <= budget:
            return size
    raise ConfigError(
        f"a training step with one sample needs more than {budget:,} bytes, a quarter of the free "
        "memory; set data.batch_size to a number to train anyway"
    )


class ProcessMemory:
    """Measures this process. Linux records its peak; elsewhere only the end of a call is seen."""

    def free_bytes(self) -> int:
        """Free memory of the machine, or of the container if that has less."""
        free = int(psutil.virtual_memory().available)
        try:
            limit = int((CGROUP / "memory.max").read_text())
            used = int((CGROUP / "memory.current").read_text())
        except (OSError, ValueError):  # no such limit: the file is missing or says "max"
            return free
        return min(free, max(0, limit - used))

    def peak_of(self, call: Callable[[], object]) -> int:
        """Growth of resident memory during a call, at its peak."""
        process = psutil.Process()
        before = process.memory_info().rss
        can_reset = _reset_peak()
        call()
        after = (_peak_bytes() if can_reset else None) or process.memory_info().rss
        return int(max(0, after - before))


def _reset_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _peak_bytes() -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    kibibytes = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kibibytes[0]) * 1024 if kibibytes else None


# -- restoring ------------------------------------------------------------------------------------


@contextmanager
def _unchanged(parts: Sequence[nn.Module | Optimizer], generators: Generators) -> Iterator[None]:
    """Restore models, optimizers and generators at the end of the block."""
    random_state = RandomState.take(generators)
    copies = [
        _ModuleCopy.take(part) if isinstance(part, nn.Module) else _OptimizerCopy.take(part)
        for part in parts
    ]
    try:
        yield
    finally:
        for copy in copies:
            copy.restore()
        random_state.restore(generators)


@dataclass(frozen=True)
class _ModuleCopy:
    """Values, gradients and modes of a module. Copies are on the CPU, to leave the GPU its room."""

    module: nn.Module
    values: Sequence[tuple[Tensor, Tensor]]
    gradients: Sequence[tuple[nn.Parameter, Tensor | None]]
    modes: Mapping[nn.Module, bool]

    @classmethod
    def take(cls, module: nn.Module) -> _ModuleCopy:
        # Not `state_dict`, which lacks buffers that are not persistent.
        tensors = [*module.parameters(), *module.buffers()]
        return cls(
            module,
            [(tensor, _on_cpu(tensor)) for tensor in tensors],
            [
                (weight, None if weight.grad is None else _on_cpu(weight.grad))
                for weight in module.parameters()
            ],
            {each: each.training for each in module.modules()},
        )

    @torch.no_grad()
    def restore(self) -> None:
        for tensor, value in self.values:
            tensor.copy_(value)
        for weight, gradient in self.gradients:
            weight.grad = None if gradient is None else gradient.to(weight.device)
        for each, mode in self.modes.items():
            each.training = mode


@dataclass(frozen=True)
class _OptimizerCopy:
    """State and settings of an optimizer, without the casts of `load_state_dict`."""

    optimizer: Optimizer
    state: Mapping[Any, Mapping[str, Any]]
    groups: Sequence[Mapping[str, Any]]

    @classmethod
    def take(cls, optimizer: Optimizer) -> _OptimizerCopy:
        state = {
            weight: {name: _copy(value) for name, value in values.items()}
            for weight, values in optimizer.state.items()
        }
        groups = [
            {name: _copy(value) for name, value in group.items() if name != "params"}
            for group in optimizer.param_groups
        ]
        return cls(optimizer, state, groups)

    def restore(self) -> None:
        self.optimizer.state.clear()
        for weight, values in self.state.items():
            self.optimizer.state[weight] = {
                name: value.restore() if isinstance(value, _TensorCopy) else value
                for name, value in values.items()
            }
        for group, saved in zip(self.optimizer.param_groups, self.groups, strict=True):
            for name, value in saved.items():
                group[name] = value.restore() if isinstance(value, _TensorCopy) else value


@dataclass(frozen=True)
class _TensorCopy:
    value: Tensor
    device: torch.device

    def restore(self) -> Tensor:
        return self.value.to(self.device)


def _copy(value: Any) -> Any:
    return _TensorCopy(_on_cpu(value), value.device) if isinstance(value, Tensor) else value


def _on_cpu(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)
