"""The state of an AdamW optimizer on disk, by parameter name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, StorageError
from midstep.core.files.atomic_folders import Chunks
from midstep.influence.optimizers.adam_state import decay_groups
from midstep.influence.optimizers.described_optimizers import check_adam_group, check_described

ParameterOrder = Literal["names", "model", "decay"]
"""By recorded names; in the model's order; or with decayed parameters first, then the others."""

FORMAT = "midstep.adamw/1"
_JSON, _TENSORS = "optimizer.json", "optimizer.safetensors"
_SETTINGS = ("lr", "eps", "weight_decay")
_MOMENTS = ("exp_avg", "exp_avg_sq")


def serialize_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Chunks]:
    """The files that hold the state of an AdamW `optimizer` over parameters of `model`.

    Raises:
        ConfigError: the optimizer is another one; its state would be read as that of AdamW.
    """
    from safetensors.torch import save

    check_described(optimizer, "adam_post")
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    steps: dict[str, int] = {}
    for group in optimizer.param_groups:
        if any(id(parameter) not in names for parameter in group["params"]):
            raise ConfigError(
                "the optimizer holds a parameter that the model does not have; create it from "
                "model.parameters() and save both together"
            )
        members = [names[id(parameter)] for parameter in group["params"]]
        settings = {key: float(group[key]) for key in _SETTINGS}
        groups.append(
            settings | {"betas": [float(beta) for beta in group["betas"]], "names": members}
        )
        for name, parameter in zip(members, group["params"], strict=True):
            state = optimizer.state.get(parameter)
            if state:
                steps[name] = int(state["step"])
                tensors |= {f"{kind}/{name}": state[kind].contiguous() for kind in _MOMENTS}
    description = {"format": FORMAT, "groups": groups, "steps": steps}
    text = (strict_json.dumps(description) + "\n").encode()
    return {_JSON: [text], _TENSORS: [save(tensors)]}


def has_optimizer(folder: str | os.PathLike[str]) -> bool:
    """Whether a checkpoint's folder also has the state of its optimizer."""
    return (Path(folder) / _JSON).is_file()


def load_optimizer(
    path: str | os.PathLike[str], model: nn.Module, *, order: ParameterOrder = "names"
) -> torch.optim.AdamW:
    """An AdamW for `model` with the state at `path`; every tensor is checked against its parameter.

    Args:
        path: a folder with optimizer.json, or a file of `torch.save(optimizer.state_dict())`.
        model: the model that was trained.
        order: which parameters the positions in a file without names belong to.

    Raises:
        ConfigError: state is missing, or of other names or shapes than the model's.
    """
    source = Path(path)
    if source.is_dir() and (source / _JSON).is_file():
        groups, state = _read_folder(source)
    elif source.is_file():
        groups, state = _read_torch_file(source, model, order)
    else:
        raise StorageError(
            f"no optimizer state at {source}; save the checkpoint with its optimizer, or give the "
            "file of torch.save(optimizer.state_dict())"
        )
    return _build_optimizer(groups, state, model, source)


def _read_folder(folder: Path) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    description = strict_json.loads((folder / _JSON).read_bytes())
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise FormatError(f"{folder / _JSON} is not optimizer state of format {FORMAT}")
    try:
        tensors = load_file(folder / _TENSORS)
        state = {
            name: {"step": step} | {kind: tensors[f"{kind}/{name}"] for kind in _MOMENTS}
            for name, step in description["steps"].items()
        }
    except (OSError, KeyError, SafetensorError) as error:
        raise FormatError(f"{folder / _TENSORS} cannot be read: {error}") from None
    return description["groups"], state


