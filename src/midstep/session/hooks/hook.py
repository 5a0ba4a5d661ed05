"""`Hook`, the base class: a key, a panel, and methods that are called during a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torch import nn
    from torch.utils.hooks import RemovableHandle

    from midstep.control import Panel


class Hook:
    """Base of all hooks; every method does nothing until it is overridden.

    A hook is called only while its data may be shown. It must not draw random numbers and must not
    change what it reads. A hook that raises is switched off and reported once; training continues.

    >>> class Norm(Hook):
    ...     key = "norm"
    ...     def after_step(self, model):
    ...         return {"weight": model.weight.norm()}
    """

    key: str = ""
    """Name of its step data."""
    panel: Panel | None = None
    """How the page shows it."""

    def modules(self, model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
        """The modules whose outputs `forward` gets, as (name, module)."""
        return ()

    def install(
        self,
        model: nn.Module,
        guard: Callable[[Callable[[], None]], None],
    ) -> list[RemovableHandle]:
        """Register further hooks on the model; returns their handles. Rarely needed.

        Args:
            model: the module in training.
            guard: calls a function if this is a pass in training, and handles its errors.
        """
        return []

    def begin_step(self, model: nn.Module) -> None:
        """Called when a step begins that may be shown."""

    def forward(
        self,
        name: str,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> None:
        """Called after one of the modules ran in training; gradients are off here."""

    def before_step(self, model: nn.Module) -> None:
        """Called before the optimizer steps; of several, before the first one steps."""

    def before_optimizer(self, model: nn.Module, held: frozenset[int]) -> None:
        """Called before each optimizer steps; `held` has the `id` of each of its parameters."""

    def after_optimizer(self, model: nn.Module) -> None:
        """Called after each optimizer has stepped."""

    def after_step(self, model: nn.Module) -> Any:
        """Called after the optimizer has stepped; returns the data to show, or None.

        With several optimizers it is called at the end of the step, when all have stepped.
        """
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(key={self.key!r})"
