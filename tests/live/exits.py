"""Scripts with `attach(…).start()` that end in one of several ways, each in a process of its own.

Argument: a folder. Each way gets a folder in it, with what the script printed, and its run. The
exit codes are printed as JSON. The processes are forked by this one, which has torch loaded; each
runs to the end of its interpreter.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch._dynamo
from torch import nn

from midstep.control import Command
from midstep.live import attach

WAYS = ("end", "stop", "sigterm", "error")


def script(way: str, folder: Path) -> None:
    """What a user's script does."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    run = attach(model, optimizer, save_dir=folder, run_name="run", serve=True, port=0).start()
    for step in run.steps(40):
        try:
            loss = model(run.batch(torch.ones(3, 2))).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)
            if step == 5:
                end(way, run)
        except Exception:
            if way == "error":
                raise
            print("the script swallowed an exception")
    print("the loop is over")


def end(way: str, run: object) -> None:
    if way == "stop":
        run.controller.submit(Command(name="stop"))
    if way == "sigterm":
        os.kill(os.getpid(), signal.SIGTERM)
        while not run.controller.get_state()["stopped"]:  # a thread of ours carries it out
            pass
    if way == "error":
        raise RuntimeError("of the script")


def become(folder: Path) -> None:
    """Print into files from here on."""
    folder.mkdir()
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_CREAT | os.O_WRONLY), number)


if __name__ == "__main__":
    codes: dict[str, int] = {}
    for way in WAYS:
        if (pid := os.fork()) == 0:
            become(Path(sys.argv[1]) / way)
            script(way, Path(sys.argv[1]) / way)
            break
        codes[way] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    else:
        print(json.dumps(codes))
