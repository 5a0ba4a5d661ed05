"""Answers: strict JSON and safetensors bytes, made in the thread that asked for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from midstep.core import strict_json

_encoder = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def json_bytes(value: Any) -> bytes:
    """Strict JSON of `value`; what plain JSON cannot hold goes through `strict_json.plain`.

    >>> json_bytes({"loss": float("nan")})
    b'{"loss":"NaN"}'
    """
    try:
        return _encoder.encode(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        return strict_json.dumps(value).encode("utf-8")


class StrictJsonResponse(JSONResponse):
    """A JSON answer in which NaN and the infinities are strings."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json_bytes(content)


class SafetensorsResponse(Response):
    """Tensors as bytes; `tensors` are numpy arrays or torch tensors by name."""

    media_type = "application/octet-stream"

    def __init__(
        self, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(_safetensors(tensors, metadata))


def _safetensors(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> bytes:
    """The file's bytes; torch tensors keep their type (bfloat16 too), arrays go as they are."""
    if any(hasattr(value, "detach") for value in tensors.values()):
        from safetensors.torch import save

        return save(_own_storage(tensors), metadata=dict(metadata or {}))
    from safetensors.numpy import save as save_arrays

    # It writes the memory as it lies, so that a slice or a transposed array comes out scrambled.
    rows = {name: value.copy(order="C") for name, value in tensors.items()}
    return save_arrays(rows, metadata=dict(metadata or {}))


def _own_storage(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Safetensors refuses tensors that share memory or are not contiguous; copies are neither."""
    import torch

    return {
        name: torch.as_tensor(value).detach().cpu().contiguous().clone()
        for name, value in tensors.items()
    }
