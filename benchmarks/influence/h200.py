"""The exact kernel of a 1.5 B-parameter step on one large GPU: time by phase, memory, accuracy.

Needs torch and `midstep.influence` alone.

    export PYTHONPATH=src:.
    python benchmarks/influence/h200.py --quick          4 layers, 64 × 64 sequences: a minute
    python benchmarks/influence/h200.py                  the whole line: about four minutes
    python benchmarks/influence/h200.py --parts kernel   one part: gemm, kernel, delta, accuracy

Prints one JSON object a part, and at the end one with everything and its bars.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.influence.accuracy import (
    Language,
    accuracy,
    group_batches,
    medians,
    train,
)
from benchmarks.influence.decoder import Shape, decoder
from midstep.influence.gradients.sequences import SequenceBatch
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.optimizers.adam_state import AdamState, ParameterState

REFERENCE_FLOPS = 7.69e15
"""Of the whole kernel at full size, as the bar counts them."""
BARS = {
    "kernel_s": 17.0,
    "delta_s": 10.0,
    "cold_s": 60.0,
    "peak_gib": 110.0,
    "ratio_to_gemm": 1.5,
    "error_4_layers": 0.015,
    "error_all_layers": 0.06,
    "rank_4_layers": 0.999,
    "rank_all_layers": 0.99,
}


def adam_state(model: nn.Module, seed: int = 1) -> AdamState:
    """A made-up state: second moments spread over two decades, in float32."""
    device = next(model.parameters()).device
    stream = torch.Generator(device=device).manual_seed(seed)
    kept = {}
    for name, each in model.named_parameters():
        spread = torch.rand(each.shape, generator=stream, device=device)
        second = (1e-4 * 10 ** (2 * spread)).square_()
        kept[name] = ParameterState(
            step=100, exp_avg=torch.zeros((), device=device).expand(each.shape), exp_avg_sq=second,
            lr=1e-6, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0,
        )  # fmt: skip
    return AdamState(kept)


def batch_of(count: int, shape: Shape, device: torch.device, seed: int) -> SequenceBatch:
    """Sequences of random tokens; all but the first count."""
    stream = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, shape.vocabulary, (count, shape.context), generator=stream)
    mask = torch.ones_like(ids)
    mask[:, 0] = 0
    return SequenceBatch(ids.to(device), mask.to(device))


class Phases:
    """A stopwatch of GPU events: no waiting while the work runs."""

    def __init__(self, device: torch.device) -> None:
        self._gpu = device.type == "cuda"
        self._pairs: dict[str, list[tuple[Any, Any]]] = defaultdict(list)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure a phase."""
        begun = self._mark()
        yield
        self._pairs[name].append((begun, self._mark()))

    def _mark(self) -> Any:
        if not self._gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self) -> dict[str, float]:
        """Time of each phase, longest first."""
        if self._gpu:
            torch.cuda.synchronize()
        sums = {
            name: sum(a.elapsed_time(b) / 1e3 if self._gpu else b - a for a, b in pairs)
            for name, pairs in self._pairs.items()
        }
        return {name: round(each, 3) for name, each in sorted(sums.items(), key=lambda x: -x[1])}


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def timed(work: Callable[[], Any], device: torch.device) -> tuple[Any, float]:
    """The result and how long it took, the device idle before and after."""
    wait(device)
    begun = time.perf_counter()
    made = work()
    wait(device)
    return made, time.perf_counter() - begun


