"""The attached layer: when it acts, when it stays out, and what it leaves untouched."""

from __future__ import annotations

import copy
import gc
import io
import json
import logging
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.core.protocols import Stateful
from midstep.models.competitive import BCL, VARIANTS, BCLConfig, Variant
from midstep.models.competitive import bcl_step as layer_module


def made_layer(inputs: int = 6, features: int = 5, seed: int = 0) -> nn.Linear:
    layer = nn.Linear(inputs, features, dtype=torch.float64)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.randn(weight.shape, generator=draw, dtype=torch.float64))
    return layer


def made_batch(batch: int = 8, inputs: int = 6, seed: int = 1) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(batch, inputs, generator=draw, dtype=torch.float64)


def weight_of(layer: nn.Linear) -> Tensor:
    return layer.weight.detach().clone()


# -- the gradient comes from the weights before the pull ------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_inputs_get_their_gradient_from_the_weights_before_the_pull(variant: Variant) -> None:
    layer, x = made_layer(), made_batch().requires_grad_()
    bcl = BCL(layer, BCLConfig(variant=variant, som_lr=0.9), wants_tensors=True)
    before = weight_of(layer)
    layer(x).square().sum().backward()
    mask, delta = bcl.last_tensors()["grad_mask"], bcl.last_tensors()["som_delta"]
    bias = layer.bias.detach()
    arriving = 2 * (x.detach() @ before.T + bias) * mask
    torch.testing.assert_close(x.grad, arriving @ before)
    torch.testing.assert_close(layer.weight.grad, arriving.T @ x.detach())
    torch.testing.assert_close(layer.weight.detach(), before + delta)


def two_backwards(forward: Callable[[Tensor], Tensor], first: Tensor, second: Tensor) -> None:
    """Both forward passes before either backward."""
    one, two = forward(first).sum(), forward(second).sum()
    one.backward()
    two.backward()


def kept_graph(forward: Callable[[Tensor], Tensor], first: Tensor, second: Tensor) -> None:
    """Two losses of one forward pass, run backward one after the other."""
    out = forward(first) + forward(second)
    out.sum().backward(retain_graph=True)
    out.square().sum().backward()


def one_backward(forward: Callable[[Tensor], Tensor], first: Tensor, second: Tensor) -> None:
    """Accumulated over two forward passes, one backward."""
    (forward(first).sum() + forward(second).square().sum()).backward()


@pytest.mark.parametrize("order", [two_backwards, kept_graph, one_backward])
def test_other_orders_of_backward_see_the_old_weights_and_pull_once_each(
    order: Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], None],
) -> None:
    batches = [made_batch(seed=1).requires_grad_(), made_batch(seed=2).requires_grad_()]
    gradients: list[list[Tensor]] = []
    for som_lr in (0.0, 0.8):  # without a pull there is no question which weights were used
        layer = made_layer()
        start = weight_of(layer)
        deltas: list[Tensor] = []
        bcl = BCL(layer, BCLConfig(som_lr=som_lr), wants_tensors=True)

        def forward(
            x: Tensor, layer: nn.Linear = layer, bcl: BCL = bcl, deltas: list[Tensor] = deltas
        ) -> Tensor:
            out: Tensor = layer(x)
            deltas.append(bcl.last_tensors()["som_delta"])
            return out

        for batch in batches:
            batch.grad = None
        order(forward, *batches)
        assert len(deltas) == bcl.steps == 2
        torch.testing.assert_close(weight_of(layer), start + deltas[0] + deltas[1])
        gradients.append([value.grad.clone() for value in (*batches, layer.weight)])  # type: ignore[union-attr]
    for bare, pulled in zip(*gradients, strict=True):
        assert torch.equal(bare, pulled)


def test_layer_used_twice_in_one_pass_pulls_for_both_uses() -> None:
    layer, x = made_layer(5, 5), made_batch(inputs=5).requires_grad_()
    reference, inner = copy.deepcopy(layer), x.detach().clone().requires_grad_()
    bcl = BCL(layer, BCLConfig(som_lr=0.7), wants_tensors=True)
    before, first = weight_of(layer), layer(x)
    deltas = [bcl.last_tensors()["som_delta"]]
    out = layer(first)
    deltas.append(bcl.last_tensors()["som_delta"])
    out.sum().backward()
    torch.testing.assert_close(weight_of(layer), before + sum(deltas))
    gated = BCL(reference, BCLConfig(som_lr=0.0))
    reference(reference(inner)).sum().backward()
    assert gated.steps == bcl.steps == 2
    assert torch.equal(x.grad, inner.grad)  # type: ignore[arg-type]
    assert torch.equal(layer.weight.grad, reference.weight.grad)  # type: ignore[arg-type]


