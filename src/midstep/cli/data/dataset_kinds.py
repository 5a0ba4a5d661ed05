"""Read and check datasets that are not for steering: cluster labels and triplets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from midstep.cli.output.screen import Screen
from midstep.core import strict_json
from midstep.core.errors import DatasetError, FormatError
from midstep.core.files.untrusted_files import read_plain

MOST_RECORD_BYTES = 16 << 20
"""A larger build.json is refused before memory is taken for it."""


def read_other_kind(folder: Path) -> dict[str, Any] | None:
    """Describe a folder of cluster labels or triplets; None for anything else."""
    if (folder / "dataset.db").is_file():
        return {"kind": "cluster", "parts": {folder.name: _describe_cluster(folder, verify=False)}}
    record = _read_build_record(folder)
    paths = _part_paths(folder, record.get("kind"))
    if record.get("kind") == "cluster":
        parts = {name: _describe_cluster(path, verify=False) for name, path in paths.items()}
    elif record.get("kind") == "triplets":
        parts = {name: {"triplets": _count_lines(path)} for name, path in paths.items()}
    else:
        return None
    encoder = record.get("encoder")
    name = encoder.get("name") if isinstance(encoder, dict) else None
    described = {"kind": record["kind"], "parts": parts}
    return {**described, "encoder": name} if isinstance(name, str) else described


def check_parts(folder: Path, kind: str) -> dict[str, int]:
    """Check every checksum, label and line; return the number of samples of each part."""
    from midstep.data.rag.triplets import read_triplets

    if kind == "triplets":
        # Reading a line checks it.
        paths = _part_paths(folder, kind)
        return {name: sum(1 for _ in read_triplets(path)) for name, path in paths.items()}
    is_part = (folder / "dataset.db").is_file()
    paths = {folder.name: folder} if is_part else _part_paths(folder, kind)
    return {name: _describe_cluster(path, verify=True)["samples"] for name, path in paths.items()}


def print_other_kind(screen: Screen, folder: Path, described: dict[str, Any]) -> None:
    """Print a description of `read_other_kind`, one line for each split."""
    content = "cluster labels" if described["kind"] == "cluster" else "triplets"
    encoder = f", encoder {described['encoder']}" if "encoder" in described else ""
    screen.print_line(f"{folder}  {content}{encoder}")
    for name, part in described["parts"].items():
        if described["kind"] == "triplets":
            screen.print_line(
                f"{name}: {part['triplets']:,} triplets; read them with read_triplets"
            )
            continue
        screen.print_line(
            f"{name}: {part['samples']:,} samples, {part['n_clusters']:,} clusters, "
            f"D = {part['embedding_dim']}; the surest label has a share of {part['surest']:.2f}, "
            f"the mean one {part['mean_share']:.2f}"
        )


def _read_build_record(folder: Path) -> dict[str, Any]:
    # A folder with config.json is a steering dataset, although its builder left a build.json too.
    if (folder / "config.json").is_file():
        return {}
    try:
        record = strict_json.loads(read_plain(folder / "build.json", MOST_RECORD_BYTES))
    except FormatError as error:
        raise DatasetError(f"{folder / 'build.json'} is {error}") from None
    except OSError:
        return {}
    return record if isinstance(record, dict) else {}


def _part_paths(folder: Path, kind: str | None) -> dict[str, Path]:
    from midstep.data.steering.storage.layout import SPLITS

    suffix = ".jsonl" if kind == "triplets" else ""
    paths = {name: folder / f"{name}{suffix}" for name in SPLITS}
    return {name: path for name, path in paths.items() if path.exists()}


def _describe_cluster(folder: Path, *, verify: bool) -> dict[str, Any]:
    from midstep.data.cluster_labels.cluster_dataset import ClusterLabeledDataset

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


def _count_lines(path: Path) -> int:
    from midstep.data.text.text_files import read_lines

    return sum(1 for _ in read_lines(path))
