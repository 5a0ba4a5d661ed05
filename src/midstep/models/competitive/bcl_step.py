"""The step of competitive learning on a linear layer: a forward hook, which adds a backward hook.

The forward hook computes everything without gradients, from the layer's input, output and weights
at that moment. An activation that is changed in place later has no effect on it. The backward hook
masks the gradient, and applies the pull only after the whole backward pass: the layer's inputs, and
other uses of its weights, need the weights from before the pull.

Shapes: B samples, D features, I inputs of a feature, K neighbours.
"""

# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from midstep.core.errors import ConfigError
from midstep.models.competitive.competition import (
    Neighbours,
    compete,
    find_neighbours,
    neighbours_from_ids,
)
from midstep.models.competitive.forces import FORCES, step_metrics, step_tensors
from midstep.models.competitive.settings import BCLConfig

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle


def require_linear(module: nn.Module) -> nn.Linear:
    """The module itself, if it is a linear layer with floating-point parameters as weights."""
    given = type(module).__name__
    if not isinstance(module, nn.Linear):
        raise ConfigError(
            f"BCL attaches to an nn.Linear, got {given}; give it the linear layer itself, "
            "such as model.encoder"
        )
    weight = module.weight
    if isinstance(weight, UninitializedParameter):
        raise ConfigError(f"the weights of this {given} have no shape yet; run one batch first")
    if not isinstance(weight, nn.Parameter) or not weight.is_floating_point():
        raise ConfigError(
            f"BCL changes the weights of a layer, but those of this {given} are computed or not "
            "floating point; give it a layer without a parametrization"
        )
    return module


def working_dtype(weight: Tensor) -> torch.dtype:
    """Type of the formulas: at least float32, because ε = 1e-8 is 0 in half precision."""
    return torch.promote_types(weight.dtype, torch.float32)


log = logging.getLogger("midstep.models.competitive")


@dataclass(eq=False)
class _PendingPass:
    """One forward pass before its backward pass. It lives as long as its autograd graph."""

    grad_mask: Tensor
    """Mask in the shape and type of the layer's output."""
    som_delta: Tensor | None
    """None after its first use: a graph may run backward several times, but pulls once."""


