"""A training in a process of its own, brought into a state; it says `ready`, then never ends.

Arguments: attach or serve, the state, the folder for its run.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext

import torch
from torch.utils.data import DataLoader

import midstep
from midstep.control import Command, CommandDefinition
from midstep.core.commands.definition import NoPayload
from midstep.live import attach, serve

WAY, STATE, SAVE_DIR = sys.argv[1:]
said: list[str] = []


def ready() -> None:
    if not said:
        said.append("ready")
        print("ready", flush=True)


def scan(_payload: object):
    while True:
        ready()
        yield 0.5


def long_step(_payload: object) -> None:
    """A command that cannot be cut short: it outlives the first signal by itself."""
    ready()
    for _ in range(20):
        torch.ones(64, 64) @ torch.ones(64, 64)


def prepare(control: midstep.DebugController) -> None:
    for name, work in (("scan", scan), ("long", long_step)):
        control.queue.register(CommandDefinition(name=name, payload=NoPayload, help=""), work)
    if STATE == "paused":
        control.sinks.subscribe(lambda: ready() if control.is_parked else None)
        control.pause()
    elif STATE in ("scan", "long"):
        control.submit(Command(name=STATE))


def step_made(step: int) -> None:
    if STATE in ("running", "stuck", "workers") and step == 3:
        ready()
        if STATE == "stuck":
            while True:
                torch.ones(1).sum()


def by_attach(control: midstep.DebugController) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    workers = int(STATE == "workers")
    loader = DataLoader(torch.ones(8, 2), batch_size=2, num_workers=workers)
    with attach(model, optimizer, loader, controller=control, save_dir=SAVE_DIR) as run:
        prepare(control)
        for _ in run.epochs(10**6):
            for x in loader:
                model(x).square().mean().backward()
                optimizer.step()
                step_made(control.boundary.finished_steps)


def by_serve(control: midstep.DebugController, run: object) -> None:
    with serve(run or control, port=0, save_dir=SAVE_DIR):
        prepare(control)
        going = control.boundary.enter()
        while going:
            control.capture_batch(torch.ones(1), 0.5)
            step_made(control.boundary.finished_steps)
            going = control.wait_if_paused()


controller = midstep.DebugController()
if WAY == "attach":
    by_attach(controller)
else:
    own = WAY == "serve run"
    made = midstep.Run(name="a", save_dir=SAVE_DIR, controller=controller) if own else nullcontext()
    with made as given:
        by_serve(controller, given)
print("behind the block")
