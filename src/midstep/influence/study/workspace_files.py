"""Workspaces and request results on disk.

Each is a folder `X` with JSON and arrays, and a folder `X.batch` with its sequences.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.errors import FormatError
from midstep.influence.array_folders import ArrayFolder
from midstep.influence.fingerprints import KernelFingerprint
from midstep.influence.sampling.batch_files import load_batch, save_batch
from midstep.influence.study.plan import FisherKernelPlan
from midstep.influence.study.results import Contributor, RequestResult
from midstep.influence.study.workspace import KernelWorkspace, StepFactors

if TYPE_CHECKING:
    from torch import Tensor


_FILES = {"json_name": "data.json", "array_name": "arrays.safetensors"}
_WORKSPACE = ArrayFolder(format_tag="midstep.kernel_workspace/1", **_FILES)
_REQUEST = ArrayFolder(format_tag="midstep.kernel_request/1", **_FILES)
_OPTIONAL = ("norms", "raw_norms", "kernel_eu", "token_delta")


def _digest_in(description: Mapping[str, Any]) -> object:
    return description.get("arrays_blake2b")


def batch_folder(path: str | os.PathLike[str]) -> Path:
    """The folder with the sequences of a workspace or request, next to its own."""
    return Path(f"{os.fspath(path)}.batch")


def serialize_workspace(workspace: KernelWorkspace, path: str | os.PathLike[str]) -> Path:
    """Write sequences, norms, K(U,U), fingerprint and, where they are stored, gradients."""
    _ensure_batch(workspace.batch, path)
    arrays = {
        "kernel_uu": workspace.kernel_uu,
        "norms": workspace.norms,
        "raw_norms": workspace.raw_norms,
        **{f"delta/{name}": values for name, values in workspace.delta_u.items()},
    }
    for sequence_id in workspace.batch.sequence_ids:
        gradients = workspace.caches[sequence_id].resident or {}
        arrays |= {f"gradient/{sequence_id}/{name}": grad for name, grad in gradients.items()}
    data = {
        "plan": workspace.plan.to_json(),
        "fingerprint": asdict(workspace.fingerprint),
        "step": asdict(workspace.step),
        "coverage": workspace.coverage,
        "notes": workspace.notes,
    }
    return _WORKSPACE.write(path, arrays, lambda digest: {"arrays_blake2b": digest, **data})


def _ensure_batch(batch: Any, path: str | os.PathLike[str]) -> None:
    """Write the batch, unless the study has: it saves a batch as soon as it is sampled."""
    if not batch_folder(path).exists():
        save_batch(batch, batch_folder(path))


def load_workspace(path: str | os.PathLike[str]) -> KernelWorkspace:
    """Read a workspace. `runner.load_workspace` also binds it to its model, for new questions."""
    data, arrays = _WORKSPACE.read(path, _digest_in)
    try:
        fingerprint = data["fingerprint"]
        betas = tuple(fingerprint["betas"]) if fingerprint["betas"] else None
        workspace = KernelWorkspace(
            batch=load_batch(batch_folder(path)),
            plan=FisherKernelPlan.from_mapping(data["plan"]),
            fingerprint=KernelFingerprint(**{**fingerprint, "betas": betas}),
            step=StepFactors(**data["step"]),
            kernel_uu=arrays["kernel_uu"],
            delta_u=_arrays_under(arrays, "delta/"),
            norms=arrays["norms"],
            raw_norms=arrays["raw_norms"],
            coverage=data["coverage"],
            notes=data["notes"],
        )
    except (KeyError, TypeError) as error:
        raise FormatError(f"{os.fspath(path)} is not a complete workspace: {error}") from None
    for sequence_id in workspace.batch.sequence_ids:
        gradients = _arrays_under(arrays, f"gradient/{sequence_id}/")
        workspace.caches[sequence_id].resident = gradients or None
    return workspace


def _arrays_under(arrays: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): values
        for name, values in arrays.items()
        if name.startswith(prefix)
    }


def save_request(result: RequestResult, path: str | os.PathLike[str]) -> Path:
    """Write the result of one request."""
    _ensure_batch(result.batch, path)
    arrays = {f"delta/{name}": values for name, values in result.delta.items()}
    for name in _OPTIONAL:
        if getattr(result, name) is not None:
            arrays[name] = getattr(result, name)
    data = {
        "name": result.name,
        "kind": result.kind,
        "notes": result.notes,
        "contributors": [[asdict(one) for one in row] for row in result.contributors],
    }
    return _REQUEST.write(path, arrays, lambda digest: {"arrays_blake2b": digest, **data})


def load_request(path: str | os.PathLike[str]) -> RequestResult:
    """Read the result of one request."""
    data, arrays = _REQUEST.read(path, _digest_in)
    try:
        return RequestResult(
            name=data["name"],
            kind=data["kind"],
            batch=load_batch(batch_folder(path)),
            delta=_arrays_under(arrays, "delta/"),
            # `strict_json` writes NaN as the text "NaN"; `float` reads it back.
            contributors=[
                [Contributor(**{**one, "cosine": float(one["cosine"])}) for one in row]
                for row in data["contributors"]
            ],
            notes=data["notes"],
            **{name: arrays.get(name) for name in _OPTIONAL},
        )
    except (KeyError, TypeError) as error:
        raise FormatError(f"{os.fspath(path)} is not a complete result: {error!r}") from None