class BCL:
    """Lets the features of a linear layer compete during training. The loop needs no change.

    It works in training mode with gradients enabled, and does nothing in evaluation. A batch with
    non-finite activations is skipped: its gradient passes unmasked, and nothing is pulled. Inputs
    of any rank are used as a batch of rows.

    Args:
        module: the layer; each row of its weights is a feature.
        config: how they compete; None: the defaults.
        wants_tensors: whether to keep `last_tensors`: a flag, or a function called at each forward
            pass. It is also an attribute and can be changed at any time.

    Raises:
        ConfigError: the module is not a plain linear layer, or has a BCL already.

    >>> layer = nn.Linear(4, 3)
    >>> bcl = BCL(layer, BCLConfig(neighborhood_k=2))
    >>> layer(torch.ones(5, 4)).sum().backward()
    >>> bcl.get_step_metrics()["win_rate"].shape
    torch.Size([3])
    >>> bcl.remove()
    """

    def __init__(
        self,
        module: nn.Module,
        config: BCLConfig | None = None,
        *,
        wants_tensors: bool | Callable[[], bool] = False,
    ) -> None:
        self.module, self.config = require_linear(module), config or BCLConfig()
        if BCL.attached_to(module) is not None:
            raise ConfigError("this layer has a BCL already; call remove() on that one first")
        self.wants_tensors = wants_tensors
        self.steps = 0
        """Finished backward passes; with gradient accumulation, several per optimizer step."""
        self.fault: str | None = None
        """The error that switched it off; None while it works."""
        self._skipped: Tensor | int = 0
        self._neighbours: Neighbours | None = None
        self._neighbours_step = 0
        self._metrics: dict[str, Tensor] = {}
        self._tensors: dict[str, Tensor] = {}
        self._usable: Tensor | None = None
        self._pending: weakref.WeakSet[_PendingPass] = weakref.WeakSet()
        self._handle: RemovableHandle | None = self.module.register_forward_hook(
            self._forward, with_kwargs=True
        )

    # -- reading ----------------------------------------------------------------------------------

    @property
    def attached(self) -> bool:
        """Whether its hook is on the layer."""
        return self._handle is not None

    @property
    def skipped(self) -> int:
        """Batches skipped because of non-finite values."""
        return int(self._skipped)

    def describe(self) -> dict[str, Any]:
        """Settings and state as plain data, for facts and pages."""
        features, inputs = self.module.weight.shape
        return {
            "kind": "bcl",
            **asdict(self.config),
            "features": features,
            "inputs": inputs,
            "attached": self.attached,
            "steps": self.steps,
            "skipped": self.skipped,
            "fault": self.fault,
        }

    def get_step_metrics(self) -> dict[str, Tensor]:
        """Per feature, [D] each, of the last training forward; empty if that was skipped."""
        return dict(self._metrics) if self._last_pass_is_usable() else {}

    def last_tensors(self) -> dict[str, Tensor]:
        """Raw tensors of the last training forward; empty unless `wants_tensors` was true then."""
        return dict(self._tensors) if self._tensors and self._last_pass_is_usable() else {}

    def _last_pass_is_usable(self) -> bool:
        return self._usable is not None and bool(self._usable)

    @staticmethod
    def attached_to(module: nn.Module) -> BCL | None:
        """The BCL of a layer, if it has one. A deep copy of a layer has a copy of its BCL."""
        # Bound methods of a BCL: a deep copy of the layer copies the hook with its owner.
        for hook in module._forward_hooks.values():
            owner = getattr(hook, "__self__", None)
            if isinstance(owner, BCL):
                return owner
        return None

    def remove(self) -> None:
        """Remove the hook from the layer. Calling it twice is allowed.

        A graph whose backward pass comes later is neither masked nor pulled.
        """
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()
        self._metrics, self._tensors, self._usable = {}, {}, None

    # -- resuming and copying ---------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state that a resumed training needs to continue with the same bits."""
        neighbours = self._neighbours
        return {
            "steps": self.steps,
            "skipped": self.skipped,
            "found_at": self._neighbours_step,
            "neighbours": None if neighbours is None else neighbours.ids_DK.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of `state_dict`."""
        self.steps, self._skipped = int(state["steps"]), int(state["skipped"])
        self._neighbours_step = int(state["found_at"])
        ids_DK, weight = state["neighbours"], self.module.weight
        self._neighbours = None
        if ids_DK is not None:
            self._neighbours = neighbours_from_ids(ids_DK.to(weight.device), working_dtype(weight))

    def __getstate__(self) -> dict[str, Any]:
        """State of a copy: without tensors of the last step, viewers and pending graphs."""
        copied = {**self.__dict__, "_metrics": {}, "_tensors": {}, "_usable": None}
        del copied["_pending"]
        return {**copied, "wants_tensors": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pending = weakref.WeakSet()

    # -- hooks, called by the training thread -----------------------------------------------------

    def _forward(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor
    ) -> None:
        weight = self.module.weight
        idle = not (module.training and torch.is_grad_enabled() and weight.requires_grad)
        if idle or module is not self.module or output.numel() == 0:
            return
        try:
            pending = self._compete(args[0] if args else kwargs["input"], output)
        except Exception as error:  # noqa: BLE001 - an error of ours must not end the training
            self._switch_off(error)
            return
        self._pending.add(pending)
        output.register_hook(partial(self._backward, pending))  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def _compete(self, inputs: Tensor, output: Tensor) -> _PendingPass:
        """Mask and pull of one batch, from input and output of the forward pass."""
        self._metrics, self._tensors = {}, {}  # freed first, so that the new ones reuse the memory
        weight_DI = self.module.weight.detach()
        dtype = working_dtype(weight_DI)
        weight_DI = weight_DI.to(dtype)
        x_BI = inputs.detach().reshape(-1, weight_DI.shape[1]).to(dtype)
        activations_BD = output.detach().reshape(-1, weight_DI.shape[0]).to(dtype)
        competition = compete(
            activations_BD, self._current_neighbours(weight_DI), self.config.temperature
        )
        forces = FORCES[self.config.variant](competition, x_BI, weight_DI, self.config)
        # A sum is finite only if all its terms are. It stays a tensor: `bool` would wait for the
        # GPU.
        usable = torch.isfinite(competition.strength_BD.sum()) & torch.isfinite(
            forces.som_delta_DI.sum()
        )
        self._metrics, self._usable = step_metrics(competition, forces), usable
        self._tensors = step_tensors(competition, forces) if self._wants_tensors_now() else {}
        self._skipped = self._skipped + ~usable
        mask = _select(usable, forces.grad_mask_BD, 1.0)
        return _PendingPass(
            grad_mask=mask.reshape(output.shape).to(output.dtype),
            som_delta=_select(usable, forces.som_delta_DI, 0.0),
        )

    def _current_neighbours(self, weight_DI: Tensor) -> Neighbours:
        """The neighbours, computed again every `recompute_every` steps and for a changed layer."""
        neighbours = self._neighbours
        if (
            neighbours is None
            or self.steps - self._neighbours_step >= self.config.recompute_every
            or neighbours.ids_DK.device != weight_DI.device
            or neighbours.adjacency_DD.dtype != weight_DI.dtype
            or len(neighbours.ids_DK) != len(weight_DI)
        ):
            neighbours = find_neighbours(weight_DI, self.config.neighborhood_k)
            self._neighbours, self._neighbours_step = neighbours, self.steps
        return neighbours

    def _wants_tensors_now(self) -> bool:
        wanted = self.wants_tensors
        try:
            return wanted() if callable(wanted) else wanted
        except Exception:  # a user's function: its error must not end the training
            log.exception(
                "wants_tensors raised an error and is off; competitive learning continues"
            )
            self.wants_tensors = False
            return False

    def _backward(self, pending: _PendingPass, gradient: Tensor) -> Tensor | None:
        if not self.attached:
            return None
        delta, pending.som_delta = pending.som_delta, None
        if delta is not None:
            self._pending.discard(pending)
            self.steps += 1
            if self.config.variant != "neighborhood":  # there nothing is pulled
                graph_is_kept = torch._C._autograd._get_current_graph_task_keep_graph()
                engine: Any = torch.autograd.Variable._execution_engine
                # Runs at the end of this backward pass, also when it is one of several on a kept
                # graph.
                engine.queue_callback(partial(self._pull, delta, graph_is_kept=graph_is_kept))
        return gradient * pending.grad_mask

    @torch.no_grad()
    def _pull(self, delta_DI: Tensor, *, graph_is_kept: bool) -> None:
        """Change the weights, at the end of a backward pass.

        In place, except while a graph may still run backward: then into new storage, because that
        graph needs the weights that it was made with.
        """
        weight = self.module.weight
        try:
            delta = delta_DI.to(weight.dtype)
            # An in-place change raises torch's version counter, and a later backward pass would
            # fail.
            if graph_is_kept or self._pending:
                weight.data = weight.data + delta
            else:
                weight.add_(delta)
        except Exception as error:  # noqa: BLE001 - an error of ours must not end the training
            self._switch_off(error)

    def _switch_off(self, error: Exception) -> None:
        self.remove()
        self.fault = f"{type(error).__name__}: {error}"
        log.error("competitive learning failed and is off; training continues", exc_info=error)


def _select(usable: Tensor, value: Tensor, instead: float) -> Tensor:
    """`value` if usable, else a constant.

    Decided on the device, so that nothing waits for a GPU.
    """
    if usable.is_cpu and usable:
        return value
    return torch.where(usable, value, instead)
