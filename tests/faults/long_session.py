"""A session that trains until it is ended: `python long_session.py RUN_DIR STEPS [say|deaf]`.

It checkpoints every step. With `say` it prints each one, with `deaf` it has no stdout; the first
line of stderr says that it trains.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep.session import Session, SessionConfig


def main(run_dir: Path, steps: int, *, say: bool) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(32, 4), torch.randint(2, (32,)))
    config = SessionConfig(
        save_dir=run_dir.parent, run_name=run_dir.name, resume="auto", checkpoint_every_steps=1
    )
    loader = DataLoader(data, batch_size=4, shuffle=True)
    with Session(model, optimizer, nn.CrossEntropyLoss(), loader, config=config) as session:

        @session.on_step
        def tell(record: object) -> None:
            if session.trainer.step == 3:
                sys.stderr.write("trains\n")
                sys.stderr.flush()
            if say:
                print(session.trainer.step, flush=True)

        session.fit(steps=steps)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be inherited as ignored
    if "deaf" in sys.argv[3:]:
        os.close(1)
    main(Path(sys.argv[1]), int(sys.argv[2]), say="say" in sys.argv[3:])
