from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pytest
import torch

from midstep.server.responses import json_bytes
from midstep.server.step_views.step_data_json import encode_step_data, tensors_within
from midstep.server.step_views.step_schemas import TensorSummary


class Rude:
    def __repr__(self):
        raise RuntimeError("no")


def nested(depth):
    made = inner = []
    for _ in range(depth):
        inner.append([])
        inner = inner[0]
    return made


def itself():
    made = {"a": 1}
    made["self"] = made
    return made


ODD = {
    "complex": 1 + 2j,
    "bytes": b"\x00\xff" * 1000,
    "datetime": datetime(2026, 1, 2, tzinfo=UTC),
    "itself": itself(),
    "ten megabytes": "x" * 10_000_000,
    "lone surrogate": "\ud800",
    "deep": nested(5000),
    "wide": list(range(1_000_000)),
    "huge integer": 10**10_000,
    "object": object(),
    "rude": Rude(),
    "set": {3, 1},
    "numpy scalar": np.float32(1.5),
    "complex tensor": torch.tensor([1 + 2j]),
    "bfloat16": torch.ones(2, dtype=torch.bfloat16),
    "bool": torch.tensor([True]),
    "meta": torch.empty(4, device="meta"),
    "sparse": torch.eye(3).to_sparse(),
    "strings": np.array(["a", "b"]),
    "objects": np.array([object()], dtype=object),
    "gradient": torch.ones(2, requires_grad=True),
    "empty": torch.empty(0, 3),
    "many keys": {str(i): i for i in range(100_000)},
    "keys": {(1, 2): 3, None: 4},
    "class": int,
}


@pytest.mark.parametrize("name", ODD)
def test_odd_step_data_is_encoded_bounded_and_strict(name):
    out = encode_step_data(ODD[name])
    text = json_bytes(out)
    assert len(text) < 2_000_000
    json.loads(text, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "name", ["bytes", "itself", "ten megabytes", "deep", "wide", "object", "rude", "meta", "sparse"]
)
def test_what_was_changed_is_said_in_a_note(name):
    assert encode_step_data(ODD[name])["note"]


def test_plain_values_have_no_note():
    value = {"a": [1, 2.5, None, True, "x"], "t": torch.tensor([[1.0, 2.0]])}
    out = encode_step_data(value)
    assert out == {
        "data": {"a": [1, 2.5, None, True, "x"], "t": [[1.0, 2.0]]},
        "summarised": False,
        "note": None,
    }


def test_non_finite_values_are_strings():
    out = encode_step_data({"x": float("nan"), "t": torch.tensor([float("inf"), float("-inf")])})
    assert out["data"] == {"x": "NaN", "t": ["Infinity", "-Infinity"]}
    assert out["nonfinite"] == ["/data/x", "/data/t"]


def test_tensors_beyond_65536_elements_are_summarised_unless_full():
    tensor = torch.arange(65_537, dtype=torch.float32)
    assert encode_step_data(tensor[:-1])["summarised"] is False
    summary = encode_step_data(tensor)
    assert summary["summarised"] is True
    TensorSummary.model_validate(summary["data"])
    assert summary["data"]["mean"] == pytest.approx(32_768)
    assert len(encode_step_data(tensor, full=True)["data"]) == 65_537


def test_summary_equals_the_plain_formulas_over_finite_values():
    values = np.random.default_rng(0).normal(5, 3, 3_000_000)
    values[::1000] = np.nan
    out = encode_step_data(values)["data"]
    finite = values[np.isfinite(values)]
    assert out["finite"] == finite.size
    assert out["mean"] == pytest.approx(finite.mean())
    assert out["std"] == pytest.approx(finite.std())
    assert (out["min"], out["max"]) == (finite.min(), finite.max())


def test_full_json_stays_bounded_and_names_the_other_format():
    out = encode_step_data(torch.zeros(4_000_001), full=True)
    assert out["summarised"]
    assert "safetensors" in out["note"]


def test_tensors_are_found_by_dotted_name():
    value = {"a": torch.ones(2), "b": [torch.zeros(1), "x"], "c": torch.tensor([1j])}
    assert set(tensors_within(value, "hook")) == {"hook.a", "hook.b.0"}
