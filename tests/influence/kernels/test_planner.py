"""What the planner chooses, says, and how batches are cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from midstep.influence.gradients.sequences import SequenceBatch
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.planner import KEPT_GRADIENTS_BYTES, Workload, choose_algorithm
from tests.influence.tiny_models import batch_of, tiny

WORK = Workload(
    sequences_u=8, sequences_e=8, tokens_u=2048, tokens_e=2048, parameters=124_000_000,
    parameters_all=124_000_000, layer_values=150_000, block_values=12_000, width=768, blocks=12,
    vocabulary=50_257, item_bytes=4, wants_kernel=True, norm_first=False, splittable=True,
)  # fmt: skip


def plan(work: Workload = WORK, algorithm="auto", mode="auto", free_bytes: int = 64 * 2**30):
    return choose_algorithm(work, algorithm, mode, rate=1e11, free_bytes=free_bytes)


def test_large_models_are_swept_and_blocks_run_again_when_memory_is_short() -> None:
    roomy, tight = plan(), plan(free_bytes=2**30)
    assert (roomy.algorithm, roomy.mode) == ("sweep", "resident")
    assert (tight.algorithm, tight.mode) == ("sweep", "bounded")
    assert tight.flops > roomy.flops
    assert tight.bytes < roomy.bytes


def test_maps_that_are_left_out_when_blocks_run_again_are_not_counted() -> None:
    spared = plan(replace(WORK, parameters_skipped=28_000_000), mode="bounded")
    assert plan(mode="bounded").flops - spared.flops == 2 * 28_000_000 * 4096
    assert plan(mode="resident").flops == plan(replace(WORK, parameters_skipped=1)).flops


def test_running_blocks_again_costs_their_parameters_but_the_last_map() -> None:
    model, update = tiny("own_rotary"), batch_of(4, 1)
    costs = {
        mode: fisher_kernel(
            model, update, preconditioner="sgd", algorithm="sweep", mode=mode
        ).plan.flops
        for mode in ("resident", "bounded")
    }
    again = sum(
        each.numel()
        for name, each in model.named_parameters()
        if not name.startswith("embedding") and not name.endswith("down.weight")
    )
    tokens = sum(each.input_ids.numel() for each in update.buckets(2048))
    assert costs["bounded"] - costs["resident"] == 2 * again * tokens


def test_small_gradients_are_kept() -> None:
    small = replace(WORK, parameters=KEPT_GRADIENTS_BYTES // (16 * 4))
    assert plan(small).algorithm == "resident"
    assert plan(replace(small, parameters=small.parameters + 1)).algorithm == "sweep"


def test_change_alone_takes_the_direction() -> None:
    found = plan(replace(WORK, wants_kernel=False))
    assert found.algorithm == "direction"
    assert found.flops == 6 * WORK.parameters_all * 4096


def test_clipping_by_norm_costs_one_more_pass_over_the_update() -> None:
    extra = plan(replace(WORK, norm_first=True)).flops - plan().flops
    assert extra == 6 * WORK.parameters_all * WORK.tokens_u


def test_expected_time_is_work_over_rate_and_is_said_before_the_work() -> None:
    assert plan().seconds == pytest.approx(plan().flops / 1e11)
    said: list[str] = []
    model = tiny("own_rotary")
    hook = model.register_forward_pre_hook(lambda *_: said.append("ran"))
    block = fisher_kernel(
        model, batch_of(3), preconditioner="sgd", announce=said.append, check_coverage=False
    )
    hook.remove()
    assert said[-1] == block.plan.describe()
    assert all(word in said[-1] for word in ("TFLOP", "GiB", " s; "))


def test_microbatches_hold_every_sequence_once_within_their_bound() -> None:
    batch = batch_of(9, 4)
    cut = batch.buckets(24)
    assert sorted(place for each in cut for place in each.row_ids) == list(range(9))
    assert all(each.input_ids.numel() <= 24 for each in cut)
    assert max(len(each) for each in batch.buckets(10_000, max_sequences=2)) == 2
    assert [len(each) for each in batch.buckets(1)] == [1] * 9


def test_microbatch_moves_sequences_to_the_left_edge() -> None:
    batch = SequenceBatch(
        torch.tensor([[9, 9, 1, 2, 3], [4, 5, 9, 9, 9]]),
        torch.tensor([[0, 0, 0, 1, 1], [0, 1, 0, 0, 0]]),
        torch.tensor([[0, 0, 1, 1, 1], [1, 1, 0, 0, 0]]),
    )
    (cut,) = batch.buckets(100)
    assert cut.input_ids.tolist() == [[1, 2, 3], [4, 5, 0]]
    assert cut.response_mask.tolist() == [[False, True, True], [False, True, False]]


@pytest.mark.parametrize(("dtype", "near"), [(torch.bfloat16, 0.15), (torch.float16, 0.02)])
def test_half_types_stay_near(dtype: torch.dtype, near: float) -> None:
    model, update = tiny("own_rotary"), batch_of(4, 1)
    true = fisher_kernel(model, update, preconditioner="sgd").k_uu
    for mode in ("resident", "bounded"):
        found = fisher_kernel(
            model, update, preconditioner="sgd", dtype=dtype, algorithm="sweep", mode=mode
        ).k_uu
        assert (found - true).norm() <= near * true.norm()
