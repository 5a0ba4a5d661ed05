"""Anomaly scores of the loop `ae` on real tables, beside PCA and isolation forest.

    python -m benchmarks.data.anomaly_tables ../shared/data/anomaly
    python -m benchmarks.data.anomaly_tables FOLDER --seeds 2 --settings "trainer.epochs=10"

Prints a Markdown table for docs/benchmarks.md. All tables use the same setting. For each seed, half
of the normal rows are for training; the others and all anomalies are the test. The loop trains on
nine tenths of its half and validates on the rest; the other methods are fitted on the whole half.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from midstep.data.sources import DataConfig, SourceData, load_source

Floats = NDArray[np.floating[Any]]

SEEDS = 5
SETTINGS = (
    "phase1.latent_space.latent_dim=4",
    "phase1.encoder.hidden_dims=[64,32]",
    "phase1.decoder.hidden_dims=[32,64]",
    "phase1.encoder.activation=tanh",
    "phase1.decoder.activation=tanh",
    "trainer.epochs=20",
    "data.batch_size=64",
    "trainer.device=cpu",
    "logging.make_plots=false",
)
"""Of the loop, for all tables."""
PCA_VARIANCES = (0.5, 0.7)
"""PCA keeps the components that explain such a share of the variance."""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of .npz files with X and y")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--settings", default=shlex.join(SETTINGS), help="overrides of the loop")
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.npz"))
    if not paths:
        parser.error(f"{options.folder} has no .npz files; name the folder of the tables")
    torch.set_num_threads(1)  # such small steps are faster on one thread
    settings = shlex.split(options.settings)
    methods: dict[str, Callable[[Path, int], float]] = {
        "loop `ae`": partial(loop_auroc, settings),
        **{f"PCA, {share:.0%} of variance": partial(pca_auroc, share) for share in PCA_VARIANCES},
        "PCA, all components, whitened": whitened_auroc,
        "isolation forest": forest_auroc,
    }
    print(f"AUROC, mean ± standard deviation over {options.seeds} seeds of split and training.")
    print(f"The loop's setting: `{' '.join(settings)}`.\n")
    print("| table | " + " | ".join(methods) + " | above each PCA |")
    print("|---" * (len(methods) + 2) + "|")
    for path in paths:
        columns = [
            [score(path, seed) for seed in range(options.seeds)] for score in methods.values()
        ]
        print(table_row(path.stem.partition("_")[2] or path.stem, columns), flush=True)
    return 0


def table_row(name: str, columns: Sequence[Sequence[float]]) -> str:
    """One table's row: mean and spread of each method, and whether the first is above each PCA."""
    means = [statistics.mean(column) for column in columns]
    cells = [
        f"{mean:.3f} ± {statistics.pstdev(column):.3f}"
        for mean, column in zip(means, columns, strict=True)
    ]
    verdicts = ("yes" if means[0] > mean else "no" for mean in means[1:-1])
    return f"| {name} | {' | '.join(cells)} | {' / '.join(verdicts)} |"


def loop_auroc(settings: Sequence[str], path: Path, seed: int) -> float:
    """Train the loop and score the test rows by their reconstruction error."""
    from midstep.loops import compose
    from midstep.loops.composed.ae import train
    from midstep.models.autoencoder import build_from_config, reconstruction_errors
    from midstep.session.checkpoint.checkpoint_store import read_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        composed = compose(
            [
                "loop=ae",
                "data=npz",
                f"data.path={path.resolve()}",
                f"data.seed={seed}",
                f"trainer.seed={seed}",
                f"hydra.run.dir={run}",
                *settings,
            ]
        )
        train(composed)
        snapshot = read_checkpoint((run / "best_val").resolve())
    data = load_source(composed.config.data)
    model = build_from_config(composed.config.phase1, data.spec)
    model.load_state_dict(snapshot.states["model"])
    test = all_test_rows(data)
    with torch.no_grad():
        errors = reconstruction_errors(model.eval()(test).reconstruction, test, data.spec)["loss"]
    return auroc(test["label"].numpy(), errors.numpy())


def pca_auroc(variance: float, path: Path, seed: int) -> float:
    """The reconstruction error of PCA."""
    from sklearn.decomposition import PCA

    normal, rows, labels = read_rows(path, seed)
    model = PCA(variance).fit(normal)
    rebuilt = model.inverse_transform(model.transform(rows))
    return auroc(labels, np.square(rows - rebuilt).mean(axis=1))


def whitened_auroc(path: Path, seed: int) -> float:
    """The squared Mahalanobis distance: all components of PCA, each by its own variance."""
    from sklearn.decomposition import PCA

    normal, rows, labels = read_rows(path, seed)
    return auroc(labels, np.square(PCA(whiten=True).fit(normal).transform(rows)).sum(axis=1))


def forest_auroc(path: Path, seed: int) -> float:
    """Isolation forest with the settings of scikit-learn."""
    from sklearn.ensemble import IsolationForest

    normal, rows, labels = read_rows(path, seed)
    return auroc(labels, -IsolationForest(random_state=seed).fit(normal).score_samples(rows))


def read_rows(path: Path, seed: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """The normal half for training, the test rows and their labels, scaled as for the loop."""
    data = load_source(DataConfig(name="npz", path=str(path), seed=seed))
    test = all_test_rows(data)
    normal = [
        data.splits[name].__getitems__(range(len(data.splits[name])))["x"].numpy()
        for name in ("train", "val")
    ]
    return np.concatenate(normal), test["x"].numpy(), test["label"].numpy()


def all_test_rows(data: SourceData) -> dict[str, torch.Tensor]:
    """All rows of the test split."""
    return dict(data.splits["test"].__getitems__(range(len(data.splits["test"]))))


def auroc(labels: NDArray[np.int64], scores: Floats) -> float:
    """The chance that an anomaly has a higher score than a normal row."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores))


if __name__ == "__main__":
    raise SystemExit(main())
