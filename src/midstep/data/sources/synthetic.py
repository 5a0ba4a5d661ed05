"""Generated collision events: a pure function of seed and number, with planted anomalies in test.

Two parents fly apart back to back and decay into tokens (jets, muons, electrons, photons). One of
four processes decides which tokens there are and how they share the momentum. About ten numbers
describe an event, so an autoencoder can learn it; its tokens have 72 values.

Anomalies keep plausible values and break a relation: the parents are not back to back, the energy
does not fit the momentum, or the types do not fit the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from midstep.core.random_streams import RandomStream
from midstep.core.sample_spec import SampleSpec
from midstep.data.sources.data_config import DataConfig
from midstep.data.sources.normalisation import EventMoments
from midstep.data.sources.source_data import (
    SPLITS,
    SourceData,
    Split,
    hash_parts,
    in_memory,
)

Floats = NDArray[np.float64]

VERSION = 1
"""Part of the fingerprint; changes whenever the same seed gives other events."""
N_TOKENS = 18
TYPE_NAMES = ("padding", "jet", "muon", "electron", "photon")
MASSES_GEV = np.array([0.0, 5.0, 0.106, 0.0005, 0.0])
JET, MUON, ELECTRON, PHOTON = range(1, 5)
PROCESSES = (
    ((JET,) * 6, (JET,) * 6),
    ((JET,) * 5 + (MUON,), (JET,) * 3 + (ELECTRON,) * 2),
    ((MUON,) * 2 + (JET,) * 2, (ELECTRON,) * 2 + (JET,) * 2),
    ((PHOTON,) * 3 + (JET,) * 6, (PHOTON,) * 2 + (JET,) * 7),
)
"""Types of the tokens of both parents, for each process."""
ANOMALY_KINDS = ("directions", "energies", "types")
NORMAL = -1
ANOMALY_SHARE = 0.1
"""Share of anomalies in the split test; train and val have none."""
SHARES: Mapping[Split, float] = MappingProxyType({"train": 0.8, "val": 0.1, "test": 0.1})
SPREAD = 0.3
"""Distance of the tokens from the direction of their parent, in radians."""
NOISE = 0.02
"""Relative error of the momentum of a token."""
MISSING_NOISE_GEV = 0.5


def build_synthetic(cfg: DataConfig) -> SourceData:
    """Events of the config's seed, `n_events` of them in all three splits together."""
    events = {name: generate_events(cfg.seed, name, count) for name, count in _counts(cfg).items()}
    moments = EventMoments()
    moments.add(events["train"])
    normalisation = moments.normalisation
    columns = {
        name: {key: torch.from_numpy(value) for key, value in normalisation.apply(each).items()}
        for name, each in events.items()
    }
    spec = SampleSpec(
        kind="events",
        n_tokens=N_TOKENS,
        cont_dim=4,
        globals=2,
        num_types=len(TYPE_NAMES),
    )
    return in_memory(
        spec,
        columns,
        hash_parts("synthetic", VERSION, cfg.seed, cfg.n_events),
        {
            "source": "synthetic",
            "normalisation": normalisation.to_json(),
            "units": {"tokens_cont": ["GeV"] * 4, "globals": ["GeV"] * 2},
            "token_features": ["px", "py", "pz", "E"],
            "global_features": ["missing px", "missing py"],
            "type_names": list(TYPE_NAMES),
            "anomalies": {"test": int(events["test"]["label"].sum()), "kinds": list(ANOMALY_KINDS)},
        },
    )


def _counts(cfg: DataConfig) -> dict[Split, int]:
    counts = {name: max(1, round(cfg.n_events * SHARES[name])) for name in SPLITS}
    return {**counts, "train": cfg.n_events - counts["val"] - counts["test"]}


def generate_events(seed: int, split: Split, count: int) -> dict[str, NDArray[Any]]:
    """Raw events of one split in GeV: `tokens_cont`, `tokens_id`, `globals` and `label`.

    >>> int(generate_events(0, "test", 50)["label"].sum())
    5
    """
    stream = RandomStream(seed, f"synthetic.{split}")
    uniform = _uniform(stream.child("uniform"), count, 6)
    normal = _normal(stream.child("normal"), count, 8 + N_TOKENS)
    kinds = np.full(count, NORMAL)
    if split == "test":
        planted = np.argsort(uniform[:, 5], kind="stable")[: round(count * ANOMALY_SHARE)]
        kinds[planted] = np.arange(len(planted)) % len(ANOMALY_KINDS)
    process = (uniform[:, 0] * len(PROCESSES)).astype(np.int64)
    tokens = np.zeros((count, N_TOKENS, 4))
    ids = np.zeros((count, N_TOKENS), dtype=np.int64)
    parents = _parents(uniform, normal, kinds)
    for number, types in enumerate(PROCESSES):
        rows = np.flatnonzero(process == number)
        tokens[rows], ids[rows] = _decay(types, parents[:, rows], normal[rows, 8:])
    missing = -tokens[:, :, :2].sum(axis=1) + MISSING_NOISE_GEV * normal[:, 6:8]
    _break_energies(tokens, ids, kinds == ANOMALY_KINDS.index("energies"))
    _break_types(ids, kinds == ANOMALY_KINDS.index("types"))
    return {
        "tokens_cont": tokens.astype(np.float32),
        "tokens_id": ids,
        "globals": missing.astype(np.float32),
        "label": (kinds != NORMAL).astype(np.int64),
    }


