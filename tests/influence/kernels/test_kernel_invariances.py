"""Padding, order, micro-batch, tile size, where borders are kept: nothing changes a number."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from midstep.influence.gradients import output_head
from midstep.influence.gradients.gradient_recorder import RecordedBatch
from midstep.influence.gradients.model_parts import eval_mode, find_model_parts
from midstep.influence.gradients.model_passes import ModelPasses
from midstep.influence.gradients.sequences import SequenceBatch
from midstep.influence.kernels import tile_contraction
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.kernel_inputs import trained_parameters
from tests.influence.tiny_models import VOCABULARY, batch_of, relative, stepped_optimizer, tiny

WEIGHTS = torch.tensor([0.5, -1.0, 0.2, 0.7, 1.3], dtype=torch.float64)
FAMILY = ("gpt2", "own_rotary")


@cache
def case(family: str):
    model = tiny(family)
    optimizer = stepped_optimizer(model)
    return model, optimizer, kernel_of(model, optimizer, batch_of(5, 1))


def kernel_of(model, optimizer, update, evaluation=None, weights=WEIGHTS, **options):
    return fisher_kernel(
        model, update, batch_of(4, 2) if evaluation is None else evaluation,
        optimizer=optimizer, weights=weights, algorithm="sweep", **options,
    )  # fmt: skip


def same(left, right) -> None:
    assert relative(left.k_eu, right.k_eu) <= 1e-10
    assert relative(left.k_uu, right.k_uu) <= 1e-10
    assert relative(left.delta_logpi, right.delta_logpi) <= 1e-10


@pytest.mark.parametrize("family", FAMILY)
def test_padding_on_either_side_changes_nothing(family: str) -> None:
    model, optimizer, true = case(family)
    batch = batch_of(5, 1)
    left = torch.full((5, 3), VOCABULARY - 1)
    padded = SequenceBatch(
        torch.cat([left, batch.input_ids, left], 1),
        torch.cat([0 * left, batch.response_mask, 0 * left], 1),
        torch.cat([0 * left, batch.attention_mask, 0 * left], 1),
    )
    same(kernel_of(model, optimizer, padded), true)


@pytest.mark.parametrize("family", FAMILY)
@pytest.mark.parametrize("mode", ["resident", "bounded"])
@pytest.mark.parametrize("microbatch", [1, 2, 5])
def test_microbatch_size_changes_nothing(family: str, mode, microbatch: int) -> None:
    model, optimizer, true = case(family)
    same(kernel_of(model, optimizer, batch_of(5, 1), mode=mode, microbatch=microbatch), true)


@pytest.mark.parametrize("family", FAMILY)
def test_order_of_sequences_only_orders_the_result(family: str) -> None:
    model, optimizer, true = case(family)
    order = [3, 0, 4, 2, 1]
    found = kernel_of(model, optimizer, batch_of(5, 1).select(order), weights=WEIGHTS[order])
    back = torch.tensor(order).argsort()
    assert relative(found.k_eu[:, back], true.k_eu) <= 1e-10
    assert relative(found.k_uu[back][:, back], true.k_uu) <= 1e-10
    assert relative(found.delta_logpi, true.delta_logpi) <= 1e-10
    assert relative(found.logpi_u[back], true.logpi_u) <= 1e-10


def test_tile_size_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer, true = case("gpt2")
    monkeypatch.setattr(tile_contraction, "TILE_BYTES_CPU", 1000)
    same(kernel_of(model, optimizer, batch_of(5, 1)), true)


def test_one_triangle_of_the_update_block_gives_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer, true = case("gpt2")
    monkeypatch.setattr(tile_contraction, "MIN_TRIANGULAR", 2)
    found = kernel_of(model, optimizer, batch_of(5, 1), want=("EU", "UU"))
    assert relative(found.k_eu, true.k_eu) <= 1e-10
    assert relative(found.k_uu, true.k_uu) <= 1e-10
    assert sum(found.coverage.values()) == pytest.approx(1.0)
    assert found.coverage["norm"] == pytest.approx(true.coverage["norm"], rel=1e-9)


def test_logits_are_made_in_blocks_and_their_size_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, optimizer, true = case("gpt2")
    monkeypatch.setattr(output_head, "BLOCK_BYTES_CPU", 1)
    made = []
    plain = output_head.softmax_gradient
    monkeypatch.setattr(
        output_head,
        "softmax_gradient",
        lambda logits, *rest: made.append(len(logits)) or plain(logits, *rest),
    )
    same(kernel_of(model, optimizer, batch_of(5, 1), microbatch=5), true)
    assert len(made) > 2
    assert max(made) == 16


def test_without_norms_those_of_the_update_come_from_the_diagonal() -> None:
    model, optimizer, true = case("own_rotary")
    found = kernel_of(model, optimizer, batch_of(5, 1), norms=False)
    assert relative(found.norms_u, true.norms_u) <= 1e-10
    assert found.norms_e is None


def test_borders_on_disk_change_nothing_and_leave_nothing(tmp_path) -> None:
    model, optimizer, true = case("own_rotary")
    found = kernel_of(
        model, optimizer, batch_of(5, 1), mode="bounded", microbatch=2, spill=tmp_path
    )
    same(found, true)
    assert not list(tmp_path.iterdir())


def test_tokens_after_the_response_change_nothing() -> None:
    model, optimizer, true = case("own_rotary")
    batch = batch_of(5, 1)
    ids = batch.input_ids.clone()
    ids[batch.attention_mask == 0] = 7
    same(kernel_of(model, optimizer, SequenceBatch(ids, batch.response_mask)), true)


def test_sequences_of_weight_zero_are_skipped_where_only_the_change_is_wanted() -> None:
    model, optimizer, _ = case("own_rotary")
    weights = torch.tensor([0.0, -1.0, 0.0, 0.7, 0.0], dtype=torch.float64)
    seen = []
    hook = model.embedding.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[0]))
    fisher_kernel(
        model, batch_of(5, 1), batch_of(4, 2), optimizer=optimizer, weights=weights,
        algorithm="direction", want=("delta",), check_coverage=False, microbatch=1,
    )  # fmt: skip
    hook.remove()
    # The probe of two (whole and in parts), two of U that move, four of E, and five scored.
    assert sum(seen) == 2 + 2 + 2 + 4 + 3


def test_other_type_is_computed_on_a_copy() -> None:
    model, optimizer, true = case("own_rotary")
    found = kernel_of(model, optimizer, batch_of(5, 1), dtype=torch.float32)
    assert next(model.parameters()).dtype == torch.float64
    assert 1e-12 < relative(found.k_eu, true.k_eu) < 1e-3


def test_blocks_give_their_parameters_in_the_order_of_the_model() -> None:
    """Sums over tiles depend on their order; one that varied between processes changed bits."""
    model = tiny("own_learned")
    trained = trained_parameters(model, None)
    batch = batch_of(3, 1)
    with eval_mode(model, frozen=True), torch.no_grad():
        parts = find_model_parts(model, batch.input_ids)
        recorded = RecordedBatch(batch.buckets(64), batch.response_mask.double())
        stages = list(ModelPasses(parts, trained).bounded([recorded]))
    names = list(trained.values())
    assert sorted(name for stage in stages for name in stage) == sorted(names)
    assert [sorted(stage, key=names.index) for stage in stages] == stages
    assert [len(stage) for stage in stages] == [1, 16, 16, len(names) - 33]
