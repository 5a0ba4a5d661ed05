"""What an open page costs a training on a GPU: `python -m benchmarks.page.gpu_page_cost`.

Bare rounds and rounds under `attach` with a page open take turns in one process. The page is a
process of its own that subscribes and reads as the Step tab does: batch, loss and layers. After
the timed rounds, synchronising calls of the training thread are counted in both.

Needs torch alone: ResNet-50 and GPT-2 small are written out below, with random weights and data.
`--device cpu --small` is a smoke check without a GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

import midstep
from benchmarks.page.page_process import count_captures, polling, tell

ROUNDS, STEPS = 3, 60
WARM_UP_S = 2.0
"""With the page open: captures and requests are then at their steady rate."""
COUNTED_STEPS = 20
BATCHES = 2
"""Batches that take turns."""


# -- models ---------------------------------------------------------------------------------------


class Bottleneck(nn.Module):
    """The block of ResNet-50."""

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        outputs = 4 * width
        self.layers = nn.Sequential(
            *_convolution(inputs, width, 1), nn.ReLU(inplace=True),
            *_convolution(width, width, 3, stride), nn.ReLU(inplace=True),
            *_convolution(width, outputs, 1),
        )  # fmt: skip
        same = stride == 1 and inputs == outputs
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(*_convolution(inputs, outputs, 1, stride))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The output of the block."""
        return functional.relu(self.layers(x) + self.shortcut(x))


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return convolution, nn.BatchNorm2d(outputs)


