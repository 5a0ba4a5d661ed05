"""Δ log π alone: the step's direction contracted through activations, or carried forward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from midstep.core.errors import ConfigError
from midstep.influence.factors import product, sum_type
from midstep.influence.head import Responses

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.anatomy import Anatomy
    from midstep.influence.passes import Passes, Side

__all__ = ["contract", "token_tangents"]


def contract(
    passes: Passes, side: Side, directions: Mapping[str, Mapping[str, Tensor]]
) -> dict[str, Tensor]:
    """[N] inner products of each sequence's gradient with each direction, in the batch's order."""
    side.begin()
    rows: dict[str, list[Tensor]] = {label: [] for label in directions}
    for index, record in enumerate(side.records):
        passes.one(side, index, along=directions)
        with passes.watch("contraction"):
            for label, direction in directions.items():
                uses = ((name, each) for name, many in record.factors.items() for each in many)
                parts = [factor.dot(direction[name]) for name, factor in uses]
                parts += [record.along[label]] if record.along else []
                rows[label].append(torch.stack(parts).sum(0))
        record.drop(list(record.factors))
    back = torch.tensor(side.places).argsort()
    return {label: torch.cat(parts)[back.to(parts[0].device)] for label, parts in rows.items()}


@torch.no_grad()
def token_tangents(anatomy: Anatomy, side: Side, direction: Mapping[str, Tensor]) -> Tensor:
    """[N, T] change of each response token's log-probability along a direction, 0 elsewhere.

    Forward-mode derivatives have no fused attention, so the plain one is used.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    out = torch.zeros(side.seeds_NT.shape, dtype=torch.float64, device=side.seeds_NT.device)
    for microbatch in side.microbatches:
        with sdpa_kernel(SDPBackend.MATH):
            state, tangent = _dual(anatomy, microbatch.input_ids, direction)
        responses = Responses.of(microbatch, side.seeds_NT, sum_type(state))
        index = responses.places_BR[..., None].expand(-1, -1, state.shape[-1])
        changes = _head_tangent(
            anatomy, direction, state.gather(1, index), tangent.gather(1, index), responses
        )
        tokens = responses.places_BR + 1
        wide = torch.zeros(microbatch.input_ids.shape, dtype=torch.float64, device=out.device)
        wide.scatter_add_(1, tokens, (changes * responses.counted_BR).double())
        for row, place in enumerate(microbatch.places):
            start, length = int(microbatch.batch.starts[place]), int(microbatch.lengths[row])
            out[place, start : start + length] = wide[row, :length]
    return out


def _dual(
    anatomy: Anatomy, input_ids: Tensor, direction: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Hidden states (or logits) and their tangent."""
    from torch.autograd import forward_ad

    model = anatomy.model
    run = anatomy.hidden or anatomy.logits
    with forward_ad.dual_level():
        swapped = _swap_in(model, direction)
        try:
            out = run(input_ids)
        except NotImplementedError as error:
            raise ConfigError(
                f"algorithm 'jvp' needs forward-mode derivatives, which this model lacks "
                f"({error}); use algorithm='direction'"
            ) from error
        finally:
            for module, key, parameter in swapped:
                module._parameters[key] = parameter
        state, tangent = forward_ad.unpack_dual(out)  # type: ignore[no-untyped-call]
        tangent = torch.zeros_like(state) if tangent is None else tangent
        return state.clone(), tangent.clone()


def _swap_in(
    model: torch.nn.Module, direction: Mapping[str, Tensor]
) -> list[tuple[torch.nn.Module, str, torch.nn.Parameter]]:
    """Put dual numbers in place of the parameters, shared ones at each of their places."""
    from torch.autograd import forward_ad

    names = {id(each): name for name, each in model.named_parameters()}
    duals: dict[str, Tensor] = {}
    swapped = []
    for module in model.modules():
        for key, parameter in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            name = names[id(parameter)]
            if name not in direction:
                continue
            if name not in duals:
                moved = direction[name].to(parameter.dtype)
                duals[name] = forward_ad.make_dual(parameter.detach(), moved)  # type: ignore[no-untyped-call]
            swapped.append((module, key, parameter))
    for module, key, parameter in swapped:
        # Straight into the table, which keeps its order and takes a tensor that is no parameter.
        module._parameters[key] = duals[names[id(parameter)]]  # type: ignore[assignment]
    return swapped


def _head_tangent(
    anatomy: Anatomy,
    direction: Mapping[str, Tensor],
    states_BRC: Tensor,  # noqa: N803 - name ends in its shape
    tangents_BRC: Tensor,  # noqa: N803 - name ends in its shape
    responses: Responses,
    block: int = 256,
) -> Tensor:
    """Tangent of each response token's log-probability, in blocks of tokens."""
    targets = responses.targets_BR.flatten()
    states, tangents = states_BRC.flatten(0, 1), tangents_BRC.flatten(0, 1)
    made = torch.empty(len(states), dtype=sum_type(states), device=states.device)
    moved_weight, moved_bias = _head_directions(anatomy, direction)
    for start in range(0, len(states), block):
        part = slice(start, start + block)
        logits, change = states[part].to(made.dtype), tangents[part].to(made.dtype)
        if anatomy.head is not None:
            weight = anatomy.head.weight.detach()
            logits, change = product(states[part], weight.mT), product(tangents[part], weight.mT)
            if anatomy.head.bias is not None:
                logits = logits + anatomy.head.bias.detach()
            if moved_weight is not None:
                change = change + product(states[part], moved_weight.to(states.dtype).mT)
            if moved_bias is not None:
                change = change + moved_bias
        mean = (logits.softmax(1) * change).sum(1)
        made[part] = change.gather(1, targets[part, None])[:, 0] - mean
    return made.view_as(responses.seeds_BR)


def _head_directions(
    anatomy: Anatomy, direction: Mapping[str, Tensor]
) -> tuple[Tensor | None, Tensor | None]:
    if anatomy.head is None:
        return None, None
    names = {id(each): name for name, each in anatomy.model.named_parameters()}
    weight = direction.get(names[id(anatomy.head.weight)])
    bias = direction.get(names.get(id(anatomy.head.bias), ""))
    return weight, bias