def _read_torch_file(
    file: Path, model: nn.Module, order: ParameterOrder
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """A state dict of torch. `weights_only` accepts tensors, numbers and strings, and no code."""
    import pickle

    try:
        saved = torch.load(file, map_location="cpu", weights_only=True)
        groups, state = saved["param_groups"], saved["state"]
    except (pickle.UnpicklingError, RuntimeError, KeyError, TypeError, EOFError) as error:
        raise FormatError(
            f"{file} holds no optimizer state: {str(error).splitlines()[0]}; give the file of "
            "torch.save(optimizer.state_dict())"
        ) from None
    _check_written_by_adam(groups, state, file)
    names = _names_in_groups(groups, model, file, order)
    named_groups = []
    bound: dict[str, dict[str, Any]] = {}
    for group, members in zip(groups, names, strict=True):
        settings = {key: group[key] for key in _SETTINGS}
        named_groups.append(settings | {"betas": list(group["betas"]), "names": members})
        for index, name in zip(group["params"], members, strict=True):
            if index in state:
                bound[name] = state[index]
    return named_groups, bound


def _check_written_by_adam(
    groups: list[dict[str, Any]], state: dict[int, dict[str, Any]], file: Path
) -> None:
    """Refuse state of other optimizers. A file does not name its class, but its keys differ."""
    keys = {"step", *_MOMENTS}
    others = sorted({key for entry in state.values() for key in entry} ^ keys) if state else []
    for group in groups:
        # NAdam has `momentum_decay`; RAdam has no `amsgrad`; Adamax and Lion have other state.
        missing = [key for key in (*_SETTINGS, "betas", "amsgrad") if key not in group]
        if others or missing or "momentum_decay" in group:
            wrong = [*missing, *others, *(["momentum_decay"] if "momentum_decay" in group else [])]
            raise ConfigError(
                f"{file} is not the state of a plain torch.optim.AdamW or Adam: {wrong[0]!r} does "
                "not fit; no preconditioner describes the step of other optimizers"
            )
        if group["weight_decay"] and "decoupled_weight_decay" not in group:
            raise ConfigError(
                f"{file} does not say whether Adam or AdamW wrote it, and their weight decay "
                "differs: load it into your optimizer with this version of torch and save it again"
            )
        check_adam_group(
            f"the optimizer of {file}", group, decoupled=bool(group.get("decoupled_weight_decay"))
        )


def _names_in_groups(
    groups: list[dict[str, Any]], model: nn.Module, file: Path, order: ParameterOrder
) -> list[list[str]]:
    """Names of the parameters of each group, in the order of their positions."""
    if all("param_names" in group for group in groups):
        return [list(group["param_names"]) for group in groups]
    if order == "decay":
        names = decay_groups(model)
    elif order == "model":
        names = [[name for name, one in model.named_parameters() if one.requires_grad]]
    else:
        raise ConfigError(
            f"{file} holds numbers instead of parameter names, and a guess may be wrong. "
            "Create the optimizer from model.named_parameters(), or pass optimizer_order='decay' "
            "for the groups of a transformers trainer, 'model' for one group in the model's order"
        )
    # The sizes of the groups are the only check against a wrong order of equal shapes.
    sizes = [len(group["params"]) for group in groups]
    if sizes != [len(members) for members in names]:
        raise ConfigError(
            f"{file} has groups of {sizes} parameters, the model under optimizer_order={order!r} "
            f"has {[len(members) for members in names]}; give the state of this checkpoint"
        )
    return names


def _build_optimizer(
    groups: list[dict[str, Any]],
    state: dict[str, dict[str, Any]],
    model: nn.Module,
    source: Path,
) -> torch.optim.AdamW:
    parameters = dict(model.named_parameters())
    for name, entry in state.items():
        if name not in parameters:
            raise ConfigError(
                f"optimizer state at {source} is for {name!r}, which the model does not have; "
                "give the state that was saved with this checkpoint"
            )
        for kind in _MOMENTS:
            if entry[kind].shape != parameters[name].shape:
                raise ConfigError(
                    f"optimizer state at {source}: {kind} of {name!r} has shape "
                    f"{list(entry[kind].shape)}, the parameter {list(parameters[name].shape)}; "
                    "give the state that was saved with this checkpoint"
                )
    trained = {name for name, one in parameters.items() if one.requires_grad}
    listed = {name for group in groups for name in group["names"]}
    # A listed parameter without state was frozen or never got a gradient: the optimizer skips it.
    missing = sorted(trained - listed if state else trained)
    if missing or not listed <= parameters.keys():
        absent = missing or sorted(listed - parameters.keys())
        raise ConfigError(
            f"optimizer state at {source} has no entry for {absent[0]!r} and {len(absent) - 1} "
            "others; it belongs to another model, was saved before the first step, or that "
            "parameter was frozen: freeze it here too (requires_grad_(False)), or use "
            "preconditioner='sgd'"
        )
    optimizer = torch.optim.AdamW(
        [
            {
                "params": [parameters[name] for name in group["names"]],
                **{key: group[key] for key in _SETTINGS},
                "betas": tuple(group["betas"]),
            }
            for group in groups
        ]
    )
    for name, entry in state.items():
        parameter = parameters[name]
        optimizer.state[parameter] = {
            "step": torch.tensor(float(entry["step"])),
            **{kind: entry[kind].to(parameter.device).clone() for kind in _MOMENTS},
        }
    return optimizer