def resnet(blocks: tuple[int, ...], width: int = 64, classes: int = 1000) -> nn.Module:
    """A ResNet; (3, 4, 6, 3) is ResNet-50."""
    layers: list[nn.Module] = [
        *_convolution(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
    ]  # fmt: skip
    inputs = width
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage and not block else 1
            layers.append(Bottleneck(inputs, width << stage, stride))
            inputs = 4 * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class Block(nn.Module):
    """The block of GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The output of the block."""
        parts = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind()
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        result: torch.Tensor = x + self.mlp(self.second(x))
        return result


class Gpt(nn.Module):
    """A GPT-2; (50257, 12, 768, 12) is the small one."""

    def __init__(self, tokens: int, layers: int, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits of the next token at each position."""
        places = torch.arange(ids.shape[1], device=ids.device)
        hidden = self.blocks(self.tokens(ids) + self.places(places))
        logits: torch.Tensor = self.head(self.norm(hidden))
        return logits


@dataclass(frozen=True, kw_only=True)
class Training:
    """A model with its batches and its step."""

    name: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: list[tuple[torch.Tensor, torch.Tensor]]
    device: str
    loss_fn: nn.Module = field(default_factory=nn.CrossEntropyLoss)
    declares_loss: bool = False
    """Whether `attach` gets the loss, so that the page shows loss and prediction of each sample."""

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """One step; returns the loss, still on the device."""
        with torch.autocast(self.device, dtype=torch.bfloat16):
            outputs = self.model(x)
            loss: torch.Tensor = self.loss_fn(outputs.flatten(0, -2), y.flatten())
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()


def make_resnet(device: str, *, small: bool, channels_last: bool = False) -> Training:
    """ResNet-50 on batches of 256 images of 224 x 224."""
    torch.manual_seed(0)
    blocks, width, count, side = ((1, 1), 8, 16, 64) if small else ((3, 4, 6, 3), 64, 256, 224)
    model = resnet(blocks, width).to(device)
    shape = (count, 3, side, side)
    batches = [
        (torch.rand(shape, device=device), torch.randint(1000, (count,), device=device))
        for _ in range(BATCHES)
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    name = f"ResNet-50, batch {count} of {side}x{side}"
    if channels_last:
        name += ", channels last"
        # torch's stubs lack this form of the call.
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        batches = [(x.to(memory_format=torch.channels_last), y) for x, y in batches]
    return Training(name=name, model=model, optimizer=optimizer, batches=batches, device=device)


def make_gpt(device: str, *, small: bool) -> Training:
    """GPT-2 small on batches of 16 sequences of 512 tokens."""
    torch.manual_seed(0)
    tokens, layers, width, heads = (256, 2, 64, 4) if small else (50257, 12, 768, 12)
    count, length = (4, 64) if small else (16, 512)
    model = Gpt(tokens, layers, width, heads, length).to(device)
    ids = [torch.randint(tokens, (count, length + 1), device=device) for _ in range(BATCHES)]
    batches = [(each[:, :-1].contiguous(), each[:, 1:].contiguous()) for each in ids]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    name = f"GPT-2 small, {count} x {length}"
    return Training(name=name, model=model, optimizer=optimizer, batches=batches, device=device)


# -- rounds ---------------------------------------------------------------------------------------


class Endless(IterableDataset[Any]):
    """The batches in turn, for ever, as they are on the device."""

    def __init__(self, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield from self._batches


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def bare_round(training: Training, steps: int, warm_up: int = 5) -> float:
    """Seconds a step takes without midstep."""
    begun = 0.0
    for index, (x, y) in enumerate(DataLoader(Endless(training.batches), batch_size=None)):
        if index == warm_up:
            _wait(training.device)
            begun = time.perf_counter()
        if index == warm_up + steps:
            break
        training.step(x, y)
    _wait(training.device)
    return (time.perf_counter() - begun) / steps


@contextmanager
def page_open(training: Training) -> Iterator[tuple[Any, DataLoader[Any], Callable[[], int]]]:
    """An attached run with a page open; its loader; how many captures the page was notified of."""
    loader: DataLoader[Any] = DataLoader(Endless(training.batches), batch_size=None)
    with (
        tempfile.TemporaryDirectory() as folder,
        midstep.attach(
            training.model,
            training.optimizer,
            loader,
            save_dir=folder,
            serve=True,
            port=0,
            loss_fn=training.loss_fn if training.declares_loss else None,
        ) as run,
        polling(str(run.url), "step", "layers") as child,
    ):
        tell(child, "on")
        yield run, loader, partial(count_captures, child)


def open_round(training: Training, steps: int, warm_up_s: float) -> tuple[float, int]:
    """Seconds a step takes with a page open, and the captures that the page got."""
    with page_open(training) as (run, loader, captures):
        started, first, begun, seen = time.perf_counter(), None, 0.0, 0
        for index, (x, y) in enumerate(loader):
            if first is None and time.perf_counter() - started >= warm_up_s:
                seen, first = captures(), index
                _wait(training.device)
                begun = time.perf_counter()
            if first is not None and index == first + steps:
                break
            run.log(loss=training.step(x, y))
        _wait(training.device)
        spent = (time.perf_counter() - begun) / steps
        return spent, captures() - seen


class SyncCounter:
    """Counts warnings of synchronising CUDA calls in this thread."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self._thread = threading.get_ident()

    @property
    def count(self) -> int:
        """Calls so far."""
        return sum(self.places.values())

    def note(
        self, message: Any, _kind: Any, file: str, line: int, _file: Any = None, _line: Any = None
    ) -> None:
        """A `showwarning`."""
        if threading.get_ident() == self._thread and "synchroniz" in str(message):
            position = f"{file}:{line}"
            self.places[position] = self.places.get(position, 0) + 1


@contextmanager
def counting(device: str) -> Iterator[SyncCounter]:
    """Count synchronising calls of this thread inside the block."""
    counter, shown = SyncCounter(), warnings.showwarning
    if device != "cuda":
        yield counter
        return
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = counter.note  # type: ignore[assignment]
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield counter
        finally:
            torch.cuda.set_sync_debug_mode("default")
            warnings.showwarning = shown


def count_bare(training: Training) -> SyncCounter:
    """Synchronising calls of some bare steps."""
    batches = training.batches * COUNTED_STEPS
    with counting(training.device) as counter:
        for x, y in batches[:COUNTED_STEPS]:
            training.step(x, y)
    return counter


def count_open(training: Training, warm_up_s: float) -> SyncCounter:
    """Synchronising calls of the training thread in as many steps with a page open."""
    with page_open(training) as (run, loader, _captures):
        started, left = time.perf_counter(), -1
        with counting(training.device) as counter:
            for x, y in loader:
                if left < 0 and time.perf_counter() - started >= warm_up_s:
                    left = COUNTED_STEPS
                    counter.places.clear()
                if left == 0:
                    break
                left -= left > 0
                run.log(loss=training.step(x, y))
    return counter


def measure(training: Training, *, rounds: int, steps: int, warm_up_s: float) -> dict[str, Any]:
    """All numbers of one model."""
    bare_round(training, 5)
    pairs, captures = [], []
    for _ in range(rounds):
        bare = bare_round(training, steps)
        spent, count = open_round(training, steps, warm_up_s)
        pairs.append((bare, spent))
        captures.append(count)
    overheads = [100 * (spent / bare - 1) for bare, spent in pairs]
    bare_calls, open_calls = count_bare(training), count_open(training, warm_up_s)
    return {
        "model": training.name,
        "bare_ms": [1000 * bare for bare, _ in pairs],
        "open_ms": [1000 * spent for _, spent in pairs],
        "overhead_percent": overheads,
        "median_percent": statistics.median(overheads),
        "captures": captures,
        "sync_calls_bare": bare_calls.count,
        "sync_calls_open": open_calls.count,
        "sync_places": open_calls.places,
        "counted_steps": COUNTED_STEPS,
    }


def trainings(device: str, *, small: bool) -> Iterator[Training]:
    """What is measured: each model as it is, and with its loss declared."""
    makers = (make_resnet, partial(make_resnet, channels_last=True), make_gpt)
    for make in makers:
        training = make(device, small=small)
        yield training
        yield replace(training, name=f"{training.name}, loss declared", declares_loss=True)


def main(arguments: list[str]) -> None:
    """Measure, and print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny models, for a smoke check")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--out", help="write the numbers as JSON to this file")
    chosen = parser.parse_args(arguments)
    results = []
    for training in trainings(chosen.device, small=chosen.small):
        result = measure(training, rounds=chosen.rounds, steps=chosen.steps, warm_up_s=WARM_UP_S)
        results.append(result)
        low, high = min(result["overhead_percent"]), max(result["overhead_percent"])
        print(
            f"| {result['model']} | {statistics.median(result['bare_ms']):.2f} ms "
            f"| {result['median_percent']:+.2f} % | {low:+.2f} – {high:+.2f} "
            f"| {result['sync_calls_open']} ({result['sync_calls_bare']} bare) "
            f"| {result['captures']} captures |",
            flush=True,
        )
    text = json.dumps(results, indent=2)
    print(text)
    if chosen.out:
        Path(chosen.out).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
