"""Responses of strict JSON and of safetensors, encoded in the thread of the request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from midstep.core import strict_json

BINARY: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}
"""For the OpenAPI document: the response may also be bytes."""
_encoder = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def json_bytes(value: Any) -> bytes:
    """Strict JSON of `value`; NaN and the infinities become strings.

    >>> json_bytes({"loss": float("nan")})
    b'{"loss":"NaN"}'
    """
    # Nearly all values are plain JSON, which the C encoder writes without a walk in Python.
    try:
        return _encoder.encode(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        return strict_json.dumps(value).encode("utf-8")


class StrictJsonResponse(JSONResponse):
    """A JSON response in which NaN and the infinities are strings."""

    def render(self, content: Any) -> bytes:
        """Encode the body."""
        return json_bytes(content)


class SafetensorsResponse(Response):
    """Tensors as safetensors bytes.

    Args:
        tensors: numpy arrays or torch tensors by name.
        metadata: texts by name, kept in the header of the file.
    """

    media_type = "application/octet-stream"

    def __init__(
        self, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(_safetensors(tensors, metadata))


def _safetensors(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> bytes:
    """The bytes of the file; torch tensors keep their type, also those that numpy lacks."""
    if any(hasattr(value, "detach") for value in tensors.values()):
        import torch
        from safetensors.torch import save

        # Contiguous copies: safetensors refuses tensors that share memory or are not contiguous.
        copies = {
            name: torch.as_tensor(value).detach().cpu().contiguous().clone()
            for name, value in tensors.items()
        }
        return save(copies, metadata=dict(metadata or {}))
    from safetensors.numpy import save as save_arrays

    # safetensors writes the memory of an array as it is: a slice or a transposed array would come
    # out scrambled.
    rows = {name: value.copy(order="C") for name, value in tensors.items()}
    return save_arrays(rows, metadata=dict(metadata or {}))
