"""The same block of per-sample gradients and inner products by other means, where installed.

`vmap` and opacus give inner products over all parameters: they are held against the exact kernel of
the Adam step, which does more. kronfluence leaves out embeddings, norms and head: there both sides
are the plain inner product over the same linear layers.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from midstep.models.causal_lm import CausalLM

if TYPE_CHECKING:
    from benchmarks.influence_work import Work

__all__ = ["Peer", "peers"]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A library's way to a block, and ours."""

    name: str
    theirs: Callable[[], object]
    ours: Callable[[], object]


def peers(work: Work) -> Iterator[Peer]:
    """What can be run here."""

    def exact() -> object:
        return work.kernel(algorithm="sweep", mode="resident")

    yield Peer(name="vmap(grad)", theirs=lambda: by_vmap(work), ours=exact)
    if importlib.util.find_spec("opacus"):
        yield Peer(name="opacus per-sample gradients", theirs=lambda: by_opacus(work), ours=exact)
    if importlib.util.find_spec("kronfluence") and importlib.util.find_spec("accelerate"):
        from benchmarks.kronfluence_block import identity_block, linear_names

        names = [f"{name}.*" for name in linear_names(work.model)]
        yield Peer(
            name="kronfluence identity (plain, linear layers only)",
            theirs=lambda: identity_block(work.model, work.update, work.evaluation),
            ours=lambda: work.kernel(
                algorithm="sweep", mode="resident", preconditioner="sgd", parameters=names,
                want=("EU",),
            ),
        )  # fmt: skip


def by_vmap(work: Work) -> None:
    """Per-sample gradients of `torch.func`, two sequences at a time."""
    from benchmarks.influence_work import scores

    parameters = {name: each.detach() for name, each in work.model.named_parameters()}

    def one(values: dict[str, Tensor], ids_t: Tensor, mask_t: Tensor) -> Tensor:
        logits = torch.func.functional_call(work.model, values, (ids_t[None],))
        return scores(logits, ids_t[None], mask_t[None])[0]

    each = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0), chunk_size=2)
    ours, theirs = (
        each(parameters, batch.input_ids, batch.response_mask)
        for batch in (work.update, work.evaluation)
    )
    inner_products(list(theirs.values()), list(ours.values()))


def inner_products(left: list[Tensor], right: list[Tensor]) -> Tensor:
    """Summed over parameters, so that no second copy of the gradients is made."""
    total = torch.zeros(len(left[0]), len(right[0]))
    for a, b in zip(left, right, strict=True):
        total += a.flatten(1) @ b.flatten(1).T
    return total


def by_opacus(work: Work) -> None:
    """Per-sample gradients of opacus' hooks, on a copy of the model with an untied head."""
    from opacus.grad_sample import GradSampleModule  # type: ignore[import-not-found,import-untyped,unused-ignore]

    from benchmarks.influence_work import scores

    # Its hooks only work in training mode; the model drops nothing out.
    untied = CausalLM(replace(work.model.config, tied=False)).train()
    wrapped = GradSampleModule(untied, loss_reduction="sum")
    sides = []
    for batch in (work.update, work.evaluation):
        wrapped.zero_grad()
        made = scores(wrapped(batch.input_ids), batch.input_ids, batch.response_mask)
        torch.autograd.backward(made.sum())
        sides.append([each.grad_sample for each in wrapped.parameters()])
    inner_products(sides[1], sides[0])
