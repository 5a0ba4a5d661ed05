"""Tiles and threads: what is computed in pieces and side by side equals the plain computation."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
import torch

from midstep.influence.gradients.execution import run_in_threads
from midstep.influence.gradients.factors import softmax_rows, softmax_rows_in_place
from midstep.influence.gradients.gradient_recorder import RecordedBatch
from midstep.influence.gradients.tiles import Tile
from midstep.influence.kernels import tile_contraction
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.kernel_inputs import loss_weights
from midstep.influence.kernels.tile_contraction import inner_products, square_sums
from midstep.influence.optimizers.adam_state import AdamState, ParameterState
from midstep.influence.optimizers.preconditioners import AdamPreconditioner, SgdPreconditioner
from tests.influence.tiny_models import batch_of, relative, stepped_optimizer, tiny

WEIGHTS = torch.tensor([0.5, -1.0, 0.0, 0.7, 1.3], dtype=torch.float64)


def drawn(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(
        dtype
    )


@pytest.fixture
def threads():
    """Torch's number of threads, set by a test and put back."""
    usual = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(usual)


@pytest.mark.parametrize("values", [1, 7, 8, 9, 64, 100])
def test_inner_products_in_pieces_equal_the_plain_ones(
    values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tile_contraction, "CHUNK_VALUES", 8)
    left, right = drawn(6, values), drawn(4, values)
    true = torch.einsum("np,xp->nx", left, right)
    assert relative(inner_products(left, right), true) <= 1e-14


def test_pieces_of_float32_are_summed_in_float64() -> None:
    left, right = (drawn(3, 200_000, dtype=torch.float32).abs() for _ in range(2))
    found = inner_products(left, right)
    assert found.dtype == torch.float64
    assert relative(found, left.double() @ right.double().mT) <= 1e-6


def test_square_sums_equal_the_plain_ones() -> None:
    grads, diagonal = drawn(5, 40), drawn(40).abs()
    true = torch.stack(
        [torch.einsum("np,p,np->n", grads, diagonal, grads), torch.einsum("np,np->n", grads, grads)]
    ).mT
    assert relative(square_sums(grads.clone(), diagonal), true) <= 1e-14


def test_diagonal_in_five_passes_equals_the_formula() -> None:
    second, gradient = drawn(4, 6).square(), drawn(6, 4)
    adam = ParameterState(
        step=2, exp_avg=second, exp_avg_sq=second, lr=0.5, beta1=0.0, beta2=0.99, eps=1e-3,
        weight_decay=0.0,
    )  # fmt: skip
    step = AdamPreconditioner(
        state=AdamState({"weight": adam, "frozen": replace(adam, lr=0.0)}),
        lr=2.0, rate=1.0, ratio=1.0, clip_factor=0.3,
    )  # fmt: skip
    tile = Tile("weight", 1, 0, 6, 4, second.dtype, second.device, transposed=True)
    after = 0.99 * second.mT + 0.01 * (0.3 * gradient) ** 2
    true = 0.25 / ((after / (1 - 0.99**3)).sqrt() + 1e-3)
    assert relative(step.diagonal(tile, gradient), true) <= 1e-14
    assert not step.diagonal(replace(tile, name="frozen"), gradient).any()


@pytest.mark.parametrize("bias", [None, drawn(7)])
def test_softmax_gradient_in_place_equals_the_other(bias) -> None:
    logits, targets = drawn(2, 5, 7), torch.tensor([[0, 6, -3, 9, 2], [1, 1, 7, -1, 4]])
    rest = (bias, targets, drawn(2, 5), drawn(2, 5).abs() + 3, torch.float64)
    true = softmax_rows(logits.clone(), *rest)
    assert relative(softmax_rows_in_place(logits, *rest), true) <= 1e-14


def kernel(**options):
    model = tiny("gpt2")
    return fisher_kernel(
        model, batch_of(5, 1), batch_of(4, 2), optimizer=stepped_optimizer(model), weights=WEIGHTS,
        algorithm="sweep", mode="resident", **options,
    )  # fmt: skip


@pytest.mark.parametrize("preconditioner", ["adam_post", "sgd"])
def test_threads_change_nothing_but_rounding_and_repeat_to_the_bit(
    preconditioner, monkeypatch: pytest.MonkeyPatch, threads
) -> None:
    monkeypatch.setattr(tile_contraction, "TILE_BYTES_CPU", 2000)
    monkeypatch.setattr(tile_contraction, "MIN_THREADED_VALUES", 0)
    made = {}
    for count in (1, 2, 3):
        threads(count)
        made[count] = [kernel(preconditioner=preconditioner) for _ in range(2)]
    for first, again in made.values():
        assert torch.equal(first.k_eu, again.k_eu)
        assert torch.equal(first.k_uu, again.k_uu)
        assert torch.equal(first.delta_logpi, again.delta_logpi)
        assert torch.equal(first.norms_e, again.norms_e)
        assert relative(first.k_eu, made[1][0].k_eu) <= 1e-13
        assert relative(first.norms_u, made[1][0].norms_u) <= 1e-13
        assert first.coverage == pytest.approx(made[1][0].coverage, rel=1e-12)


def test_lanes_take_their_share_in_order_on_one_core_each(threads) -> None:
    threads(2)
    found: list[list[int]] = [[], []]
    cores = set()

    def work(lane: int, item: int) -> None:
        found[lane].append(item)
        cores.add(torch.get_num_threads())
        assert not torch.is_grad_enabled()

    run_in_threads([[1, 3, 5], [2, 4]], work)
    assert found == [[1, 3, 5], [2, 4]]
    assert cores == {1}
    assert torch.get_num_threads() == 2
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [2]


def test_error_in_one_lane_ends_the_others_at_their_next_item() -> None:
    failed, begun = threading.Event(), threading.Event()
    done: list[int] = []

    def work(lane: int, item: int) -> None:
        if lane == 1:
            begun.wait(10)
            failed.set()
            raise ValueError("of the second lane")
        begun.set()
        failed.wait(10)
        done.append(item)

    with pytest.raises(ValueError, match="of the second lane"):
        run_in_threads([list(range(10_000)), [0]], work)
    assert len(done) < 10_000


def test_error_in_a_sweep_is_the_first_one_and_leaves_no_thread(
    monkeypatch: pytest.MonkeyPatch, threads
) -> None:
    threads(2)
    monkeypatch.setattr(tile_contraction, "TILE_BYTES_CPU", 2000)
    monkeypatch.setattr(tile_contraction, "MIN_THREADED_VALUES", 0)
    tiles: list[object] = []

    def fails(_self, tile) -> None:
        tiles.append(tile)
        raise MemoryError(f"tile {tile.name}")

    monkeypatch.setattr(tile_contraction.TileContraction, "add", fails)
    with pytest.raises(MemoryError, match="tile "):
        kernel()
    assert len(tiles) <= 2
    assert not [each for each in threading.enumerate() if each.name.startswith("influence-")]


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
    ],
)
def test_weights_of_the_update_are_as_wide_as_the_sums(dtype, wide) -> None:
    model, batch = tiny("own_learned").to(dtype), batch_of(3, 1)
    weights, seeds = loss_weights([1 / 3, -1.0, 0.5], None, batch)
    assert weights.dtype == seeds.dtype == torch.float64
    side = RecordedBatch(batch.buckets(64), seeds)
    task = tile_contraction.SweepInputs(
        update=side, evaluation=None, weights_U=weights, groups={},
        preconditioner=SgdPreconditioner(lr=1.0, decay={}),
        parameters=dict(model.named_parameters()),
    )  # fmt: skip
    assert task.exact_weights_U.dtype == wide
