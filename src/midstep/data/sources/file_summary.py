"""What a data file holds: kind, sizes, splits, ranges, units and fingerprint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from midstep.core.errors import FormatError
from midstep.data.sources.data_config import DataConfig, existing_file

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
ZIP_MAGIC = b"PK\x03\x04"


def summarize_file(path: Path) -> dict[str, Any]:
    """A summary of an HDF5 file of events or of an .npz table, as JSON values.

    Raises:
        ConfigError: there is no such file.
        FormatError: it is of neither kind, or damaged.
    """
    with existing_file(path).open("rb") as file:
        start = file.read(len(HDF5_MAGIC))
    if start == HDF5_MAGIC:
        return {"kind": "events", "bytes": path.stat().st_size, **_summarize_events(path)}
    if start.startswith(ZIP_MAGIC):
        return {"kind": "table", "bytes": path.stat().st_size, **_summarize_table(path)}
    raise FormatError(f"{path} is neither an HDF5 file of events nor an .npz table")


def _summarize_events(path: Path) -> dict[str, Any]:
    from midstep.data.sources.h5_events import scan_events

    scan = scan_events(path)
    spec = scan.spec
    return {
        "n_tokens": spec.n_tokens,
        "cont_dim": spec.cont_dim,
        "globals": spec.globals,
        "num_types": spec.num_types,
        "classes": spec.classes,
        "splits": dict(scan.counts),
        "ranges": dict(scan.ranges),
        **scan.description,
        "data_fingerprint": scan.fingerprint,
    }


def _summarize_table(path: Path) -> dict[str, Any]:
    from midstep.data.sources.npz_tables import build_npz, read_table

    values = read_table(path)["X"]
    config = DataConfig(name="npz", path=str(path))
    meta = build_npz(config).meta
    return {
        "rows": len(values),
        "features": meta["features"],
        "splits": meta["splits"],
        "anomalies": meta["anomalies"],
        "ranges": {"X": {"min": values.min(axis=0).tolist(), "max": values.max(axis=0).tolist()}},
        "seed": config.seed,
        "data_fingerprint": meta["data_fingerprint"],
    }