def test_tied_weights_get_their_other_gradient_from_the_old_weights() -> None:
    gradients = []
    for som_lr in (0.0, 0.9):
        layer = made_layer()
        BCL(layer, BCLConfig(som_lr=som_lr))
        (layer(made_batch()).relu() @ layer.weight).square().sum().backward()
        gradients.append(layer.weight.grad)
    assert torch.equal(*gradients)


def test_activation_changed_in_place_makes_no_difference() -> None:
    ends = []
    for inplace in (False, True):
        layer = made_layer()
        BCL(layer, BCLConfig(som_lr=0.5))
        nn.Sequential(layer, nn.ReLU(inplace=inplace))(made_batch()).square().sum().backward()
        ends.append((weight_of(layer), layer.weight.grad))
    for apart, in_place in zip(*ends, strict=True):
        assert torch.equal(apart, in_place)  # type: ignore[arg-type]


def test_weights_keep_their_storage_in_an_ordinary_loop() -> None:
    layer = made_layer()
    BCL(layer, BCLConfig(som_lr=0.5))
    address = layer.weight.data_ptr()
    optimizer = torch.optim.Adam(layer.parameters())
    for seed in range(4):
        optimizer.zero_grad()
        loss = layer(made_batch(seed=seed)).square().mean()
        loss.backward()
        optimizer.step()
    assert layer.weight.data_ptr() == address


# -- when it acts ---------------------------------------------------------------------------------


def test_neighbours_are_found_anew_every_fifty_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, looks, find = made_layer(), [], layer_module.find_neighbours
    bcl = BCL(layer, BCLConfig(recompute_every=50))

    def counted(weight: Tensor, k: int) -> object:
        looks.append(bcl.steps)
        return find(weight, k)

    monkeypatch.setattr(layer_module, "find_neighbours", counted)
    for _ in range(120):
        layer(made_batch())  # a forward pass that is never run backward is no step
        layer(made_batch()).sum().backward()
    assert looks == [0, 50, 100]
    assert bcl.steps == 120


def evaluated(layer: nn.Linear, x: Tensor) -> Tensor:
    out: Tensor = layer.eval()(x)
    return out


def without_gradient(layer: nn.Linear, x: Tensor) -> Tensor:
    with torch.no_grad():
        out: Tensor = layer(x)
    return out


def inferred(layer: nn.Linear, x: Tensor) -> Tensor:
    with torch.inference_mode():
        out: Tensor = layer(x)
    return out


def frozen(layer: nn.Linear, x: Tensor) -> Tensor:
    layer.requires_grad_(requires_grad=False)
    out: Tensor = layer(x.requires_grad_())
    return out


def empty(layer: nn.Linear, x: Tensor) -> Tensor:
    out: Tensor = layer(x[:0])
    return out


@pytest.mark.parametrize("use", [evaluated, without_gradient, inferred, frozen, empty])
def test_it_stays_out_of(use: Callable[[nn.Linear, Tensor], Tensor]) -> None:
    layer, x = made_layer(), made_batch()
    before, bcl = weight_of(layer), BCL(layer, wants_tensors=True)
    out = use(layer, x)
    if out.requires_grad:
        out.sum().backward()
    assert torch.equal(weight_of(layer), before)
    assert (bcl.steps, bcl.get_step_metrics(), bcl.last_tensors()) == (0, {}, {})


def test_input_given_by_name_is_seen() -> None:
    layer = made_layer()
    bcl = BCL(layer)
    layer(input=made_batch()).sum().backward()
    assert bcl.steps == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_sequences_count_as_a_batch_of_their_rows(variant: Variant) -> None:
    x = made_batch(12)
    flat, deep = made_layer(), made_layer()
    BCL(flat, BCLConfig(variant=variant))
    bcl = BCL(deep, BCLConfig(variant=variant), wants_tensors=True)
    flat(x).square().sum().backward()
    deep(x.reshape(3, 4, 6)).square().sum().backward()
    assert bcl.last_tensors()["rank_score"].shape == (12, 5)
    torch.testing.assert_close(flat.weight.grad, deep.weight.grad)
    torch.testing.assert_close(flat.weight, deep.weight)


def test_one_sample_without_a_batch_is_a_batch_of_one() -> None:
    layer = made_layer()
    bcl = BCL(layer, wants_tensors=True)
    layer(made_batch()[0]).sum().backward()
    assert bcl.last_tensors()["grad_mask"].shape == (1, 5)


def test_half_precision_is_computed_in_single() -> None:
    layer = made_layer().to(torch.bfloat16)
    bcl = BCL(layer, BCLConfig(som_lr=0.5), wants_tensors=True)
    layer(made_batch().to(torch.bfloat16)).sum().backward()
    assert bcl.last_tensors()["som_delta"].dtype == torch.float32
    assert layer.weight.dtype == layer.weight.grad.dtype == torch.bfloat16  # type: ignore[union-attr]
    assert torch.isfinite(layer.weight).all()


