"""results.json: everything that the page and notebooks show, as strict JSON.

Reading it loads neither torch nor numpy, because the server lists results without them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core import strict_json
from midstep.core.errors import FormatError, StorageError
from midstep.core.files.untrusted_files import read_plain
from midstep.core.version import __version__

if TYPE_CHECKING:
    from midstep.influence.study.results import FisherKernelResults
    from midstep.influence.study.workspace import KernelWorkspace

FORMAT = "midstep.influence/1"
MOST_RESULT_BYTES = 256 << 20
"""A larger file is refused before memory is taken for it."""


def check_types(validation: Mapping[str, Any]) -> str:
    """The types that a validation was made in, in words. Older results do not say them."""
    copies = f"{validation.get('dtype') or 'float'} copies of weights and state"
    rounding = validation.get("rounding")
    if rounding is None:
        return copies
    return f"{copies}; the study's own prediction differs by {float(rounding):.2%} (rounding)"


def read_results_json(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The results of a finished run."""
    file = Path(directory) / "results.json"
    try:
        document = strict_json.loads(read_plain(file.resolve(), MOST_RESULT_BYTES))
    except OSError as error:
        raise StorageError(
            f"cannot read {file}: {error.strerror}; give the folder of a finished run, or start "
            "the same plan again to finish it"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"{file} does not hold results of format {FORMAT}")
    return document


MAX_JSON_ENTRIES = 4096
"""Kernels with at most this many entries are in the JSON too; larger ones only in the arrays."""


def results_json(results: FisherKernelResults) -> dict[str, Any]:
    """The content of results.json."""
    workspace = results.workspace
    document = {
        "format": FORMAT,
        "midstep": __version__,
        "name": workspace.plan.name,
        "step": workspace.fingerprint.optimizer_step,
        "config": dict(results.config),
        "plan": workspace.plan.to_json(),
        "fingerprint": asdict(workspace.fingerprint),
        "update": _update(workspace),
        "self_kernel": results.self_kernel.to_json() if results.self_kernel else None,
        "requests": [
            {
                **one.to_json(workspace.batch, workspace.norms),
                "kernel_eu": _if_small(one.kernel_eu),
            }
            for one in results.requests
        ],
        "validation": results.validation,
    }
    plain: dict[str, Any] = strict_json.plain(document)
    return plain


def _update(workspace: KernelWorkspace) -> dict[str, Any]:
    return {
        "sampling": dict(workspace.batch.diagnostics),
        "step": asdict(workspace.step),
        "coverage": dict(workspace.coverage),
        "notes": dict(workspace.notes),
        "kernel_uu": _if_small(workspace.kernel_uu),
        "sequences": [_sequence(workspace, at) for at in range(len(workspace.batch))],
    }


def _sequence(workspace: KernelWorkspace, at: int) -> dict[str, Any]:
    record = workspace.batch.records[at]
    return {
        **record.summary(),
        "advantage": record.advantage,
        "normaliser": record.normaliser,
        "weight": record.weight,
        "norm": workspace.norms[at].item(),
        "raw_norm": workspace.raw_norms[at].item(),
        "delta": {name: values[at].item() for name, values in workspace.delta_u.items()},
    }


def _if_small(kernel: Any) -> Any:
    return kernel if kernel is not None and kernel.numel() <= MAX_JSON_ENTRIES else None


def load_results(directory: str | os.PathLike[str]) -> FisherKernelResults:
    """The results of a finished run with all arrays.

    `what_if` works; new requests need a runner.
    """
    from midstep.influence.study.results import FisherKernelResults, build_self_kernel
    from midstep.influence.study.workspace_files import load_request, load_workspace

    folder = Path(directory)
    document = read_results_json(folder)
    workspace = load_workspace(folder / "workspace")
    request_folders = sorted(
        one for one in (folder / "requests").iterdir() if one.suffix != ".batch"
    )
    return FisherKernelResults(
        workspace=workspace,
        requests=tuple(load_request(request_folder) for request_folder in request_folders),
        self_kernel=build_self_kernel(workspace, capture_full=False)
        if workspace.plan.self_kernel
        else None,
        validation=document["validation"],
        config=document["config"],
        directory=folder,
    )
