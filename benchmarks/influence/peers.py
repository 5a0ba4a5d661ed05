"""The same block of per-sample gradients and inner products by other means.

`vmap` and opacus give inner products over all parameters: they are held against the exact kernel of
the Adam step, which does more. kronfluence leaves out embeddings, norms and head: there both sides
are the plain inner product over the same linear layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from benchmarks.figures import Figure
from midstep.models.causal_lm import CausalLM

if TYPE_CHECKING:
    from benchmarks.influence.setup import Work

__all__ = ["PEERS", "Peer", "not_measured", "shown_reason"]


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A library's way to a block, and ours."""

    name: str
    theirs: Callable[[Work], object]
    ours: Callable[[Work], object]
    package: str | None = None
    """What has to be installed for it; None: torch itself."""
    bar: float = 1.0

    def title(self, size: str) -> str:
        """How its figure is called."""
        return f"influence: resident sweep, against {self.name}, {size}"


def not_measured(peer: Peer, size: str, why: str) -> Figure:
    """The row of a library that gave no figure; its bar counts as missed."""
    return Figure(
        name=peer.title(size),
        value=float("nan"),
        unit="×",
        bar=peer.bar,
        note=shown_reason(why),
    )


def shown_reason(why: str) -> str:
    """As it stands in a cell of the table, its last words kept: they say what went wrong."""
    return f"not measured: {' '.join(why.split())[-160:].replace('|', '/')}"


def exact(work: Work) -> object:
    """Our kernel of the Adam step over all parameters."""
    return work.kernel(algorithm="sweep", mode="resident")


def plain_of_linear_layers(work: Work) -> object:
    """Our plain inner products over what kronfluence counts."""
    from benchmarks.influence.kronfluence_block import linear_names

    names = [f"{name}.*" for name in linear_names(work.model)]
    return work.kernel(
        algorithm="sweep", mode="resident", preconditioner="sgd", parameters=names, want=("EU",)
    )


def by_vmap(work: Work) -> None:
    """Per-sample gradients of `torch.func`, two sequences at a time."""
    from benchmarks.influence.setup import scores

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

    from benchmarks.influence.setup import scores

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


def by_kronfluence(work: Work) -> None:
    """Its identity strategy over the linear layers of the blocks."""
    from benchmarks.influence.kronfluence_block import identity_block

    identity_block(work.model, work.update, work.evaluation)


PEERS = (
    Peer(name="vmap(grad)", theirs=by_vmap, ours=exact),
    Peer(name="opacus per-sample gradients", theirs=by_opacus, ours=exact, package="opacus"),
    Peer(
        name="kronfluence identity (plain, linear layers only)",
        theirs=by_kronfluence,
        ours=plain_of_linear_layers,
        package="kronfluence",
    ),
)