# -- odd inputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("features", [1, 2, 5])
@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(4, 6),
        torch.full((4, 6), 0.7),
        torch.full((1, 6), -2.0),
        torch.full((4, 6), 1e30),
        torch.full((4, 6), 1e-30),
        torch.eye(6),
    ],
    ids=["zeros", "constant", "batch of one", "huge", "tiny", "one hot"],
)
@pytest.mark.parametrize("start", ["random", "equal", "zero"])
def test_odd_inputs_never_make_weights_nan(
    x: Tensor, variant: Variant, features: int, start: str
) -> None:
    layer = nn.Linear(6, features)
    with torch.no_grad():
        if start == "random":
            layer.weight.copy_(made_layer(6, features).weight)
        else:
            layer.weight.fill_(0.0 if start == "zero" else 0.3)
    bcl = BCL(layer, BCLConfig(variant=variant, neighborhood_k=99, rescue_k=99, som_lr=0.5))
    for _ in range(3):
        layer(x).sigmoid().sum().backward()
        for name, value in bcl.get_step_metrics().items():
            assert torch.isfinite(value).all(), name
    # Pulled to inputs near the end of the range, activations overflow, and those are left alone.
    assert bcl.get_step_metrics() or (bcl.skipped and x.max() > 1e29)
    assert torch.isfinite(layer.weight).all()
    assert (bcl.steps, bcl.fault) == (3, None)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_activations_are_left_alone_and_counted(variant: Variant, odd: float) -> None:
    layer, x, reference = made_layer(), made_batch(), made_layer()
    bcl = BCL(layer, BCLConfig(variant=variant), wants_tensors=True)
    x[2, 3] = odd
    before = weight_of(layer)
    # The sample's own loss is kept out, as a loop that skips bad samples would do.
    layer(x)[:2].sum().backward()
    reference(x)[:2].sum().backward()
    assert torch.equal(weight_of(layer), before)
    torch.testing.assert_close(layer.weight.grad, reference.weight.grad, equal_nan=True)
    assert (bcl.skipped, bcl.get_step_metrics(), bcl.last_tensors()) == (1, {}, {})
    layer(made_batch()).sum().backward()
    assert bcl.skipped == 1
    assert bcl.get_step_metrics()
    assert torch.isfinite(layer.weight).all()


# -- what it refuses ------------------------------------------------------------------------------


def already_taken() -> nn.Module:
    layer = made_layer()
    BCL(layer)
    return layer


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Conv2d(1, 2, 3), "attaches to an nn.Linear, got Conv2d"),
        (lambda: nn.Sequential(nn.Linear(2, 2)), "attaches to an nn.Linear, got Sequential"),
        (lambda: nn.LazyLinear(3), "have no shape yet"),
        (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), "are computed"),
        (lambda: nn.Linear(2, 2, dtype=torch.complex64), "not floating point"),
        (already_taken, "has a BCL already"),
    ],
)
def test_modules_it_cannot_work_on_are_refused(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BCL(make())


@pytest.mark.parametrize(
    "settings",
    [
        {"neighborhood_k": 0},
        {"recompute_every": 0},
        {"rescue_k": 1.5},
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"som_lr": -0.1},
        {"som_lr": float("nan")},
        {"variant": "control"},
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object]) -> None:
    (name,) = settings
    with pytest.raises(ConfigError, match=name):
        BCLConfig(**settings)  # type: ignore[arg-type]


# -- what it leaves untouched ---------------------------------------------------------------------


def test_remove_leaves_the_module_as_found() -> None:
    layer, x = made_layer(), made_batch()
    seen: list[int] = []
    layer.register_forward_hook(lambda *_: seen.append(1))
    before = {name: copy.copy(value) for name, value in vars(layer).items()}
    bcl = BCL(layer)
    out = layer(x)
    bcl.remove()
    bcl.remove()
    assert vars(layer).keys() == before.keys()
    assert layer._forward_hooks == before["_forward_hooks"]
    assert not layer._forward_hooks_with_kwargs
    weights = weight_of(layer)
    out.sum().backward()  # begun while attached: now neither masked nor pulled
    assert torch.equal(weight_of(layer), weights)
    torch.testing.assert_close(layer.weight.grad, x.sum(dim=0).expand(5, 6))
    assert not bcl.attached
    assert BCL(layer).attached  # and it can be attached again


def test_state_dict_of_the_module_is_unaffected() -> None:
    layer, bare = made_layer(), made_layer()
    BCL(layer)
    layer(made_batch())
    assert layer.state_dict().keys() == bare.state_dict().keys()
    bare.load_state_dict(layer.state_dict())
    assert torch.equal(layer.weight, bare.weight)