def _uniform(stream: RandomStream, rows: int, columns: int) -> Floats:
    return stream.uniform_at(np.arange(rows * columns)).reshape(rows, columns)


def _normal(stream: RandomStream, rows: int, columns: int) -> Floats:
    """Normal numbers by Box and Muller: NumPy may change its own method between versions."""
    radius = np.sqrt(-2.0 * np.log1p(-_uniform(stream.child("radius"), rows, columns)))
    angle = 2.0 * np.pi * _uniform(stream.child("angle"), rows, columns)
    return np.asarray(radius * np.cos(angle))


def _parents(uniform: Floats, normal: Floats, kinds: NDArray[np.int64]) -> Floats:
    """Momentum, pseudorapidity, azimuth and decay angle of both parents, [2, events, 4]."""
    momentum = 100.0 * np.exp(0.3 * normal[:, 0])
    azimuth = 2.0 * np.pi * uniform[:, 1]
    opening = np.pi + 0.1 * normal[:, 4]
    # A right angle on either side: the second parent takes a direction that normal events never
    # have relative to the first one.
    sideways = np.pi / 2 * np.where(uniform[:, 4] < 0.5, -1.0, 1.0)
    opening += np.where(kinds == ANOMALY_KINDS.index("directions"), sideways, 0.0)
    first = (momentum, 0.7 * normal[:, 2], azimuth, 2.0 * np.pi * uniform[:, 2])
    second = (
        momentum * np.exp(0.1 * normal[:, 1]),
        0.7 * normal[:, 3],
        azimuth + opening,
        2.0 * np.pi * uniform[:, 3],
    )
    return np.stack([np.stack(first, axis=1), np.stack(second, axis=1)])


def _decay(
    types: tuple[tuple[int, ...], tuple[int, ...]], parents: Floats, noise: Floats
) -> tuple[Floats, NDArray[np.int64]]:
    """Tokens of one process: those of the first parent, of the second, then padding."""
    count = parents.shape[1]
    tokens = np.zeros((count, N_TOKENS, 4))
    ids = np.zeros((count, N_TOKENS), dtype=np.int64)
    slot = 0
    for parent, members in zip(parents, types, strict=True):
        fractions = 1.0 / np.arange(2, len(members) + 2)
        fractions /= fractions.sum()
        for index, kind in enumerate(members):
            angle = parent[:, 3] + 2.0 * np.pi * index / len(members)
            momentum = parent[:, 0] * fractions[index] * (1.0 + NOISE * noise[:, slot])
            rapidity = parent[:, 1] + SPREAD * np.cos(angle)
            azimuth = parent[:, 2] + SPREAD * np.sin(angle)
            tokens[:, slot] = four_momentum(momentum, rapidity, azimuth, MASSES_GEV[kind])
            ids[:, slot] = kind
            slot += 1
    return tokens, ids


def four_momentum(momentum: Floats, rapidity: Floats, azimuth: Floats, mass: float) -> Floats:
    """px, py, pz and E from transverse momentum, pseudorapidity and azimuth, [N, 4]."""
    along = momentum * np.sinh(rapidity)
    energy = np.sqrt(momentum**2 + along**2 + mass**2)
    return np.stack([momentum * np.cos(azimuth), momentum * np.sin(azimuth), along, energy], axis=1)


def _break_energies(tokens: Floats, ids: NDArray[np.int64], chosen: NDArray[np.bool_]) -> None:
    """Energies that do not fit the momenta: the first token gets that of the last, and so on."""
    for row in np.flatnonzero(chosen):
        real = np.flatnonzero(ids[row])
        tokens[row, real, 3] = tokens[row, real[::-1], 3]


def _break_types(ids: NDArray[np.int64], chosen: NDArray[np.bool_]) -> None:
    """Each type becomes the next one: no process has such a set of types in this order."""
    ids[chosen] = np.where(ids[chosen] > 0, ids[chosen] % PHOTON + 1, 0)
