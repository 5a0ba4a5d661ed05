"""What a micro-batch leaves at the borders of the blocks, so that each block can be run again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from midstep.influence.borders import BorderStore

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Stem"]


class Stem:
    """Hooks that note what each block of a micro-batch was given, and cut the graph around them."""

    def __init__(self, blocks: Sequence[nn.Module], store: BorderStore, number: int) -> None:
        self.blocks, self.store, self.number = blocks, store, number
        self.calls: dict[int, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self.bottom: Tensor | None = None
        self.gradient: Tensor | None = None
        self._top: Tensor | None = None
        self._handles: list[Any] = []

    def __enter__(self) -> Stem:
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
                self.bottom = stream
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
        self._top = stream.detach().requires_grad_()
        return (self._top, *output[1:]) if isinstance(output, tuple) else self._top

    def take_gradient(self) -> None:
        """Keep the gradient that reached the top of the blocks."""
        if self._top is None or self._top.grad is None:
            raise RuntimeError("no gradient reached the last block")
        self.gradient, self._top = self._top.grad, None

    def with_first(self, depth: int, stream: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a block with its stream put back."""
        args, kwargs = self.calls[depth]
        return (stream, *args), kwargs
