"""Forward and backward passes that leave factors behind: all at once, or block by block.

`resident` keeps the factors of every layer until they are contracted. `bounded` keeps the residual
stream at the borders of the blocks and runs each block again when its turn comes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from midstep.influence.gradients.block_replay import (
    BlockInputStore,
    BlockReplay,
    skip_linear,
    skippable_linears,
)
from midstep.influence.gradients.execution import PhaseTimer, no_timer
from midstep.influence.gradients.factors import StoredFactor, accumulation_dtype
from midstep.influence.gradients.gradient_recorder import RecordedBatch, Recorder
from midstep.influence.gradients.model_parts import ModelParts
from midstep.influence.gradients.output_head import HeadPass, ResponseTokens, head_pass, logits_pass
from midstep.influence.gradients.sequences import Microbatch

if TYPE_CHECKING:
    from torch import Tensor

HEAD, OUTSIDE = -1, -2
"""Where a parameter is used that no block uses: in the head, or outside of head and blocks."""


class ModelPasses:
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
        head = [parts.head] if parts.head is not None else []
        self.recorder = Recorder(parts.model, hooked, exclude=head)
        self._hooked = hooked

    # -- resident -----------------------------------------------------------------------------

    def resident(self, batches: Sequence[RecordedBatch]) -> Iterator[list[str]]:
        """All micro-batches forward and backward; then every parameter is ready at once."""
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
        """One micro-batch, forward and backward.

        Args:
            batch: the recorded batch.
            index: number of the micro-batch.
            directions: tensors by label and parameter name. The gradient of the head's weight is
                contracted with them during the pass, so the head leaves no factor.
        """
        microbatch, record = batch.microbatches[index], batch.records[index]
        with self.recorder as recorder, torch.enable_grad():
            recorder.record = record
            with self.timer("forward"):
                if self.parts.hidden is not None:
                    out = self.parts.hidden(microbatch.input_ids)
                else:
                    out = self.parts.logits(microbatch.input_ids)
            with self.timer("head"):
                scored = self._score(batch, index, out, directions)
            with self.timer("input gradients"):
                if out.requires_grad:
                    torch.autograd.backward(out, scored.grad)
            recorder.record = None
        self._record_slow_parameters(batch, index)

    def _score(
        self,
        batch: RecordedBatch,
        index: int,
        out: Tensor,
        directions: Mapping[str, Mapping[str, Tensor]] | None = None,
    ) -> HeadPass:
        microbatch, record = batch.microbatches[index], batch.records[index]
        responses = ResponseTokens.of(microbatch, batch.token_weights_NT, accumulation_dtype(out))
        head = self.parts.head
        if head is None:
            scored = logits_pass(out, responses)
        else:
            bias, weight = self._hooked.get(id(head.bias)), self._hooked.get(id(head.weight))
            by_label = {} if directions is None or weight is None else directions
            scored = head_pass(
                out, head, responses, with_bias=bias is not None,
                directions={label: each[weight] for label, each in by_label.items() if weight},
            )  # fmt: skip
            record.direction_products = scored.direction_products
            if scored.factor is not None and not scored.direction_products:
                record.add(weight, scored.factor)
            if scored.bias is not None:
                record.add(bias, scored.bias)
        batch.logp[index] = scored.logp_BR
        return scored

    def _record_slow_parameters(self, batch: RecordedBatch, index: int) -> None:
        """Parameters of no known form: autograd on one sequence after the other."""
        if not self.slow:
            return
        microbatch, record = batch.microbatches[index], batch.records[index]
        named = dict(self.parts.model.named_parameters())
        counted = [named[name].requires_grad_() for name in self.slow]
        rows: list[list[Tensor]] = []
        for row in microbatch.row_ids:
            single = Microbatch(microbatch.batch, [row])
            with torch.enable_grad():
                logits = self.parts.logits(single.input_ids)
            responses = ResponseTokens.of(
                single, batch.token_weights_NT, accumulation_dtype(logits)
            )
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

    def bounded(self, batches: Sequence[RecordedBatch]) -> Iterator[list[str]]:
        """Block by block from the top; yields the parameters that are ready to be contracted."""
        ready: dict[int, list[str]] = defaultdict(list)
        for name, users in self._owning_blocks().items():
            # A parameter used in several places is complete only when all of them ran.
            ready[min(users) if len(users) == 1 else OUTSIDE].append(name)
        skipped = self._skipped_linears()
        with BlockInputStore(self.spill) as store:
            jobs = [(batch, index) for batch in batches for index in range(len(batch.microbatches))]
            for batch in batches:
                batch.begin()
            replays = [
                self._forward_to_head(batch, index, store, number)
                for number, (batch, index) in enumerate(jobs)
            ]
            yield ready[HEAD]
            for depth in reversed(range(len(self.parts.blocks))):
                for number, (batch, index) in enumerate(jobs):
                    with skip_linear(skipped[depth] if skipped else None):
                        self._replay_block(batch, index, store, number, depth, replays[number])
                yield ready[depth]
            for replay in replays:
                self._backward_to_embeddings(replay)
            yield ready[OUTSIDE]

    def _skipped_linears(self) -> list[nn.Linear | None]:
        """For each block the map that need not run again; empty where nothing is left out."""
        probe = self._probe_ids
        return [] if probe is None else skippable_linears(self.parts, probe)

    def parameters_skipped(self) -> int:
        """Weights of the maps that are left out when blocks run again."""
        return sum(each.weight.numel() for each in self._skipped_linears() if each is not None)

    def _owning_blocks(self) -> dict[str, set[int]]:
        """Where each parameter is used: in the blocks of these depths, HEAD, OUTSIDE of both."""
        owners: dict[str, set[int]] = {name: set() for name in self.trained.values()}
        for depth, block in enumerate(self.parts.blocks):
            for each in block.parameters():
                if id(each) in self._hooked:
                    owners[self._hooked[id(each)]].add(depth)
        inside = {id(part) for block in self.parts.blocks for part in block.modules()}
        head = self.parts.head
        for module in self.parts.model.modules():
            owner = HEAD if module is head else OUTSIDE
            for each in module.parameters(recurse=False):
                if id(module) not in inside and id(each) in self._hooked:
                    owners[self._hooked[id(each)]].add(owner)
        return owners

    def _forward_to_head(
        self, batch: RecordedBatch, index: int, store: BlockInputStore, number: int
    ) -> BlockReplay:
        """Forward once: borders kept, nothing recorded inside the blocks; then the head."""
        replay = BlockReplay(self.parts.blocks, store, number)
        with self.recorder as recorder, replay, torch.enable_grad():
            recorder.record = batch.records[index]
            with self.timer("forward"):
                hidden = self.parts.hidden(batch.microbatches[index].input_ids)  # type: ignore[misc]
            with self.timer("head"):
                scored = self._score(batch, index, hidden)
                torch.autograd.backward(hidden, scored.grad)
            recorder.record = None
        replay.take_gradient()
        self._record_slow_parameters(batch, index)
        return replay

    def _replay_block(
        self,
        batch: RecordedBatch,
        index: int,
        store: BlockInputStore,
        number: int,
        depth: int,
        replay: BlockReplay,
    ) -> None:
        """One block once more, now with its factors."""
        block_input = store.take((number, depth)).requires_grad_()
        with self.recorder as recorder, torch.enable_grad():
            recorder.record = batch.records[index]
            args, kwargs = replay.block_arguments(depth, block_input)
            with self.timer("forward again"):
                out = self.parts.blocks[depth](*args, **kwargs)
            out = out[0] if isinstance(out, tuple) else out
            with self.timer("input gradients"):
                torch.autograd.backward(out, replay.gradient)
            recorder.record = None
        if block_input.grad is None:
            raise RuntimeError("a block passed no gradient to its input")
        replay.gradient = block_input.grad

    def _backward_to_embeddings(self, replay: BlockReplay) -> None:
        """The gradient at the bottom goes on into the embeddings."""
        if replay.first_input is not None and replay.first_input.requires_grad:
            torch.autograd.backward(replay.first_input, replay.gradient)
        replay.first_input = None
