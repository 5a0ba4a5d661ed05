"""Which module, parameter or sample is the first that is not finite, on models of every family."""

from __future__ import annotations

import base64
import copy
import math
import threading
from typing import Any

import pytest
import torch
from torch import nn

from midstep.explore.diagnosis.forward_trace import ForwardTracer, Origin, TraceEndedError
from midstep.explore.diagnosis.model_copy import CopyRefusedError, copy_module
from midstep.explore.diagnosis.planes import make_plane
from midstep.explore.diagnosis.sample_inputs import nonfinite_inputs

NAN, INF = float("nan"), float("inf")


class Log(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.log()


class Between(nn.Module):
    """Divides between two layers, in its own forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        zero = hidden - hidden
        return self.second(zero / zero)


class AtTheEnd(Between):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.second(self.first(x))
        return hidden.sign() * INF - hidden.sign() * INF


class Attention(nn.Module):
    """A causal mask of minus infinity is no error."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        out, _ = self.attention(x, x, x, attn_mask=mask)
        logits = self.head(out)
        return logits.masked_fill(torch.tensor([True, False]), -INF)


def broken_at(model: nn.Module, *args: Any) -> Origin | None:
    tracer = ForwardTracer()
    tracer.run(model, args)
    return tracer.trace.origin


def with_weight(model: nn.Module, name: str, value: float) -> nn.Module:
    with torch.no_grad():
        model.get_parameter(name).flatten()[0] = value
    return model


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


X = torch.ones(2, 3)
ORIGINS = {
    "finite": (two_layers(), X, None),
    "input": (two_layers(), X * NAN, Origin(kind="input", name="")),
    "weight": (
        with_weight(two_layers(), "2.weight", NAN),
        X,
        Origin(kind="parameter", name="2.weight"),
    ),
    "module": (nn.Sequential(nn.Tanh(), Log(), nn.ReLU()), X * -1, Origin(kind="module", name="1")),
    "overflow": (
        with_weight(nn.Sequential(nn.Linear(1, 1), nn.Tanh()), "0.weight", 3e38),
        torch.full((1, 1), 3e38),
        Origin(kind="module", name="0"),
    ),
    # log(0) is minus infinity, as in a mask; Tanh makes it finite again.
    "log of zero": (nn.Sequential(nn.ReLU(), Log(), nn.Tanh(), nn.Linear(3, 1)), X * -1, None),
    "between": (
        Between(),
        X,
        Origin(kind="operation", name="", after="first", before="second"),
    ),
    "at the end": (AtTheEnd(), X, Origin(kind="operation", name="", after="second")),
    "nested": (
        nn.Sequential(nn.Tanh(), Between()),
        X,
        Origin(kind="operation", name="1", after="1.first", before="1.second"),
    ),
    "masks": (Attention(), torch.ones(2, 5, 4), None),
    "dict of inputs": (nn.Embedding(3, 2), torch.tensor([0, 2]), None),
    "recurrent": (
        with_weight(nn.LSTM(3, 2), "weight_hh_l0", INF),
        X,
        Origin(kind="parameter", name="weight_hh_l0"),
    ),
}


@pytest.mark.parametrize("case", ORIGINS.values(), ids=ORIGINS.keys())
def test_the_first_value_that_is_not_finite_is_found(case: Any) -> None:
    model, x, expected = case
    assert broken_at(model, x) == expected


def test_minus_infinity_is_suspected_where_no_mask_explains_it() -> None:
    tracer = ForwardTracer()
    tracer.run(nn.Sequential(nn.ReLU(), Log(), nn.Identity()), (X * -1,))
    assert tracer.trace.origin is None
    assert tracer.trace.suspect == Origin(kind="module", name="1")


def test_modules_are_listed_in_the_order_in_which_they_ran() -> None:
    tracer = ForwardTracer()
    model = nn.ModuleDict({"late": nn.Linear(3, 3), "early": Log()})
    model.forward = lambda x: model["late"](model["early"](x))  # type: ignore[method-assign]
    tracer.run(model, (torch.tensor([[1.0, -1.0, 1.0]]),), name="D")
    shares = {name: each.counts.share for name, each in tracer.trace.readings.items()}
    assert shares == {"D.early": 1 / 3, "D.late": 1.0, "D": 1.0}
    assert (tracer.trace.origin, tracer.trace.first_module) == (
        Origin(kind="module", name="D.early"),
        "D.early",
    )


def test_a_pass_that_takes_too_long_is_ended() -> None:
    now = iter(range(100))
    tracer = ForwardTracer(limit_s=2, clock=lambda: float(next(now)))
    with pytest.raises(TraceEndedError, match="too long"):
        tracer.run(nn.Sequential(*[nn.Tanh() for _ in range(50)]), (X,))
    with pytest.raises(TraceEndedError, match="stopped"):
        ForwardTracer(interrupted=lambda: True).run(nn.Tanh(), (X,))


# -- copies ---------------------------------------------------------------------------------------


def normed() -> nn.Module:
    return nn.utils.weight_norm(nn.Linear(3, 2))


def parametrised() -> nn.Module:
    return nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("build", [two_layers, normed, parametrised, tied, normalised])
def test_a_copy_computes_the_same_and_leaves_the_model_alone(build: Any) -> None:
    model = build()
    fired: list[int] = []
    model.register_forward_hook(lambda *_: fired.append(1))
    model(X)  # hooks of torch compute their weights
    before, calls = copy.deepcopy(model.state_dict()), len(fired)
    twin = copy_module(model, {})
    torch.manual_seed(3)
    copied = twin(X)
    assert len(fired) == calls, "a hook of the user ran"
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    torch.manual_seed(3)
    assert torch.equal(copied, model(X))


def test_a_copy_takes_saved_values_and_shares_what_was_shared() -> None:
    model = tied()
    saved = torch.full((3, 3), 7.0)
    twin = copy_module(model, {id(model[0].weight): saved})
    assert twin[0].weight is twin[1].weight
    assert torch.equal(twin[1].weight, saved)
    with torch.no_grad():
        twin[0].weight.zero_()
    assert saved.sum() == 63


def test_a_model_that_cannot_be_copied_is_refused_in_words() -> None:
    model = two_layers()
    model.lock = threading.Lock()
    with pytest.raises(CopyRefusedError, match="cannot be copied"):
        copy_module(model, {})
    heavy = two_layers()
    heavy.memory = [torch.empty(1 << 20) for _ in range(80)]
    with pytest.raises(CopyRefusedError, match="much more than its weights"):
        copy_module(heavy, {})


# -- inputs and pictures --------------------------------------------------------------------------


def test_samples_of_every_micro_batch_are_counted() -> None:
    first = {"x": torch.zeros(3, 4), "mask": torch.full((3, 4), -INF)}
    second = {"x": torch.zeros(2, 4), "mask": torch.zeros(2, 4)}
    second["x"][1, 1:3] = NAN
    first["x"][0] = INF
    found = nonfinite_inputs([first, second])
    assert (found.samples, found.positions, found.counts.bad) == (5, (0, 4), 6)
    described = [(each.position, each.field, each.where) for each in found.described]
    assert described == [(0, "x", ""), (4, "x", "values 1 to 2")]
    assert [each.counts.words for each in found.described] == ["all ∞", "all NaN"]
    assert [(each.low, each.high) for each in found.described] == [(None, None), (0.0, 0.0)]


def test_a_batch_without_tensors_has_no_findings() -> None:
    assert nonfinite_inputs([["a", "b"], {}, None]).broken == 0


def test_a_large_picture_keeps_its_broken_pixel() -> None:
    image = torch.rand(3, 200, 130)
    image[1, 77, 55] = NAN
    plane = make_plane(image, colours=True)
    assert plane is not None
    assert (plane["width"], plane["height"], plane["signed"]) == (33, 50, False)
    assert list(base64.b64decode(plane["levels"])).count(255) == 1


def test_a_picture_of_an_output_is_the_channel_with_most_broken_values() -> None:
    output = torch.linspace(-1, 3, 5 * 16).reshape(5, 4, 4)
    output[2, 0, 0] = NAN
    plane = make_plane(output)
    assert plane is not None
    assert (plane["channel"], plane["channels"]) == (2, 5)
    assert make_plane(torch.ones(9)) is None
    assert math.isfinite(plane["low"])
