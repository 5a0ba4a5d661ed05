"""Datasets that are not for steering, looked at and checked: cluster labels, triplets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from midstep.cli.screen import Screen
from midstep.core import strict_json
from midstep.core.errors import DatasetError, FormatError

__all__ = ["checked_parts", "other_kind", "say_other_kind"]


def other_kind(folder: Path) -> dict[str, Any] | None:
    """What a folder of cluster labels or of triplets holds; None for anything else."""
    if (folder / "dataset.db").is_file():
        return {"kind": "cluster", "parts": {folder.name: _cluster(folder, verify=False)}}
    told = _build(folder)
    parts = _parts(folder, told.get("kind"))
    if told.get("kind") == "cluster":
        found = {name: _cluster(path, verify=False) for name, path in parts.items()}
    elif told.get("kind") == "triplets":
        found = {name: {"triplets": _lines(path)} for name, path in parts.items()}
    else:
        return None
    return {"kind": told["kind"], "parts": found, "encoder": told["encoder"]["name"]}


def checked_parts(folder: Path, kind: str) -> dict[str, int]:
    """How many samples each part has, every checksum, label and line of it checked."""
    if kind == "triplets":
        return {name: _triplets(path) for name, path in _parts(folder, kind).items()}
    parts = {folder.name: folder} if (folder / "dataset.db").is_file() else _parts(folder, kind)
    return {name: _cluster(path, verify=True)["samples"] for name, path in parts.items()}


def say_other_kind(screen: Screen, folder: Path, told: dict[str, Any]) -> None:
    """For people: a line for each split."""
    of = "cluster labels" if told["kind"] == "cluster" else "triplets"
    encoder = f", encoder {told['encoder']}" if "encoder" in told else ""
    screen.say(f"{folder}  {of}{encoder}")
    for name, part in told["parts"].items():
        if told["kind"] == "triplets":
            screen.say(f"{name}: {part['triplets']:,} triplets; read them with read_triplets")
            continue
        screen.say(
            f"{name}: {part['samples']:,} samples, {part['n_clusters']:,} clusters, "
            f"D = {part['embedding_dim']}; the surest label has a share of {part['surest']:.2f}, "
            f"the mean one {part['mean_share']:.2f}"
        )


def _build(folder: Path) -> dict[str, Any]:
    if (folder / "config.json").is_file():  # a steering dataset, which speaks for itself
        return {}
    try:
        told = strict_json.loads((folder / "build.json").read_bytes())
    except FormatError as error:
        raise DatasetError(f"{folder / 'build.json'} is {error}") from None
    except OSError:
        return {}
    return told if isinstance(told, dict) else {}


def _parts(folder: Path, kind: str | None) -> dict[str, Path]:
    from midstep.data.embedding.layout import SPLITS

    ending = ".jsonl" if kind == "triplets" else ""
    paths = {name: folder / f"{name}{ending}" for name in SPLITS}
    return {name: path for name, path in paths.items() if path.exists()}


def _cluster(folder: Path, *, verify: bool) -> dict[str, Any]:
    from midstep.data.embedding.cluster_labeled import ClusterLabeledDataset

    dataset = ClusterLabeledDataset(folder, verify=verify)
    try:
        share = dataset.labels.max(dim=1).values
        return {
            "samples": len(dataset),
            "n_clusters": dataset.n_clusters,
            "embedding_dim": dataset.embedding_dim,
            "surest": float(share.max()),
            "mean_share": float(share.mean()),
        }
    finally:
        dataset.close()


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _triplets(path: Path) -> int:
    from midstep.data.rag.triplets import read_triplets

    return sum(1 for _ in read_triplets(path))
