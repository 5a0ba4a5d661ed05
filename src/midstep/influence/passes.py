"""Forward and backward passes that leave factors behind: all at once, or block by block.

`resident` keeps the factors of every layer until they are contracted. `bounded` keeps the residual
stream at the borders of the blocks and runs each block again when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from midstep.influence.anatomy import Anatomy
from midstep.influence.batches import Microbatch
from midstep.influence.borders import BorderStore
from midstep.influence.factors import StoredFactor, sum_type
from midstep.influence.head import HeadPass, Responses, head_pass, logits_pass
from midstep.influence.hollow import hollow, hollow_parts
from midstep.influence.recorder import Recorder
from midstep.influence.sides import Side
from midstep.influence.stems import Stem
from midstep.influence.stopwatch import Stopwatch, unwatched

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Passes", "Side", "standing"]


@contextmanager
def standing(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, its parameters out of autograd; as before afterwards."""
    modes = {module: module.training for module in model.modules()}
    wanted = {each: each.requires_grad for each in model.parameters()}
    model.eval().requires_grad_(requires_grad=False)
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        for each, needs in wanted.items():
            each.requires_grad_(needs)


class Passes:
    """Runs micro-batches through a model and leaves their factors in the sides.

    Args:
        anatomy: the model and its seams.
        trained: parameter names by identity.
        slow: parameters of no known form; a whole backward pass a sequence.
        spill: folder for the borders of the bounded mode; None keeps them in memory.
        stopwatch: told which phase begins and ends.
        probe_ids: short sequences that prove what blocks need not compute when they run again;
            None leaves nothing out.
    """

    def __init__(
        self,
        anatomy: Anatomy,
        trained: dict[int, str],
        *,
        slow: Sequence[str] = (),
        spill: Path | None = None,
        stopwatch: Stopwatch = unwatched,
        probe_ids: Tensor | None = None,
    ) -> None:
        self.anatomy, self.trained, self.spill = anatomy, trained, spill
        self._probe_ids = probe_ids
        self.watch = stopwatch
        self.slow = list(slow)
        quick = {key: name for key, name in trained.items() if name not in set(slow)}
        head = [anatomy.head] if anatomy.head is not None else []
        self.recorder = Recorder(anatomy.model, quick, without=head)
        self._quick = quick

    # -- resident -----------------------------------------------------------------------------

    def resident(self, sides: Sequence[Side]) -> Iterator[list[str]]:
        """All micro-batches forward and backward; then every parameter is ready at once."""
        for side in sides:
            side.begin()
            for index in range(len(side.microbatches)):
                self.one(side, index)
        yield list(self.trained.values())

    def one(
        self, side: Side, index: int, along: Mapping[str, Mapping[str, Tensor]] | None = None
    ) -> None:
        """One micro-batch, forward and backward.

        Args:
            side: the batch.
            index: of the micro-batch.
            along: directions by label; the head's weight is contracted with them on the way and
                leaves no factor.
        """
        microbatch, record = side.microbatches[index], side.records[index]
        with self.recorder as recorder, torch.enable_grad():
            recorder.record = record
            with self.watch("forward"):
                if self.anatomy.hidden is not None:
                    out = self.anatomy.hidden(microbatch.input_ids)
                else:
                    out = self.anatomy.logits(microbatch.input_ids)
            with self.watch("head"):
                scored = self._score(side, index, out, along)
            with self.watch("input gradients"):
                if out.requires_grad:
                    torch.autograd.backward(out, scored.grad)
            recorder.record = None
        self._slow_ones(side, index)

    def _score(
        self,
        side: Side,
        index: int,
        out: Tensor,
        along: Mapping[str, Mapping[str, Tensor]] | None = None,
    ) -> HeadPass:
        microbatch, record = side.microbatches[index], side.records[index]
        responses = Responses.of(microbatch, side.seeds_NT, sum_type(out))
        head = self.anatomy.head
        if head is None:
            scored = logits_pass(out, responses)
        else:
            bias, weight = self._quick.get(id(head.bias)), self._quick.get(id(head.weight))
            parts = {} if along is None or weight is None else along
            scored = head_pass(
                out, head, responses, with_bias=bias is not None,
                along={label: each[weight] for label, each in parts.items() if weight},
            )  # fmt: skip
            record.along = scored.along
            if scored.factor is not None and not scored.along:
                record.add(weight, scored.factor)
            if scored.bias is not None:
                record.add(bias, scored.bias)
        side.logp[index] = scored.logp_BR
        return scored

    def _slow_ones(self, side: Side, index: int) -> None:
        """Parameters of no known form: autograd on one sequence after the other."""
        if not self.slow:
            return
        microbatch, record = side.microbatches[index], side.records[index]
        named = dict(self.anatomy.model.named_parameters())
        counted = [named[name].requires_grad_() for name in self.slow]
        rows: list[list[Tensor]] = []
        for place in microbatch.places:
            single = Microbatch(microbatch.batch, [place])
            with torch.enable_grad():
                logits = self.anatomy.logits(single.input_ids)
            responses = Responses.of(single, side.seeds_NT, sum_type(logits))
            grads = torch.autograd.grad(
                logits, counted, logits_pass(logits, responses).grad, allow_unused=True
            )
            rows.append(
                [
                    torch.zeros_like(p) if g is None else g
                    for p, g in zip(counted, grads, strict=True)
                ]
            )
        for each, name, column in zip(counted, self.slow, zip(*rows, strict=True), strict=True):
            each.requires_grad_(False)  # noqa: FBT003 - its only argument
            record.add(name, StoredFactor(torch.stack(column)))

    # -- bounded ------------------------------------------------------------------------------

    def bounded(self, sides: Sequence[Side]) -> Iterator[list[str]]:
        """Block by block from the top; yields the parameters that are ready to be contracted."""
        blocks = self.anatomy.blocks
        left = set(self.trained.values())
        owners = self._owners()
        spared = self._spared()
        with BorderStore(self.spill) as store:
            work = [(side, index) for side in sides for index in range(len(side.microbatches))]
            for side in sides:
                side.begin()
            stems = [self._climb(side, index, store, n) for n, (side, index) in enumerate(work)]
            ready = [name for name in left if owners[name] == {"top"}]
            yield ready
            left.difference_update(ready)
            for depth in reversed(range(len(blocks))):
                for number, (side, index) in enumerate(work):
                    with hollow(spared[depth] if spared else None):
                        self._again(side, index, store, number, depth, stems[number])
                ready = [name for name in left if owners[name] == {depth}]
                yield ready
                left.difference_update(ready)
            for stem in stems:
                self._finish(stem)
            yield list(left)

    def _spared(self) -> list[nn.Linear | None]:
        """For each block the map that need not run again; empty where nothing is left out."""
        probe = self._probe_ids
        return [] if probe is None else hollow_parts(self.anatomy, probe)

    def parameters_spared(self) -> int:
        """Weights of the maps that are left out when blocks run again."""
        return sum(each.weight.numel() for each in self._spared() if each is not None)

    def _owners(self) -> dict[str, set[object]]:
        """For each parameter the places it is used at: a block's depth, the top, elsewhere."""
        owners: dict[str, set[object]] = {name: set() for name in self.trained.values()}
        for depth, block in enumerate(self.anatomy.blocks):
            for each in block.parameters():
                if id(each) in self._quick:
                    owners[self._quick[id(each)]].add(depth)
        inside = {id(part) for block in self.anatomy.blocks for part in block.modules()}
        head = self.anatomy.head
        for module in self.anatomy.model.modules():
            place = "top" if module is head else "else"
            for each in module.parameters(recurse=False):
                if id(module) not in inside and id(each) in self._quick:
                    owners[self._quick[id(each)]].add(place)
        return owners

    def _climb(self, side: Side, index: int, store: BorderStore, number: int) -> Stem:
        """Forward once: borders kept, nothing recorded inside the blocks; then the head."""
        stem = Stem(self.anatomy.blocks, store, number)
        with self.recorder as recorder, stem, torch.enable_grad():
            recorder.record = side.records[index]
            with self.watch("forward"):
                hidden = self.anatomy.hidden(side.microbatches[index].input_ids)  # type: ignore[misc]
            with self.watch("head"):
                scored = self._score(side, index, hidden)
                torch.autograd.backward(hidden, scored.grad)
            recorder.record = None
        stem.take_gradient()
        self._slow_ones(side, index)
        return stem

    def _again(
        self, side: Side, index: int, store: BorderStore, number: int, depth: int, stem: Stem
    ) -> None:
        """One block once more, now with its factors."""
        start = store.take((number, depth)).requires_grad_()
        with self.recorder as recorder, torch.enable_grad():
            recorder.record = side.records[index]
            args, kwargs = stem.with_first(depth, start)
            with self.watch("forward again"):
                out = self.anatomy.blocks[depth](*args, **kwargs)
            out = out[0] if isinstance(out, tuple) else out
            with self.watch("input gradients"):
                torch.autograd.backward(out, stem.gradient)
            recorder.record = None
        if start.grad is None:
            raise RuntimeError("a block passed no gradient to its input")
        stem.gradient = start.grad

    def _finish(self, stem: Stem) -> None:
        """The gradient at the bottom goes on into the embeddings."""
        if stem.bottom is not None and stem.bottom.requires_grad:
            torch.autograd.backward(stem.bottom, stem.gradient)
        stem.bottom = None
