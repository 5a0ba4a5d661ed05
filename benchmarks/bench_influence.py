"""What the exact kernel of an AdamW step costs, against a plain pass, a batch-1 loop and libraries.

GPT-2-small shape, two threads; blocks take turns in one process, so a busy machine slows all alike.
"""

from __future__ import annotations

import gc
import importlib.util
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psutil
import torch
from torch import Tensor

from benchmarks.figures import Figure
from midstep.influence.batches import SequenceBatch
from midstep.influence.kernels import fisher_kernel
from midstep.models.causal_lm import CausalLM, CausalLMConfig

__all__ = ["figures"]

SEQUENCES = 8
"""Of U and of E."""
TOKENS = 128
ROUNDS = 2
GPT2_SMALL = CausalLMConfig(
    vocab_size=50_257, width=768, layers=12, heads=12, context=TOKENS, positions="learned",
    norm="layer", bias=True, tied=True,
)  # fmt: skip
MEMORY_TOKENS = 32
MEMORY_SHAPE = CausalLMConfig(
    vocab_size=4_000, width=256, layers=6, heads=8, context=MEMORY_TOKENS, positions="learned",
    norm="layer", bias=True, tied=True,
)  # fmt: skip


def batch_of(count: int, config: CausalLMConfig, seed: int) -> SequenceBatch:
    """Random tokens, the first quarter a prompt."""
    stream = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, config.vocab_size, (count, config.context), generator=stream)
    mask = torch.ones_like(ids)
    mask[:, : config.context // 4] = 0
    return SequenceBatch(ids, mask)


class Work:
    """A model with a stepped AdamW and the two batches."""

    def __init__(self, config: CausalLMConfig, count: int) -> None:
        self.model = CausalLM(config).eval()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        stream = torch.Generator().manual_seed(0)
        for each in self.model.parameters():
            each.grad = 1e-3 * torch.randn(each.shape, generator=stream)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.update, self.evaluation = batch_of(count, config, 1), batch_of(count, config, 2)
        self.weights = torch.randn(count, generator=stream)

    def kernel(self, **options: Any) -> Any:
        """K(E,U), K(U,U) and Δ of the exact Adam step."""
        return fisher_kernel(
            self.model, self.update, self.evaluation, optimizer=self.optimizer,
            weights=self.weights, **options,
        )  # fmt: skip

    def plain(self) -> None:
        """One forward and backward pass over U and E together."""
        for batch in (self.update, self.evaluation):
            torch.autograd.backward(self.score(batch).sum())
        self.optimizer.zero_grad()

    def score(self, batch: SequenceBatch) -> Tensor:
        """Log π of each sequence, as a trainer computes it."""
        return scores(self.model(batch.input_ids), batch.input_ids, batch.response_mask)

    def loop(self) -> None:
        """The batch-1 loop: a gradient a sequence, U's kept, D once, inner products."""
        count = sum(each.numel() for each in self.model.parameters())
        stacked = torch.empty(len(self.update), count)
        for row in range(len(self.update)):
            stacked[row] = self._gradient(self.update, row)
        total = self.weights @ stacked
        second = torch.cat(
            [self.optimizer.state[p]["exp_avg_sq"].flatten() for p in self.model.parameters()]
        )
        after = second * 0.999 + 0.001 * total.square()
        scaled = stacked / ((after / (1 - 0.999**2)).sqrt() + 1e-8)
        stacked @ scaled.T
        for row in range(len(self.evaluation)):
            scaled @ self._gradient(self.evaluation, row)

    def _gradient(self, batch: SequenceBatch, row: int) -> Tensor:
        made = torch.autograd.grad(
            self.score(batch.select([row])).sum(), list(self.model.parameters())
        )
        return torch.cat([each.flatten() for each in made])


def scores(logits_ntv: Tensor, ids_nt: Tensor, mask_nt: Tensor) -> Tensor:
    """Σ of the response tokens' log-probabilities."""
    logp = logits_ntv[:, :-1].log_softmax(-1).gather(2, ids_nt[:, 1:, None])[..., 0]
    return (logp * mask_nt[:, 1:]).sum(1)


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def peers(work: Work) -> dict[str, Callable[[], object]]:
    """The same block of per-sample gradients and inner products by others, where installed."""
    found: dict[str, Callable[[], object]] = {"vmap(grad)": lambda: by_vmap(work)}
    if importlib.util.find_spec("opacus"):
        found["opacus per-sample gradients"] = lambda: by_opacus(work)
    if importlib.util.find_spec("kronfluence") and importlib.util.find_spec("accelerate"):
        from benchmarks.kronfluence_block import identity_block

        found["kronfluence identity (linear layers only)"] = lambda: identity_block(
            work.model, work.update, work.evaluation
        )
    return found


def by_vmap(work: Work) -> None:
    """Per-sample gradients of `torch.func`, two sequences at a time."""
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


def speed() -> Iterator[Figure]:
    """Ratios to a plain pass, to the loop, and to the peers on the same block."""
    work = Work(GPT2_SMALL, SEQUENCES)
    note = f"{SEQUENCES} + {SEQUENCES} sequences of {TOKENS} tokens"
    times: dict[str, list[float]] = {"plain": [], "resident": [], "bounded": [], "loop": []}
    jobs: dict[str, Callable[[], object]] = {
        "plain": work.plain,
        "resident": lambda: work.kernel(algorithm="sweep", mode="resident"),
        "bounded": lambda: work.kernel(algorithm="sweep", mode="bounded"),
        "loop": work.loop,
    }
    work.kernel(algorithm="sweep", mode="resident")  # the coverage proof is made once a model
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            times[name].append(seconds(job))
            gc.collect()
    for name, bar in (("resident", 1.35), ("bounded", 1.7)):
        yield _ratio(
            f"influence: {name} sweep, against a plain pass", times, name, "plain", bar, note
        )
    for name in ("resident", "bounded"):
        yield _ratio(
            f"influence: {name} sweep, against the batch-1 loop", times, name, "loop", 0.75, note
        )
    best = statistics.median(times["resident"])
    for name, job in peers(work).items():
        try:
            spent = seconds(job)
        except (RuntimeError, NotImplementedError, ValueError, AttributeError) as error:
            reason = str(error).split("\n", maxsplit=1)[0][:80]
            yield Figure(
                name=f"influence: {name}", value=float("nan"), unit="×", note=f"fails: {reason}"
            )
            continue
        yield Figure(
            name=f"influence: resident sweep, against {name}", value=best / spent, unit="×",
            bar=1.0, note=f"{best:.1f} s against {spent:.1f} s; {note}",
        )  # fmt: skip
        gc.collect()


def _ratio(
    name: str, times: dict[str, list[float]], over: str, under: str, bar: float, note: str
) -> Figure:
    ratios = [a / b for a, b in zip(times[over], times[under], strict=True)]
    told = f"{statistics.median(times[over]):.1f} s against {statistics.median(times[under]):.1f} s"
    return Figure(
        name=name, value=statistics.median(ratios), unit="×", low=min(ratios), high=max(ratios),
        bar=bar, note=f"{told}; {note}",
    )  # fmt: skip


class PeakMemory:
    """The largest resident memory of this process while a block runs, above what it began with."""

    def __init__(self) -> None:
        self._process, self._done = psutil.Process(), threading.Event()
        self.most_bytes = 0

    @contextmanager
    def watching(self) -> Iterator[PeakMemory]:
        """Sample every 5 ms in a thread of its own."""
        gc.collect()
        base = self._process.memory_info().rss

        def sample() -> None:
            while not self._done.wait(0.005):
                self.most_bytes = max(self.most_bytes, self._process.memory_info().rss - base)

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            yield self
        finally:
            self._done.set()
            thread.join()


def memory() -> Iterator[Figure]:
    """Peak memory in mode bounded at 8, 32 and 128 sequences, borders on disk, beside its parts."""
    import tempfile
    from pathlib import Path

    for count in (8, 32, 128):
        work = Work(MEMORY_SHAPE, count)
        parameters = sum(each.numel() for each in work.model.parameters())
        with tempfile.TemporaryDirectory() as folder, PeakMemory().watching() as peak:
            work.kernel(algorithm="sweep", mode="bounded", microbatch=8, spill=Path(folder))
        tokens, width = 2 * count * MEMORY_TOKENS, MEMORY_SHAPE.width
        one_layer = tokens * 18 * width * 4
        yield Figure(
            name=f"influence: bounded sweep, peak memory at {count} + {count} sequences",
            value=peak.most_bytes / 2**20,
            unit="MiB",
            note=(
                f"one layer {one_layer / 2**20:.0f} MiB; batch × parameters would be "
                f"{2 * count * parameters * 4 / 2**20:.0f} MiB"
            ),
        )


def figures() -> Iterator[Figure]:
    """All figures of this module."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        yield from memory()
        yield from speed()
    finally:
        torch.set_num_threads(threads)
