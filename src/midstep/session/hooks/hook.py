"""What a hook is: a name, a panel, and a few moments of a step at which it may look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torch import nn
    from torch.utils.hooks import RemovableHandle

    from midstep.control import Panel

__all__ = ["Hook"]


class Hook:
    """Base of all hooks; every method does nothing until it is overridden.

    A hook is asked only while somebody watches, never draws random numbers and never changes what
    it sees. One that raises is switched off and said so once; the training goes on.

    >>> class Norm(Hook):
    ...     key = "norm"
    ...     def after_step(self, model):
    ...         return {"weight": model.weight.norm()}
    """

    key: str = ""
    """Name of its step data."""
    panel: Panel | None = None
    """How that is shown."""

    def modules(self, model: nn.Module) -> Iterable[tuple[str, nn.Module]]:  # noqa: ARG002 - hook
        """The modules whose outputs it wants to see, with the names to call them by."""
        return ()

    def install(
        self,
        model: nn.Module,  # noqa: ARG002 - hook
        guard: Callable[[Callable[[], None]], None],  # noqa: ARG002 - hook
    ) -> list[RemovableHandle]:
        """Anything else to put on the model while somebody watches, for the rare hook.

        Args:
            model: the module in training.
            guard: calls what it is given if this is a pass that counts, and keeps its errors.
        """
        return []

    def begin_step(self, model: nn.Module) -> None:
        """A step begins that may be looked at."""

    def forward(
        self,
        name: str,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> None:
        """One of the modules ran in training; gradients are off here."""

    def before_step(self, model: nn.Module) -> None:
        """The gradients are there, the optimizer is about to step."""

    def after_step(self, model: nn.Module) -> Any:  # noqa: ARG002 - hook
        """The optimizer has stepped: what is to be shown, or None for nothing this time."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(key={self.key!r})"
