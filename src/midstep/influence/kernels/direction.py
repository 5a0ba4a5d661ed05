"""Δ log π alone, without K: gradients contracted with the direction of the step.

`contract_directions` uses recorded factors, g_i · direction. `token_tangents` uses forward-mode
derivatives and gives the change of every token.

Shapes: B sequences, R response tokens, C values of a token.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import torch

from midstep.core.errors import ConfigError
from midstep.influence.gradients.factors import accumulation_dtype, matmul_wide
from midstep.influence.gradients.output_head import ResponseTokens
from midstep.influence.gradients.tiles import Tile

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.gradient_recorder import RecordedBatch
    from midstep.influence.gradients.model_parts import ModelParts
    from midstep.influence.gradients.model_passes import ModelPasses
    from midstep.influence.optimizers.preconditioners import Preconditioner


def contract_directions(
    passes: ModelPasses, batch: RecordedBatch, directions: Mapping[str, Mapping[str, Tensor]]
) -> dict[str, Tensor]:
    """[N] inner products of each sequence's gradient with each direction, in batch order."""
    batch.begin()
    rows: dict[str, list[Tensor]] = {label: [] for label in directions}
    for index, record in enumerate(batch.records):
        passes.run_microbatch(batch, index, directions=directions)
        with passes.timer("contraction"):
            for label, direction in directions.items():
                uses = ((name, each) for name, many in record.factors.items() for each in many)
                parts = [factor.dot(direction[name]) for name, factor in uses]
                parts += [record.direction_products[label]] if record.direction_products else []
                rows[label].append(torch.stack(parts).sum(0))
        # Contracted: one micro-batch of factors is in memory at a time.
        record.drop(list(record.factors))
    batch_order = torch.tensor(batch.row_order).argsort()
    return {
        label: torch.cat(parts)[batch_order.to(parts[0].device)] for label, parts in rows.items()
    }


@torch.no_grad()
def token_tangents(
    parts: ModelParts, batch: RecordedBatch, direction: Mapping[str, Tensor]
) -> Tensor:
    """[N, T] derivative of each response token's log-probability along a direction, 0 elsewhere."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    out = torch.zeros(
        batch.token_weights_NT.shape, dtype=torch.float64, device=batch.token_weights_NT.device
    )
    for microbatch in batch.microbatches:
        # The fused attention kernels of torch have no forward-mode derivative.
        with sdpa_kernel(SDPBackend.MATH):
            state, tangent = _forward_dual(parts, microbatch.input_ids, direction)
        responses = ResponseTokens.from_microbatch(microbatch, batch.token_weights_NT, state)
        state_index = responses.positions_BR[..., None].expand(-1, -1, state.shape[-1])
        changes = _head_tangent(
            parts,
            direction,
            state.gather(1, state_index),
            tangent.gather(1, state_index),
            responses,
        )
        tokens = responses.positions_BR + 1
        wide = torch.zeros(microbatch.input_ids.shape, dtype=torch.float64, device=out.device)
        wide.scatter_add_(1, tokens, (changes * responses.counted_BR).double())
        # Micro-batches are aligned to the left; the result has the columns of the batch.
        for index, row in enumerate(microbatch.row_ids):
            start, length = int(microbatch.batch.starts[row]), int(microbatch.lengths[index])
            out[row, start : start + length] = wide[index, :length]
    return out


def _forward_dual(
    parts: ModelParts, input_ids: Tensor, direction: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Hidden states (or logits) and their derivative along the direction."""
    from torch.autograd import forward_ad

    model = parts.model
    with forward_ad.dual_level():
        swapped = _swap_in_duals(model, direction)
        try:
            out = parts.outputs(input_ids)
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


def _swap_in_duals(
    model: torch.nn.Module, direction: Mapping[str, Tensor]
) -> list[tuple[torch.nn.Module, str, torch.nn.Parameter]]:
    """Replace the parameters by dual numbers, a shared parameter wherever it is used."""
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
        # `setattr` refuses a tensor that is not a parameter; the table itself takes it.
        module._parameters[key] = duals[names[id(parameter)]]  # type: ignore[assignment]
    return swapped


def _head_tangent(
    parts: ModelParts,
    direction: Mapping[str, Tensor],
    states_BRC: Tensor,
    tangents_BRC: Tensor,
    responses: ResponseTokens,
    block: int = 256,
) -> Tensor:
    """Derivative of each response token's log-probability, in blocks of tokens.

    For logits z with derivative z': d log p(x) = z'_x − Σ_v softmax(z)_v z'_v.
    """
    targets = responses.targets_BR.flatten()
    states, tangents = states_BRC.flatten(0, 1), tangents_BRC.flatten(0, 1)
    changes = torch.empty(len(states), dtype=accumulation_dtype(states), device=states.device)
    names = {id(each): name for name, each in parts.model.named_parameters()}
    for start in range(0, len(states), block):
        part = slice(start, start + block)
        logits, change = states[part].to(changes.dtype), tangents[part].to(changes.dtype)
        if parts.head is not None:
            weight, bias = parts.head.weight.detach(), parts.head.bias
            logits = matmul_wide(states[part], weight.mT)
            change = matmul_wide(tangents[part], weight.mT)
            moved_weight = direction.get(names[id(parts.head.weight)])
            moved_bias = direction.get(names.get(id(bias), ""))
            if bias is not None:
                logits = logits + bias.detach()
            if moved_weight is not None:
                change = change + matmul_wide(states[part], moved_weight.to(states.dtype).mT)
            if moved_bias is not None:
                change = change + moved_bias
        mean = (logits.softmax(1) * change).sum(1)
        changes[part] = change.gather(1, targets[part, None])[:, 0] - mean
    return changes.view_as(responses.token_weights_BR)


def step_directions(
    ascent: Mapping[str, Tensor],
    parameters: Mapping[str, Tensor],
    preconditioner: Preconditioner,
    reached: Collection[str],
) -> dict[str, dict[str, Tensor]]:
    """The change of the weights per unit of η, given `ascent` = Σ_j w_j g_j = −G.

    In three parts, `kernel` (rate · c · D Σ_j w_j g_j), `momentum` and `decay`, each by parameter
    name. All are 0 for parameters that are not `reached` by a gradient: the optimizer skips them.
    """
    kernel, momentum, decay = {}, {}, {}
    factor = preconditioner.rate * preconditioner.clip_factor
    for name, each in ascent.items():
        if name not in reached:
            kernel[name] = momentum[name] = decay[name] = torch.zeros_like(each)
            continue
        weights = parameters[name].detach()
        tile = Tile.whole(name, each, accumulation_dtype(each))
        part = tile.take(each)
        diagonal = preconditioner.diagonal(tile, -part)
        moved, decayed = preconditioner.momentum_and_decay(tile, tile.take(weights), diagonal)
        kernel[name] = (factor * diagonal * part).reshape(each.shape)
        momentum[name] = moved.reshape(each.shape)
        decay[name] = decayed.reshape(each.shape)
    return {"kernel": kernel, "momentum": momentum, "decay": decay}
