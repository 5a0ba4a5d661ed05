"""Parameters that a model gets in its first forward pass: lazy ones, or created by `forward`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from midstep.core.errors import ConfigError

Kind = Literal["parameter", "buffer"]


def is_uninitialized(tensor: Any) -> bool:
    """Whether this is a lazy parameter or buffer of torch that has no shape yet."""
    return hasattr(type(tensor), "cls_to_become")


def has_uninitialized(model: Any) -> bool:
    """Whether a model has lazy parameters or buffers that no forward pass has initialised."""
    return any(map(is_uninitialized, model.parameters())) or any(
        map(is_uninitialized, model.buffers())
    )


def created_since(model: Any, names_at_begin: Mapping[str, Any] | None) -> dict[str, Kind]:
    """Parameters and buffers that the model did not have when the run began, with their kind.

    Args:
        model: the module in training.
        names_at_begin: the names in its `state_dict` then, as its fingerprint has them.
    """
    if names_at_begin is None:
        return {}
    kinds: dict[str, Kind] = dict.fromkeys(
        (name for name, _ in model.named_parameters(remove_duplicate=False)), "parameter"
    )
    kinds |= dict.fromkeys(
        (name for name, _ in model.named_buffers(remove_duplicate=False)), "buffer"
    )
    return {name: kind for name, kind in kinds.items() if name not in names_at_begin}


def add_created(model: Any, saved: Mapping[str, Any], created: Mapping[str, Kind]) -> None:
    """Give the model the parameters and buffers that `forward` had created when it was saved.

    Args:
        model: the module in training.
        saved: its saved `state_dict`.
        created: the kind of those that were created after the run began.

    Raises:
        ConfigError: the model has others than the saved state, and they cannot be added.
    """
    present = model.state_dict().keys()
    missing = [name for name in saved if name not in present]
    if unknown := [name for name in missing if name not in created]:
        raise ConfigError(
            f"the checkpoint has {', '.join(unknown[:3])}, which this model lacks. If forward "
            "creates it, run one batch through the model before midstep.attach or Session"
        )
    for name in missing:
        _add(model, name, saved[name], created[name])


def check_has_all(model: Any, saved: Mapping[str, Any], step: int) -> None:
    """Refuse a state from before the model created one of its parameters.

    Raises:
        ConfigError: the saved state lacks parameters that the model has now.
    """
    if created := [name for name in model.state_dict() if name not in saved]:
        raise ConfigError(
            f"the state of step {step} is from before forward created {', '.join(created[:3])}; "
            "choose a later step, or run one batch through the model before the run begins"
        )


def check_optimizer(optimizer: Any, saved: Mapping[str, Any]) -> None:
    """Refuse a saved optimizer with other groups, before anything is restored.

    Raises:
        ConfigError: the numbers of parameters differ.
    """
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    saved_sizes = [len(group["params"]) for group in saved.get("param_groups", ())]
    if saved_sizes and saved_sizes != sizes:
        raise ConfigError(
            f"the optimizer of the checkpoint has groups of {saved_sizes} parameters, this one of "
            f"{sizes}. If forward creates parameters and adds them to the optimizer, run one batch "
            "through the model before midstep.attach or Session"
        )


def _add(model: Any, name: str, saved: Any, kind: Kind) -> None:
    import torch

    path, _, own_name = name.rpartition(".")
    try:
        module = model.get_submodule(path)
    except AttributeError:
        raise ConfigError(
            f"the checkpoint has {name}, but this model has no module {path!r}; create it before "
            "midstep.attach or Session"
        ) from None
    device = next((each.device for each in module.parameters()), saved.device)
    tensor = torch.empty_like(saved, device=device)
    # A name that was registered as None, or that an attribute has, gives way to the tensor.
    module._parameters.pop(own_name, None)
    module._buffers.pop(own_name, None)
    module.__dict__.pop(own_name, None)
    if kind == "parameter":
        module.register_parameter(own_name, torch.nn.Parameter(tensor))
    else:
        module.register_buffer(own_name, tensor)