def fresh_memory(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gib(device: torch.device) -> float:
    return torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0


def product_rate(
    rows: int, inner: int, columns: int, device: torch.device, dtype: torch.dtype, *, seconds: float
) -> float:
    """FLOP/s of one matrix product, sustained for a while on random numbers."""
    left = torch.randn(rows, inner, device=device).to(dtype)
    right = torch.randn(columns, inner, device=device).to(dtype)
    wide = device.type == "cuda" and dtype != torch.float32

    def once() -> Tensor:
        return torch.mm(left, right.mT, out_dtype=torch.float32) if wide else left @ right.mT

    for _ in range(3):
        once()
    count, spent = 0, 0.0
    while spent < seconds:
        _, part = timed(lambda: [once() for _ in range(10)], device)
        count, spent = count + 10, spent + part
    return 2 * rows * inner * columns * count / spent


def gemm_part(device: torch.device, dtype: torch.dtype, *, quick: bool) -> dict[str, Any]:
    """The rates that everything else is held against, in TFLOP/s."""
    big = 8192 if device.type == "cuda" else 512
    tile = 512 * 1536 if device.type == "cuda" else 4096
    seconds = 1.0 if quick else 4.0
    return {
        "square_tflops": product_rate(big, big, big, device, dtype, seconds=seconds) / 1e12,
        "kernel_tile_tflops": product_rate(1024, tile, 512, device, dtype, seconds=0.5) / 1e12,
    }


def attention(name: str) -> Any:
    """The attention kernels to try, in order."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    order = {
        "cudnn": [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH],
        "flash": [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH],
    }
    return sdpa_kernel(order[name], set_priority=True) if name in order else nullcontext()


def kernel_table(work: Callable[[], Any]) -> str:
    """Where the GPU's time goes, kernel by kernel."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as watched:
        work()
        torch.cuda.synchronize()
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for each in watched.events() or []:
        sums[each.name][0] += each.device_time_total
        sums[each.name][1] += 1
    rows = sorted(sums.items(), key=lambda item: -item[1][0])[:45]
    return "\n".join(f"{total / 1e3:10.1f} ms {int(n):6d} × {k[:110]}" for k, (total, n) in rows)


def run_part(
    options: argparse.Namespace, shape: Shape, device: torch.device, *, want: tuple[Any, ...]
) -> dict[str, Any]:
    """Cold, warm, warm with phases, of K or of Δ alone."""
    if not options.keep_compiled:
        torch._dynamo.reset()  # each part pays its own compilation
    fresh_memory(device)
    model = decoder(shape, device, options.dtype)
    state = adam_state(model)
    update = batch_of(options.sequences, shape, device, 1)
    evaluation = batch_of(options.sequences, shape, device, 2)
    weights = torch.randn(options.sequences, generator=torch.Generator().manual_seed(3))
    plans: list[str] = []
    kernel = want != ("delta",)

    def work(**more: Any) -> Any:
        with attention(options.attention):
            return fisher_kernel(
                model, update, evaluation, optimizer=state, weights=weights / options.sequences,
                want=want, algorithm="sweep" if kernel else "direction",
                mode="bounded" if kernel else "auto", terms=False, norms=options.norms,
                microbatch=options.microbatch if kernel else options.microbatch_delta,
                check_coverage=False, announce=plans.append, **more,
            )  # fmt: skip

    _, cold = timed(work, device)
    warm = []
    for _ in range(options.repeats):
        _, spent = timed(work, device)
        warm.append(spent)
    phases = Phases(device)
    made, watched = timed(lambda: work(stopwatch=phases), device)
    if options.profile:
        print(kernel_table(work), flush=True)
    values = made.k_eu if kernel else made.delta_logpi
    return {
        "plan": plans[-1],
        "cold_s": round(cold, 3),
        "warm_s": [round(each, 3) for each in warm],
        "watched_s": round(watched, 3),
        "phases_s": phases.seconds(),
        "peak_gib": round(peak_gib(device), 2),
        "finite": bool(values.isfinite().all()),
        "parameters": sum(each.numel() for each in model.parameters()),
    }


def accuracy_part(
    options: argparse.Namespace, shape: Shape, device: torch.device
) -> dict[str, Any]:
    """K(E,U) of 8 × 8 sequences in the short type against float32 of the same weights.

    Medians over `--trainings`, with the extremes. With `--random-tokens` also those of random
    tokens on a drawn model, whose pairs are nearly orthogonal: there a relative error says little,
    the error of the cosines does.
    """
    around = functools.partial(attention, options.attention)
    found: dict[str, Any] = {"layers": shape.layers, "steps": options.steps}
    found |= medians([trained_accuracy(options, shape, device) for _ in range(options.trainings)])
    for name in ("relative_error_eu", "rank_correlation_eu"):
        low, high = found["smallest"][name], found["largest"][name]
        print(f"{shape.layers} layers, {name}: {found[name]:.4f} [{low:.4f}-{high:.4f}]")
    if options.random_tokens:
        fresh_memory(device)
        drawn = decoder(shape, device, options.dtype)
        one, other = (batch_of(8, shape, device, seed) for seed in (1, 2))
        state = adam_state(drawn)
        found["random_tokens"] = accuracy(drawn, state, one, other, options.dtype, around)
    return found


def trained_accuracy(
    options: argparse.Namespace, shape: Shape, device: torch.device
) -> dict[str, float]:
    """The figures after one training of its own."""
    fresh_memory(device)
    language = Language(shape.vocabulary)
    model = decoder(shape, device, torch.float32)
    with torch.compiler.set_stance("force_eager"):
        optimizer, losses = train(
            model, language, steps=options.steps, sequences=8, tokens=shape.context, lr=5e-4
        )
    state = AdamState.from_optimizer(optimizer, model)
    pair = group_batches(language, prompts=4, completions=2, tokens=shape.context)
    found = {"loss_before": losses[0], "loss_after": losses[-1]}
    around = functools.partial(attention, options.attention)
    update, evaluation = (on(each, device) for each in pair)
    return found | accuracy(model, state, update, evaluation, options.dtype, around)


def on(batch: SequenceBatch, device: torch.device) -> SequenceBatch:
    return SequenceBatch(batch.input_ids.to(device), batch.response_mask.to(device))


def shape_of(options: argparse.Namespace) -> Shape:
    if options.tiny:
        return Shape(layers=2, width=32, inner=48, heads=4, key_heads=2, vocabulary=300, context=16)
    return Shape(layers=options.layers, context=options.tokens)


def parsed(arguments: list[str]) -> argparse.Namespace:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--quick", action="store_true", help="4 layers, 64 sequences a side")
    reader.add_argument("--tiny", action="store_true", help="a toy, to see that it runs anywhere")
    reader.add_argument("--layers", type=int, default=28)
    reader.add_argument("--sequences", type=int, default=512)
    reader.add_argument("--tokens", type=int, default=512)
    reader.add_argument("--microbatch", type=int, default=64)
    reader.add_argument("--microbatch-delta", type=int, default=64)
    reader.add_argument("--repeats", type=int, default=2)
    reader.add_argument("--attention", default="cudnn", choices=["cudnn", "flash", "default"])
    reader.add_argument("--steps", type=int, default=40, help="of training before the accuracy")
    reader.add_argument("--trainings", type=int, default=5, help="median of so many")
    reader.add_argument("--random-tokens", action="store_true", help="their accuracy as well")
    reader.add_argument("--keep-compiled", action="store_true", help="parts share compiled code")
    reader.add_argument("--profile", action="store_true", help="a table of GPU kernels as well")
    reader.add_argument("--norms", action="store_true", help="every sequence's norms as well")
    reader.add_argument("--parts", default="gemm,kernel,delta,accuracy")
    reader.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    reader.add_argument("--json", type=Path, default=None, help="also write the result here")
    options = reader.parse_args(arguments)
    if options.trainings < 1:
        reader.error("--trainings must be at least 1")
    if options.quick:
        options.layers, options.sequences = 4, 64
    if options.tiny:
        options.sequences, options.microbatch, options.microbatch_delta = 6, 2, 3
    options.dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    return options


def fastest(part: dict[str, Any]) -> float:
    """The best warm time; the run that was watched is warm too."""
    return float(min([*part["warm_s"], part["watched_s"]]))


def verdicts(found: dict[str, Any]) -> dict[str, Any]:
    """The figures of the bar, each beside it; only meant at full size."""
    told: dict[str, float] = {}
    if "kernel" in found:
        told["kernel_s"] = fastest(found["kernel"])
        told["cold_s"], told["peak_gib"] = found["kernel"]["cold_s"], found["kernel"]["peak_gib"]
    if "delta" in found:
        told["delta_s"] = fastest(found["delta"])
    if "kernel" in found and "gemm" in found:
        rate = found["gemm"]["square_tflops"] * 1e12
        told["ratio_to_gemm"] = told["kernel_s"] * rate / REFERENCE_FLOPS
    for name, key in (("accuracy_4", "4_layers"), ("accuracy_all", "all_layers")):
        if name in found:
            told[f"error_{key}"] = found[name]["relative_error_eu"]
            told[f"rank_{key}"] = found[name]["rank_correlation_eu"]
    return {
        key: {
            "value": value,
            "bar": BARS[key],
            "held": value >= BARS[key] if key.startswith("rank") else value <= BARS[key],
        }
        for key, value in told.items()
    }


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    device = torch.device(options.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    shape, parts, found = shape_of(options), options.parts.split(","), {}
    found["machine"] = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "layers": shape.layers,
        "sequences": options.sequences,
        "tokens": shape.context,
    }
    jobs: dict[str, Callable[[], dict[str, Any]]] = {
        "gemm": lambda: gemm_part(device, options.dtype, quick=options.quick or options.tiny),
        "kernel": lambda: run_part(options, shape, device, want=("EU", "UU")),
        "delta": lambda: run_part(options, shape, device, want=("delta",)),
    }
    if "accuracy" in parts:
        four = Shape(**{**shape.__dict__, "layers": min(4, shape.layers)})
        jobs["accuracy_4"] = lambda: accuracy_part(options, four, device)
        if shape.layers > 4:
            jobs["accuracy_all"] = lambda: accuracy_part(options, shape, device)
    for name, job in jobs.items():
        if name.split("_")[0] in parts:
            found[name] = job()
            print(json.dumps({name: found[name]}), flush=True)
    if (shape.layers, options.sequences, shape.context) == (28, 512, 512):
        found["bars"] = verdicts(found)
    text = json.dumps(found, indent=1)
    print(text, flush=True)
    if options.json is not None:
        options.json.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