def copied(layer: nn.Linear) -> nn.Linear:
    return copy.deepcopy(layer)


def saved(layer: nn.Linear) -> nn.Linear:
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    loaded: nn.Linear = torch.load(file, weights_only=False)
    return loaded


@pytest.mark.parametrize("duplicate", [copied, saved])
def test_copy_competes_for_itself_and_leaves_the_original_alone(
    duplicate: Callable[[nn.Linear], nn.Linear],
) -> None:
    layer, x = made_layer(), made_batch()
    bcl = BCL(layer, BCLConfig(som_lr=0.5), wants_tensors=True)
    layer(x).sum().backward()
    before, twin = weight_of(layer), duplicate(layer)
    own = BCL.attached_to(twin)
    assert own is not None
    assert own is not bcl
    assert (own.module, own.wants_tensors, own.last_tensors()) == (twin, False, {})
    twin(x).sum().backward()
    assert torch.equal(weight_of(layer), before)
    assert not torch.equal(weight_of(twin), before)
    assert (bcl.steps, own.steps) == (1, 2)
    own.remove()
    assert BCL.attached_to(twin) is None
    assert bcl.attached


def test_global_generator_is_neither_drawn_from_nor_seeded() -> None:
    layer = made_layer()
    state = torch.get_rng_state()
    for variant in VARIANTS:
        bcl = BCL(layer, BCLConfig(variant=variant))
        layer(made_batch()).sum().backward()
        bcl.remove()
    assert torch.equal(torch.get_rng_state(), state)


def test_resumed_state_goes_on_with_the_same_bits() -> None:
    """The neighbours are in it: found anew from later weights they could be others."""
    layer = made_layer(features=12)
    bcl = BCL(layer, BCLConfig(neighborhood_k=2, som_lr=0.3, recompute_every=7))
    assert isinstance(bcl, Stateful)
    for seed in range(10):
        layer(made_batch(seed=seed)).sum().backward()
    resumed = made_layer(features=12)
    resumed.load_state_dict(layer.state_dict())
    other = BCL(resumed, bcl.config)
    other.load_state_dict(bcl.state_dict())
    for seed in range(10, 20):
        layer(made_batch(seed=seed)).sum().backward()
        resumed(made_batch(seed=seed)).sum().backward()
    assert torch.equal(layer.weight, resumed.weight)
    assert other.steps == 20


# -- what it tells --------------------------------------------------------------------------------


def test_description_is_plain_data() -> None:
    layer = made_layer()
    bcl = BCL(layer, BCLConfig(variant="rescue"))
    layer(made_batch()).sum().backward()
    described = bcl.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["variant"] == "rescue"
    assert (described["features"], described["inputs"], described["steps"]) == (5, 6, 1)


def test_raw_tensors_are_kept_only_while_wanted() -> None:
    layer, wanted = made_layer(), [False]
    bcl = BCL(layer, wants_tensors=lambda: wanted[0])
    layer(made_batch()).sum().backward()
    assert bcl.last_tensors() == {}
    wanted[0] = True
    layer(made_batch()).sum().backward()
    assert bcl.last_tensors()["som_targets"].shape == (5, 6)
    wanted[0] = False
    layer(made_batch()).sum().backward()
    assert bcl.last_tensors() == {}


def test_nothing_of_the_batch_survives_a_step_nobody_watches() -> None:
    layer = made_layer()
    bcl = BCL(layer)
    layer(made_batch(batch=57)).sum().backward()
    gc.collect()
    tensors = [item for item in gc.get_objects() if type(item) in (Tensor, nn.Parameter)]
    alive = [tuple(tensor.shape) for tensor in tensors if 57 in tensor.shape]
    assert alive == []
    assert bcl.get_step_metrics()["win_rate"].shape == (5,)


def test_watcher_that_raises_is_asked_no_more(caplog: pytest.LogCaptureFixture) -> None:
    layer = made_layer()

    def broken() -> bool:
        raise LookupError("gone")

    bcl = BCL(layer, wants_tensors=broken)
    for _ in range(3):
        layer(made_batch()).sum().backward()
    assert (bcl.steps, bcl.fault, len(caplog.records)) == (3, None, 1)


def test_error_inside_switches_it_off_and_training_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, reference = made_layer(), made_layer()
    bcl = BCL(layer)

    def broken(*_: object) -> None:
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr(layer_module, "compete", broken)
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            layer(made_batch()).sum().backward()
            reference(made_batch()).sum().backward()
    assert torch.equal(layer.weight.grad, reference.weight.grad)  # type: ignore[arg-type]
    assert bcl.describe()["fault"] == "ZeroDivisionError: no such luck"
    assert not bcl.attached
    assert len(caplog.records) == 1
