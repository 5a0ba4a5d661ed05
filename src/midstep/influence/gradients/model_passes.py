"""Forward and backward passes that record factors of gradients: all layers at once, or by block.

`resident` keeps the factors of every layer until they are contracted. `bounded` keeps the input of
each block and runs the block again when its turn comes. It costs one more forward pass over the
blocks (1.92 of 15.68 s on an H200, see docs/benchmarks.md) and needs the memory of one block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from midstep.influence.gradients.batch_gradient import score_gradients
from midstep.influence.gradients.block_replay import (
    BlockInputStore,
    BlockReplay,
    skip_linear,
    skippable_linears,
)
from midstep.influence.gradients.execution import PhaseTimer, no_timer
from midstep.influence.gradients.factors import StoredFactor
from midstep.influence.gradients.gradient_recorder import FactorRecord, RecordedBatch, Recorder
from midstep.influence.gradients.model_parts import ModelParts
from midstep.influence.gradients.output_head import HeadPass, ResponseTokens, head_pass
from midstep.influence.gradients.sequences import Microbatch

if TYPE_CHECKING:
    from torch import Tensor

HEAD, OUTSIDE = -1, -2
"""Owners of parameters that no block uses: the head, or modules outside of head and blocks."""


class ModelPasses:
    """Runs micro-batches through a model and records the factors of their gradients.

    Args:
        parts: the model and its parts.
        trained: names of the parameters that count, by identity.
        slow: parameters that hooks cannot record; they take one backward pass per sequence.
        spill: folder for the stored block inputs of the bounded mode; None keeps them in memory.
        timer: called with the name of each phase.
        probe_ids: short sequences that test which linear maps a second run may skip; None skips
            nothing.
    """

    def __init__(
        self,
        parts: ModelParts,
        trained: dict[int, str],
        *,
        slow: Sequence[str] = (),
        spill: Path | None = None,
        timer: PhaseTimer = no_timer,
        probe_ids: Tensor | None = None,
    ) -> None:
        self.parts, self.trained, self.spill = parts, trained, spill
        self._probe_ids = probe_ids
        self.timer = timer
        self.slow = list(slow)
        hooked = {key: name for key, name in trained.items() if name not in set(slow)}
        # `head_pass` records the head itself, in blocks of tokens: hooks would need all logits.
        head = [parts.head] if parts.head is not None else []
        self.recorder = Recorder(parts.model, hooked, exclude=head)
        self._hooked = hooked

    # -- resident -----------------------------------------------------------------------------

    def resident(self, batches: Sequence[RecordedBatch]) -> Iterator[list[str]]:
        """Run all micro-batches forward and backward. All parameters are ready at the end."""
        for batch in batches:
            batch.begin()
            for index in range(len(batch.microbatches)):
                self.run_microbatch(batch, index)
        yield list(self.trained.values())

    def run_microbatch(
        self,
        batch: RecordedBatch,
        index: int,
        directions: Mapping[str, Mapping[str, Tensor]] | None = None,
    ) -> None:
        """Run one micro-batch forward and backward.

        Args:
            batch: the recorded batch.
            index: number of the micro-batch.
            directions: tensors by label and parameter name. The gradient of the head's weight is
                contracted with them during the pass, so the head leaves no factor.
        """
        with self.recorder.recording(batch.records[index]), torch.enable_grad():
            with self.timer("forward"):
                out = self.parts.outputs(batch.microbatches[index].input_ids)
            with self.timer("head"):
                scored = self._score(batch, index, out, directions)
            with self.timer("input gradients"):
                if out.requires_grad:
                    torch.autograd.backward(out, scored.grad)
        self._record_slow_parameters(batch, index)

    def _score(
        self,
        batch: RecordedBatch,
        index: int,
        out: Tensor,
        directions: Mapping[str, Mapping[str, Tensor]] | None = None,
    ) -> HeadPass:
        microbatch, record = batch.microbatches[index], batch.records[index]
        head, weight, bias = self.parts.head, None, None
        if head is not None:
            weight, bias = self._hooked.get(id(head.weight)), self._hooked.get(id(head.bias))
        by_label = {} if directions is None or weight is None else directions
        scored = head_pass(
            out,
            head,
            ResponseTokens.from_microbatch(microbatch, batch.token_weights_NT, out),
            with_bias=bias is not None,
            directions={label: each[weight] for label, each in by_label.items() if weight},
        )
        record.direction_products = scored.direction_products
        if not scored.direction_products:
            record.add(weight, scored.factor)
        record.add(bias, scored.bias)
        batch.logp[index] = scored.logp_BR
        return scored

    def _record_slow_parameters(self, batch: RecordedBatch, index: int) -> None:
        """Record parameters that hooks got wrong: autograd on one sequence after the other."""
        if not self.slow:
            return
        microbatch = batch.microbatches[index]
        named = dict(self.parts.model.named_parameters())
        counted: list[Tensor] = [named[name] for name in self.slow]
        rows = [
            score_gradients(
                self.parts, Microbatch(microbatch.batch, [row]), batch.token_weights_NT, counted
            )
            for row in microbatch.row_ids
        ]
        columns = zip(*rows, strict=True)
        for name, parameter, column in zip(self.slow, counted, columns, strict=True):
            # A parameter that no sequence reaches gets no factor: the optimizer skips it.
            if any(grad is not None for grad in column):
                filled = [torch.zeros_like(parameter) if g is None else g for g in column]
                batch.records[index].add(name, StoredFactor(torch.stack(filled)))

    # -- bounded ------------------------------------------------------------------------------

    def bounded(self, batches: Sequence[RecordedBatch]) -> Iterator[list[str]]:
        """Run block by block from the top, and yield parameters as their factors are complete.

        The caller contracts the yielded parameters and drops their factors before it continues.
        """
        ready: dict[int, list[str]] = defaultdict(list)
        for name, users in self._owning_blocks().items():
            # A parameter used in several places (a tied embedding) is complete only at the end.
            ready[min(users) if len(users) == 1 else OUTSIDE].append(name)
        skipped = self._skipped_linears()
        with BlockInputStore(self.spill) as store:
            jobs = [(batch, index) for batch in batches for index in range(len(batch.microbatches))]
            for batch in batches:
                batch.begin()
            replays = [
                self._forward_to_head(batch, index, BlockReplay(self.parts.blocks, store, number))
                for number, (batch, index) in enumerate(jobs)
            ]
            yield ready[HEAD]
            for depth in reversed(range(len(self.parts.blocks))):
                for (batch, index), replay in zip(jobs, replays, strict=True):
                    with skip_linear(skipped[depth] if skipped else None):
                        self._replay_block(batch.records[index], depth, replay)
                yield ready[depth]
            for replay in replays:
                self._backward_to_embeddings(replay)
            yield ready[OUTSIDE]

    def _skipped_linears(self) -> list[nn.Linear | None]:
        """For each block the map that its second run skips; empty when nothing is skipped."""
        probe = self._probe_ids
        return [] if probe is None else skippable_linears(self.parts, probe)

    def parameters_skipped(self) -> int:
        """How many weights the second run of the blocks skips, for the planner's cost."""
        return sum(each.weight.numel() for each in self._skipped_linears() if each is not None)

    def _owning_blocks(self) -> dict[str, set[int]]:
        """Where each parameter is used: depths of blocks, HEAD, or OUTSIDE of both."""
        owners: dict[str, set[int]] = {name: set() for name in self.trained.values()}
        for depth, block in enumerate(self.parts.blocks):
            for each in block.parameters():
                if id(each) in self._hooked:
                    owners[self._hooked[id(each)]].add(depth)
        inside = {id(part) for block in self.parts.blocks for part in block.modules()}
        for module in self.parts.model.modules():
            owner = HEAD if module is self.parts.head else OUTSIDE
            for each in module.parameters(recurse=False):
                if id(module) not in inside and id(each) in self._hooked:
                    owners[self._hooked[id(each)]].add(owner)
        return owners

    def _forward_to_head(
        self, batch: RecordedBatch, index: int, replay: BlockReplay
    ) -> BlockReplay:
        """Run a micro-batch forward once, store the inputs of its blocks, and record the head."""
        with self.recorder.recording(batch.records[index]), replay, torch.enable_grad():
            with self.timer("forward"):
                hidden = self.parts.outputs(batch.microbatches[index].input_ids)
            with self.timer("head"):
                scored = self._score(batch, index, hidden)
                torch.autograd.backward(hidden, scored.grad)
        replay.take_gradient()
        self._record_slow_parameters(batch, index)
        return replay

    def _replay_block(self, record: FactorRecord, depth: int, replay: BlockReplay) -> None:
        """Run one block again, now with hooks, and pass the gradient through it."""
        block_input = replay.take_input(depth).requires_grad_()
        with self.recorder.recording(record), torch.enable_grad():
            with self.timer("forward again"):
                out = replay.run_block(depth, block_input)
            with self.timer("input gradients"):
                torch.autograd.backward(out, replay.gradient)
        if block_input.grad is None:
            raise RuntimeError("a block passed no gradient to its input")
        replay.gradient = block_input.grad

    def _backward_to_embeddings(self, replay: BlockReplay) -> None:
        """Pass the gradient at the first block's input on to the embeddings."""
        # No graph when embeddings are frozen: then nothing below the blocks is recorded.
        if replay.first_input is not None and replay.first_input.requires_grad:
            torch.autograd.backward(replay.first_input, replay.gradient)
        replay.first_input = None
