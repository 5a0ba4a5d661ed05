"""`python -m studies.competitive`: train, look, write the tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from midstep.loops.bcl_config import CONDITIONS
from studies.competitive.measurements import STEPS, look_into
from studies.competitive.runs import train_all
from studies.competitive.tables import (
    deaths_table,
    forces_table,
    images_table,
    results_table,
    write_tables,
)

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "studies" / "competitive.md"
QUICK_STEPS = 600


def main() -> None:
    """Repeat the study; runs that are finished already are read again, not trained again."""
    asked = argparse.ArgumentParser(prog="studies.competitive", description=main.__doc__)
    asked.add_argument("--steps", type=int, default=25_000, help="optimizer steps of each run")
    asked.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    asked.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "outputs" / "studies" / "competitive",
        help="where the runs are kept",
    )
    asked.add_argument(
        "--quick",
        action="store_true",
        help=f"see that it works: one seed, {QUICK_STEPS} steps, and the page of the study stays",
    )
    given = asked.parse_args()
    if given.quick:
        given.steps, given.seeds = QUICK_STEPS, given.seeds[:1]
    at_steps = tuple(step for step in STEPS if step <= given.steps)
    cells = train_all(given.folder, given.seeds, given.steps)
    looks = [
        look
        for condition in CONDITIONS
        for look in look_into(condition, given.folder / "looks" / condition, at_steps)
    ]
    tables = {
        "results": results_table(cells),
        "forces": forces_table(looks),
        "deaths": deaths_table(cells),
        "images": images_table(looks),
    }
    if not given.quick:
        write_tables(PAGE, tables)
    print("\n\n".join(tables.values()))  # noqa: T201 - what the script is for


if __name__ == "__main__":
    main()
