"""Takes clocks and the machine out of the facts of a run, so that golden files are neutral.

It relies on the documented bytes of `docs/facts-format.md` alone: every event is one JSON object a
line that ends in its CRC, every row is a frame that begins with its CRC.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any
from zlib import crc32

from midstep.facts import write_scalars_csv

__all__ = ["BEGAN", "NO_PROCESS", "scrub_lease", "scrub_run"]

BEGAN = 1_767_225_600.0
"""2026-01-01 00:00 UTC: golden runs begin here, and each record comes a quarter second later."""
_APART_S = 0.25
NO_PROCESS = 2**30
"""No process has this id: Linux counts up to 2^22, macOS to 99,999."""
_HEADER = {
    "host": "golden",
    "pid": 4711,
    "platform": "Linux",
    "versions": {"python": "3.11.0", "torch": "2.13.0", "midstep": "0.1.0"},
    "argv": ["python", "train.py"],
    "cwd": "golden",
    "git": {"commit": "0" * 40, "dirty": False},
}
_MEASURED = {
    "total_time_s": 8.0,
    "epoch_time_s": 2.0,
    "duration_s": 0.125,
    "throughput": 64.0,
    "max_memory_mib": 256.0,
    "took_s": 0.0625,
    "traceback": "Traceback (most recent call last):\n  ...\n",
}
_MEASURED_SCALARS = {
    "step_time_s": 0.25,
    "throughput": 16.0,
    "host_memory_mib": 256.0,
    "cpu_percent": 50.0,
    "device_utilisation_percent": 50.0,
}


def scrub_run(run_dir: Path, run_id: str) -> None:
    """Rewrite events and rows of a run that nobody writes, and remove lock and lease."""
    facts = run_dir / "facts"
    for path in sorted(facts.glob("events*.jsonl")):
        lines = path.read_bytes().splitlines()
        path.write_bytes(b"".join(_line(json.loads(line), run_id) for line in lines))
    for path in sorted(facts.glob("steps*.bin")):
        path.write_bytes(_steps(bytearray(path.read_bytes()), run_id))
    for path in (facts / ".lock", run_dir / "lease.json"):
        path.unlink(missing_ok=True)
    if (facts / "scalars.csv").exists():  # derived from the events
        write_scalars_csv(run_dir)


def _line(record: dict[str, Any], run_id: str) -> bytes:
    del record["crc"]
    record |= {"wall": _wall(record["seq"]), "mono": _mono(record["seq"]), "run_id": run_id}
    if record["moment"] == "on_start":
        record |= {name: value for name, value in _HEADER.items() if name in record}
    _set_measured(record)
    body = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
    return body + b',"crc":"%08x"}\n' % crc32(body)


def _set_measured(part: dict[str, Any]) -> None:
    for name, value in part.items():
        if isinstance(value, dict):
            _set_measured(value)
        elif name in _MEASURED and value is not None:
            part[name] = _MEASURED[name]


def _wall(seq: int) -> float:
    return BEGAN + _APART_S * seq


def _mono(seq: int) -> float:
    return 1000.0 + _APART_S * seq


def _steps(data: bytearray, run_id: str) -> bytes:
    struct.pack_into("<32s", data, 24, run_id.encode())
    struct.pack_into("<I", data, 60, crc32(data[:60]))
    layouts: dict[int, list[str]] = {}
    offset = 64
    while offset < len(data):
        _, size, what = struct.unpack_from("<III", data, offset)
        if what == 0x8000_0001:
            _, _, identity, _, length = struct.unpack_from("<IIIII", data, offset + 4)
            layouts[identity] = json.loads(data[offset + 24 : offset + 24 + length])
        elif what < 0x8000_0000:
            (seq,) = struct.unpack_from("<Q", data, offset + 16)
            struct.pack_into("<dd", data, offset + 32, _wall(seq), _mono(seq))
            for at, name in enumerate(layouts[what]):
                if name in _MEASURED_SCALARS:
                    struct.pack_into("<d", data, offset + 48 + 8 * at, _MEASURED_SCALARS[name])
            struct.pack_into("<I", data, offset, crc32(data[offset + 4 : offset + size]))
        else:
            raise ValueError("a golden run is too short to have a seal")
        offset += size
    return bytes(data)


def scrub_lease(lease: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A lease of another host, with neutral clocks."""
    neutral = {
        "pid": NO_PROCESS,
        "host": "elsewhere",
        "boot_id": "00000000-0000-4000-8000-000000000000",
        "started": BEGAN,
        "heartbeat": 5,
        "heartbeat_wall": BEGAN + 5,
        "heartbeat_mono": 1005.0,
        "boundary_wall": BEGAN + 5,
        "boundary_mono": 1005.0,
    }
    return {**lease, **{name: value for name, value in neutral.items() if name in lease}, **fields}
