"""What of torch is changed while a script runs. Each function calls the usual one unchanged."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from midstep.live.script.script_names import is_installed

if TYPE_CHECKING:
    from midstep.live.script.watched_script import WatchedScript


def watch_torch(watched: WatchedScript, torch: Any) -> None:
    """Watch optimizers, backward passes, loss scaling and compilation.

    Args:
        watched: is told what happens.
        torch: the module, completely loaded.
    """
    _watch_optimizers(watched, torch)
    _watch_backward(watched, torch)
    _watch_scaler(watched, torch.amp.GradScaler)
    _watch_compilation(watched, torch)


def _watch_optimizers(watched: WatchedScript, torch: Any) -> None:
    def made(usual: Any) -> Any:
        def init(optimizer: Any, *arguments: Any, **named: Any) -> None:
            usual(optimizer, *arguments, **named)
            watched.optimizer_made(optimizer)

        return init

    def gradients_dropped(usual: Any) -> Any:
        def zero_grad(owner: Any, *arguments: Any, **named: Any) -> None:
            usual(owner, *arguments, **named)
            if (steps := watched.steps) is not None:
                steps.gradients_dropped(_parameters(owner))

        return zero_grad

    def before(optimizer: Any, arguments: Any, named: Any) -> None:
        if (steps := watched.steps) is not None:
            steps.before_step(optimizer, arguments, named)

    def after(optimizer: Any, _arguments: Any, _named: Any) -> None:
        if (steps := watched.steps) is not None:
            steps.after_step(optimizer)

    watched.patches.replace(torch.optim.Optimizer, "__init__", made)
    watched.patches.replace(torch.optim.Optimizer, "zero_grad", gradients_dropped)
    watched.patches.replace(torch.nn.Module, "zero_grad", gradients_dropped)
    module = sys.modules[torch.optim.Optimizer.__module__]  # `torch.optim` hides its own module
    watched.patches.call_at_undo(module.register_optimizer_step_pre_hook(before).remove)
    watched.patches.call_at_undo(module.register_optimizer_step_post_hook(after).remove)


def _parameters(owner: Any) -> Iterator[Any]:
    """The parameters of an optimizer or of a module."""
    if hasattr(owner, "param_groups"):
        return (each for group in owner.param_groups for each in group["params"])
    return iter(owner.parameters())


def _watch_backward(watched: WatchedScript, torch: Any) -> None:
    """`Tensor.backward` calls `torch.autograd.backward`, so one function is enough."""

    def wrap(usual: Any) -> Any:
        def backward(tensors: Any, grad_tensors: Any = None, *arguments: Any, **named: Any) -> None:
            steps = watched.steps
            if steps is None or not steps.backward_begins(tensors, grad_tensors):
                usual(tensors, grad_tensors, *arguments, **named)
                return
            try:
                usual(tensors, grad_tensors, *arguments, **named)
            finally:
                steps.backward_ended()

        return backward

    watched.patches.replace(torch.autograd, "backward", wrap)


def watch_scale(watched: WatchedScript, scaler_class: Any) -> None:
    """Watch the losses that a GradScaler multiplies.

    Args:
        watched: is told what happens.
        scaler_class: the class, which has a `scale` of its own.
    """

    def scaled(usual: Any) -> Any:
        def scale(scaler: Any, outputs: Any) -> Any:
            result = usual(scaler, outputs)
            if (steps := watched.steps) is not None:
                steps.loss_scaled(result, outputs)
            return result

        return scale

    watched.patches.replace(scaler_class, "scale", scaled)


def _watch_scaler(watched: WatchedScript, scaler_class: Any) -> None:
    def stepped(usual: Any) -> Any:
        def step(scaler: Any, optimizer: Any, *arguments: Any, **named: Any) -> Any:
            steps = watched.steps
            before = 0 if steps is None else steps.optimizer_steps
            result = usual(scaler, optimizer, *arguments, **named)
            if steps is not None and steps.optimizer_steps == before:
                steps.step_skipped()  # the gradients were infinite
            return result

        return step

    watch_scale(watched, scaler_class)
    watched.patches.replace(scaler_class, "step", stepped)


def _watch_compilation(watched: WatchedScript, torch: Any) -> None:
    """A hook inside of what is compiled would be compiled too: only the outside gets one."""

    def compiled(usual: Any) -> Any:
        def compile(model: Any = None, *arguments: Any, **named: Any) -> Any:  # noqa: A001
            steps = watched.steps
            if isinstance(model, torch.nn.Module):
                if steps is not None:
                    steps.before_compilation(model)
                result = usual(model, *arguments, **named)
                if steps is not None:
                    steps.model_compiled(result)
                return result
            if not is_installed(sys._getframe(1)):
                watched.compiles_functions = True
                if steps is not None:
                    steps.before_compilation(None)
            return usual(model, *arguments, **named)

        return compile

    def compiled_in_place(usual: Any) -> Any:
        def compile(module: Any, *arguments: Any, **named: Any) -> None:  # noqa: A001
            if (steps := watched.steps) is not None:
                steps.before_compilation(module)
            usual(module, *arguments, **named)

        return compile

    watched.patches.replace(torch, "compile", compiled)
    watched.patches.replace(torch.nn.Module, "compile", compiled_in_place)


def watch_loaders(watched: WatchedScript, dataloader: ModuleType) -> None:
    """Watch the batches that any DataLoader gives.

    Args:
        watched: is told what happens.
        dataloader: the module of torch's DataLoader.
    """

    def wrap(usual: Any) -> Any:
        def __next__(iterator: Any) -> Any:  # noqa: N807 - the name is in the traceback
            steps = watched.steps
            if steps is None:
                return usual(iterator)
            steps.before_batch()
            try:
                batch = usual(iterator)
            except StopIteration:
                steps.pass_ended(iterator)
                raise
            steps.after_batch(iterator, batch)
            return batch

        return __next__

    watched.patches.replace(dataloader._BaseDataLoaderIter, "__next__", wrap)
