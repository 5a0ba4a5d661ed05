"""Norms of all parameters of a model over one training step, in which several optimizers step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from midstep.session.metrics.tensor_norms import ParameterNorms


def parameter_ids(optimizer: torch.optim.Optimizer) -> frozenset[int]:
    """The ids of the parameters of an optimizer; not cached, because groups can be added."""
    return frozenset(id(each) for group in optimizer.param_groups for each in group["params"])


class StepNorms:
    """Measures each parameter around the step of the optimizer that holds it.

    In a GAN the gradients of the discriminator are those before its own optimizer steps; before
    the other one steps, a second backward pass has already added to them. If an optimizer steps
    several times in one training step, its last step counts. A parameter whose optimizer did not
    step has an unknown update (NaN), not one of zero.

    Args:
        named: parameters by name, as `model.named_parameters()` returns them. They are only read.
        updates: whether to measure changes, which needs a clone of the weights.

    >>> model = torch.nn.Linear(2, 1)
    >>> norms = StepNorms(model.named_parameters())
    >>> norms.before({id(model.weight)})
    >>> norms.after()
    >>> norms.measure()[2].isnan().tolist()
    [False, True]
    """

    def __init__(
        self, named: Iterable[tuple[str, torch.nn.Parameter]], *, updates: bool = True
    ) -> None:
        self._named, self._updates = list(named), updates
        self._others: ParameterNorms | None = None
        self._open: ParameterNorms | None = None
        self._parts: list[tuple[Sequence[str], torch.Tensor]] = []
        self.names: list[str] = []
        """Names of the measured parameters, once `measure` was called."""

    def before(self, held: Iterable[int]) -> None:
        """Measure the gradients of one optimizer's parameters, given by `id`, before its step."""
        known = frozenset(held)
        own = [(name, value) for name, value in self._named if id(value) in known]
        if self._others is None:
            # Now, because after the last optimizer has stepped the user may have dropped them.
            others = [(name, value) for name, value in self._named if id(value) not in known]
            self._others = ParameterNorms(others, updates=False)
        self._open = ParameterNorms(own, updates=self._updates)

    def after(self) -> None:
        """Measure weights and updates of these parameters, after the optimizer has stepped."""
        measured, self._open = self._open, None
        if measured is not None:
            self._parts.append((measured.names, measured.measure()))

    @torch.no_grad()
    def measure(self) -> torch.Tensor:
        """The norms of weights, gradients and updates, [3, P], on the device; does not wait.

        Called once. The gradient norm is 0 without a gradient, the update norm NaN if unknown.
        """
        others = self._others or ParameterNorms(self._named, updates=False)
        parts = [(others.names, others.measure()), *self._parts]
        known = [part for part in parts if part[0]]
        if len(known) == 1:  # nearly always: one optimizer holds all parameters
            self.names = list(known[0][0])
            return known[0][1]
        # Later parts replace earlier ones: each optimizer knows its own parameters best.
        columns = {
            name: column
            for names, norms in known
            for name, column in zip(names, norms.unbind(dim=1), strict=True)
        }
        self.names = [name for name, _ in self._named if name in columns]
        if not self.names:
            return torch.empty(3, 0)
        device = columns[self.names[0]].device
        chosen = [columns[name].to(device, non_blocking=True) for name in self.names]
        return torch.stack(chosen, dim=1)
