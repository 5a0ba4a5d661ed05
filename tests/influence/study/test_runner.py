"""Plans from sampling to results, against brute force; killed, started again, mixed, refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from midstep.core import strict_json
from midstep.core.errors import ConfigError, ControlError, RunHeldError, StorageError
from midstep.facts import FactsReader, FactsWriter
from midstep.influence.sampling import CharacterTokenizer, save_batch, save_checkpoint
from midstep.influence.study.plan import BatchRequest, FisherKernelConfig, FisherKernelPlan
from midstep.influence.study.results_file import load_results
from midstep.influence.study.runner import FisherKernelRunner
from midstep.influence.study.validation import validate
from midstep.influence.study.workspace_files import load_workspace
from tests.influence import reference_kernels as reference
from tests.influence.small_lm import ALPHABET, adamw, small_generator, small_model

UPDATE = BatchRequest(
    kind="update",
    params={
        "batch_size_prompts": 3,
        "completions_per_prompt": 3,
        "seed": 5,
        "reward_cfg": {"format_weight": 0.5},
        "advantage_cfg": {"scheme": "rloo"},
    },
)
REQUESTS = (
    BatchRequest(kind="evaluation", params={"batch_size_prompts": 2, "seed": 1}),
    BatchRequest(kind="custom_sequence", params={"prompt": "1+1=", "response": "2"}, name="probe"),
)
PLAN = FisherKernelPlan(update=UPDATE, requests=REQUESTS, top_k=4)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model in float64 and its optimizer after three steps."""
    model = small_model(torch.float64)
    optimizer = adamw(model, weight_decay=0.1)
    place = tmp_path_factory.mktemp("lm") / "step-3"
    return save_checkpoint(place, model, CharacterTokenizer(ALPHABET), optimizer)


@pytest.fixture
def config(checkpoint: Path, tmp_path: Path) -> FisherKernelConfig:
    return FisherKernelConfig(
        checkpoint=str(checkpoint),
        prompt_set={"name": "arithmetic", "largest": 9},
        max_new_tokens=6,
        outputs=str(tmp_path / "outputs"),
    )


@pytest.fixture
def runner(config: FisherKernelConfig) -> FisherKernelRunner:
    return FisherKernelRunner(config)


def phases(folder: Path) -> list[str]:
    return [event["phase"] for event in FactsReader(folder).events() if event.get("phase")]


def test_kernel_change_and_terms_equal_brute_force(runner: FisherKernelRunner) -> None:
    workspace = runner.prepare_update_workspace(PLAN)
    result = runner.evaluate_batch(REQUESTS[0], workspace)
    model, optimizer = runner.generator.model.module, runner.optimizer
    grads_u = reference.flat_gradients(model, workspace.batch)
    grads_e = reference.flat_gradients(model, result.batch)
    diagonal = reference.adam_diagonal(model, optimizer, grads_u, workspace.weights)
    close = {"rtol": 1e-9, "atol": 1e-11}
    torch.testing.assert_close(workspace.kernel_uu, (grads_u * diagonal) @ grads_u.T, **close)
    kernel = (grads_e * diagonal) @ grads_u.T
    torch.testing.assert_close(result.kernel_eu, kernel, **close)
    moved = reference.adam_rate(model, optimizer) * (kernel @ workspace.weights)
    momentum, decay = reference.adam_terms(model, optimizer, grads_e, diagonal)
    torch.testing.assert_close(result.delta["kernel"], moved, **close)
    torch.testing.assert_close(result.delta["momentum"], momentum, **close)
    torch.testing.assert_close(result.delta["decay"], decay, **close)
    torch.testing.assert_close(result.delta["total"], moved + momentum + decay, **close)


def test_any_pair_can_be_asked_for(runner: FisherKernelRunner) -> None:
    workspace = runner.prepare_update_workspace(PLAN)
    result = runner.evaluate_batch(REQUESTS[1], workspace)
    ids = workspace.batch.sequence_ids
    for at, other in ((0, 1), (4, 4)):
        stored = workspace.kernel(ids[at], ids[other])
        one, two = workspace.cache(ids[at]), workspace.cache(ids[other])
        made = sum(float((one.raw()[n] * two.preconditioned()[n]).sum()) for n in one.raw())
        assert made == pytest.approx(stored, rel=1e-9)
    assert workspace.kernel("probe/C-000-00", ids[2]) == pytest.approx(
        result.kernel_eu[0, 2].item(), rel=1e-9
    )
    assert workspace.cache(ids[3]).norm ** 2 == pytest.approx(workspace.kernel(ids[3], ids[3]))
    with pytest.raises(ConfigError, match="no sequence 'U-9'"):
        workspace.kernel("U-9", ids[0])


def test_contributors_are_signed_largest_first_and_add_up(runner: FisherKernelRunner) -> None:
    workspace = runner.prepare_update_workspace(dataclasses.replace(PLAN, top_k=99))
    result = runner.evaluate_batch(REQUESTS[0], workspace)
    for at, row in enumerate(result.contributors):
        sizes = [abs(one.contribution) for one in row]
        assert sizes == sorted(sizes, reverse=True)
        total = sum(one.contribution for one in row)
        assert total == pytest.approx(result.delta["kernel"][at].item(), rel=1e-9)
        assert all(-1 - 1e-9 <= one.cosine <= 1 + 1e-9 for one in row)
        assert {one.contribution > 0 for one in row} == {True, False}


def test_what_if_is_the_kernel_times_other_weights(runner: FisherKernelRunner) -> None:
    workspace = runner.prepare_update_workspace(dataclasses.replace(PLAN, preconditioner="sgd"))
    result = runner.evaluate_batch(REQUESTS[0], workspace)
    turned = -workspace.batch.advantages
    torch.testing.assert_close(
        result.what_if(workspace, turned)["kernel"], -result.delta["kernel"], rtol=1e-12, atol=0
    )
    one = workspace.batch.sequence_ids[1]
    changed = result.what_if(workspace, {one: 3.0})["total"]
    asked = runner.evaluate_batch(REQUESTS[0], workspace, advantages={one: 3.0})
    torch.testing.assert_close(asked.delta["total"], changed)
    expected = workspace.batch.advantages.clone()
    expected[1] = 3.0
    moved = workspace.step.factor * result.kernel_eu @ (expected * workspace.batch.normalisers)
    torch.testing.assert_close(asked.delta["kernel"], moved)
    assert "preconditioner of the true update" in asked.notes["advantages"]


def test_self_kernel_sums_advantages(runner: FisherKernelRunner) -> None:
    workspace = runner.prepare_update_workspace(PLAN)
    ids = workspace.batch.sequence_ids[2:4]
    found = runner.compute_self_kernel(workspace, ids, capture_full=True)
    rows = workspace.kernel_uu[2:4]
    torch.testing.assert_close(found.influence, rows @ workspace.batch.advantages)
    torch.testing.assert_close(found.kernel, rows[:, 2:4])
    assert runner.compute_self_kernel(workspace).kernel is None


def test_run_writes_everything_and_it_comes_back(runner: FisherKernelRunner) -> None:
    rates = dataclasses.replace(PLAN, validate_rates=(1e-4, 1e-5), name="my study")
    results = runner.run(rates)
    folder = results.directory
    assert folder.name.endswith("_my-study")
    told = strict_json.loads((folder / "results.json").read_bytes())
    assert [one["name"] for one in told["requests"]] == ["evaluation", "probe"]
    assert told["step"] == 3
    assert len(told["requests"][0]["sequences"][0]["contributors"]) == 4
    assert told["validation"]["rates"][1]["correlation"] > 0.999
    page = (folder / "report.html").read_text()
    assert "K(U,U)" in page
    assert "1+1=<b>2</b>" in page
    assert "http" not in page
    back = load_results(folder)
    torch.testing.assert_close(back.request("probe").delta, results.request("probe").delta)
    assert back.request("evaluation").contributors == results.request("evaluation").contributors
    turned = -back.workspace.batch.advantages
    assert back.request("probe").what_if(back.workspace, turned)["kernel"].shape == (1,)
    told_phases = phases(folder)
    assert {"sample", "update_kernel", "evaluate", "validate"} <= set(told_phases)


def test_markup_in_texts_is_shown_as_text(runner: FisherKernelRunner) -> None:
    params = {"prompt": "<script>1</script>", "response": "2"}
    probe = BatchRequest(kind="custom_sequence", params=params, name="<b>probe")
    results = runner.run(dataclasses.replace(PLAN, requests=(probe,)))
    page = (results.directory / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;1&lt;/script&gt;" in page
    assert "&lt;b&gt;probe" in page


def test_run_started_again_reuses_what_was_finished(
    config: FisherKernelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    import midstep.influence.study.study_stages as module

    saved = module.save_request

    def dies_at_the_second(result, place):
        if result.name == "probe":
            raise KeyboardInterrupt
        return saved(result, place)

    monkeypatch.setattr(module, "save_request", dies_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        FisherKernelRunner(config).run(PLAN)
    monkeypatch.undo()
    folder = next(Path(config.outputs).iterdir())
    assert not (folder / "results.json").exists()
    results = FisherKernelRunner(config).run(PLAN)
    assert results.directory == folder
    assert phases(folder).count("update_kernel") == 1
    assert phases(folder).count("reused") == 3
    assert phases(folder).count("sample") == 3
    assert not list(folder.rglob("*.midstep-tmp"))
    assert FisherKernelRunner(config).run(PLAN).directory != folder


def test_unfinished_run_that_is_held_or_of_another_plan_is_left_alone(
    config: FisherKernelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    import midstep.influence.study.study_stages as module

    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "save_request", dies)
    with pytest.raises(KeyboardInterrupt):
        FisherKernelRunner(config).run(PLAN)
    monkeypatch.undo()
    first = next(Path(config.outputs).iterdir())
    with FactsWriter(first), pytest.raises(RunHeldError):
        FisherKernelRunner(config).run(PLAN)
    other = dataclasses.replace(PLAN, top_k=1)
    assert FisherKernelRunner(config).run(other).directory != first


def test_workspace_comes_back_and_answers_the_same(
    runner: FisherKernelRunner, config: FisherKernelConfig, tmp_path: Path
) -> None:
    workspace = runner.prepare_update_workspace(PLAN)
    before = runner.evaluate_batch(REQUESTS[0], workspace)
    place = runner.serialize_workspace(workspace, tmp_path / "W")
    bare = load_workspace(place)
    ids = bare.batch.sequence_ids
    assert bare.kernel(ids[0], ids[1]) == workspace.kernel(ids[0], ids[1])
    with pytest.raises(ControlError, match="loaded without its model"):
        bare.cache(ids[0]).raw()
    again = FisherKernelRunner(config)
    bound = again.load_workspace(place)
    after = again.evaluate_batch(REQUESTS[0], bound)
    torch.testing.assert_close(after.kernel_eu, before.kernel_eu)
    with pytest.raises(StorageError):
        runner.serialize_workspace(workspace, place)


def test_resident_workspace_keeps_its_gradients_on_disk(
    runner: FisherKernelRunner, tmp_path: Path
) -> None:
    workspace = runner.prepare_update_workspace(dataclasses.replace(PLAN, algorithm="resident"))
    place = runner.serialize_workspace(workspace, tmp_path / "W")
    back = load_workspace(place)
    one = back.batch.sequence_ids[0]
    torch.testing.assert_close(dict(back.cache(one).raw()), dict(workspace.cache(one).raw()))


def test_mixing_checkpoints_is_refused_with_the_reason(
    runner: FisherKernelRunner, config: FisherKernelConfig, tmp_path: Path
) -> None:
    workspace = runner.prepare_update_workspace(PLAN)
    model = small_model(torch.float64, seed=9)
    other = save_checkpoint(tmp_path / "other", model, CharacterTokenizer(ALPHABET), adamw(model))
    stranger = FisherKernelRunner(dataclasses.replace(config, checkpoint=str(other)))
    place = runner.serialize_workspace(workspace, tmp_path / "W")
    with pytest.raises(ConfigError, match="cannot be mixed: their weights differ"):
        stranger.load_workspace(place)
    with pytest.raises(ConfigError, match="their weights differ"):
        stranger.evaluate_batch(REQUESTS[0], workspace)
    with pytest.raises(ConfigError, match="their weights differ"):
        runner.evaluate_batch(stranger.prepare_update_workspace(PLAN), workspace)
    with pytest.raises(ConfigError, match="preconditioners are adam_post and sgd"):
        workspace.check_same(
            runner.prepare_update_workspace(dataclasses.replace(PLAN, preconditioner="sgd"))
        )


def test_batch_file_is_taken_refused_or_scored_again(
    runner: FisherKernelRunner, tmp_path: Path
) -> None:
    workspace = runner.prepare_update_workspace(PLAN)
    mine = save_batch(workspace.batch, tmp_path / "mine")
    from_file = BatchRequest(kind="from_file", params={"path": str(mine)})
    taken = runner.evaluate_batch(from_file, workspace)
    torch.testing.assert_close(taken.kernel_eu, workspace.kernel_uu)
    foreign = small_generator(small_model(torch.float64, seed=2)).generate_evaluation_batch(2)
    path = str(save_batch(foreign, tmp_path / "foreign"))
    with pytest.raises(ConfigError, match="made with another checkpoint"):
        runner.evaluate_batch(BatchRequest(kind="from_file", params={"path": path}), workspace)
    again = BatchRequest(kind="from_file", params={"path": path, "rescore": True})
    assert runner.evaluate_batch(again, workspace).batch.diagnostics["rescored"]


def test_records_a_callback_and_a_subset_can_be_evaluated(runner: FisherKernelRunner) -> None:
    workspace = runner.prepare_update_workspace(PLAN)
    records = runner.generator.generate_evaluation_batch(2, seed=1)
    by_records = runner.evaluate_batch(records, workspace)
    by_callback = runner.evaluate_batch(
        lambda generator: generator.generate_evaluation_batch(2, seed=1), workspace
    )
    torch.testing.assert_close(by_callback.delta, by_records.delta)
    foreign = small_generator(small_model(torch.float64, seed=2)).generate_evaluation_batch(2)
    with pytest.raises(ConfigError, match="records were made with another checkpoint"):
        runner.evaluate_batch(foreign, workspace)
    part = dataclasses.replace(REQUESTS[0], sequence_ids=("E-001-00",))
    alone = runner.evaluate_batch(part, workspace)
    torch.testing.assert_close(alone.kernel_eu[0], by_records.kernel_eu[1])


def test_change_alone_needs_no_kernel(runner: FisherKernelRunner) -> None:
    plan = dataclasses.replace(PLAN, top_k=0, full_kernel=False)
    workspace = runner.prepare_update_workspace(plan)
    lean = runner.evaluate_batch(REQUESTS[0], workspace)
    full = runner.evaluate_batch(REQUESTS[0], workspace, capture_full=True)
    assert lean.kernel_eu is None
    torch.testing.assert_close(lean.delta["total"], full.delta["total"], rtol=1e-9, atol=1e-12)
    with pytest.raises(ConfigError, match="kept no kernel"):
        lean.what_if(workspace, workspace.batch.advantages)


def test_true_steps_confirm_the_prediction(runner: FisherKernelRunner) -> None:
    plan = dataclasses.replace(PLAN, max_grad_norm=0.05)
    workspace = runner.prepare_update_workspace(plan)
    assert workspace.step.clip_factor < 1
    batch = runner.generator.generate_evaluation_batch(4, seed=3)
    found = validate(workspace, batch, rates=(1e-4, 3e-5, 1e-5))
    assert found.slope == pytest.approx(1.0, abs=0.1)
    assert found.rates[-1].relative_error < 0.02
    assert found.rates[-1].correlation > 0.999
    assert found.entropy_predicted[-1] == pytest.approx(found.entropy_change[-1], rel=0.02)


def test_a_part_of_the_parameters_counts_and_cannot_be_checked_by_a_true_step(
    runner: FisherKernelRunner,
) -> None:
    whole = runner.prepare_update_workspace(PLAN)
    part = runner.prepare_update_workspace(dataclasses.replace(PLAN, parameters=("blocks.0.*",)))
    one = whole.batch.sequence_ids[0]
    assert set(part.cache(one).raw()) < set(whole.cache(one).raw())
    assert part.kernel(one, one) < whole.kernel(one, one)
    with pytest.raises(ConfigError, match="other parameters count"):
        whole.check_same(part)
    with pytest.raises(ConfigError, match="counts only some parameters"):
        validate(part)


def test_training_itself_confirms_the_prediction(
    runner: FisherKernelRunner, config: FisherKernelConfig, tmp_path: Path
) -> None:
    plan = dataclasses.replace(PLAN, lr=1e-5)
    workspace = runner.prepare_update_workspace(plan)
    trained = FisherKernelRunner(config)
    model, optimizer = trained.generator.model.module, trained.optimizer
    for group in optimizer.param_groups:
        group["lr"] = 1e-5
    scores = []
    for record in workspace.batch:
        ids = torch.tensor([[*record.prompt_tokens, *record.response_tokens]])
        logs = model(ids)[0].log_softmax(1)
        start = len(record.prompt_tokens)
        scores.append(sum(logs[at - 1, ids[0, at]] for at in range(start, ids.shape[1])))
    (-(workspace.weights @ torch.stack(scores))).backward()
    optimizer.step()
    after = save_checkpoint(tmp_path / "after", model, CharacterTokenizer(ALPHABET))
    found = validate(workspace, rates=(1e-5,), after=after).after
    assert found.correlation > 0.999
    assert found.relative_error < 0.02


def test_bfloat16_study_is_checked_on_float32_copies_and_says_so(
    config: FisherKernelConfig,
) -> None:
    runner = FisherKernelRunner(dataclasses.replace(config, dtype="bfloat16"))
    workspace = runner.prepare_update_workspace(PLAN)
    found = validate(workspace, rates=(1e-3, 3e-4, 1e-4))
    assert found.to_json()["dtype"] == "float32"
    assert {one.dtype for one in found.rates} == {"float32"}
    assert found.slope == pytest.approx(1.0, abs=0.1)
    assert found.rates[-1].relative_error < 0.02
    assert 0 < found.rounding < 0.2
    wide = FisherKernelRunner(config)
    assert validate(wide.prepare_update_workspace(PLAN), rates=(1e-4,)).rounding is None


def test_plan_for_plain_descent_is_not_confirmed_for_a_checkpoint_of_adamw(
    runner: FisherKernelRunner, config: FisherKernelConfig, tmp_path: Path
) -> None:
    plan = dataclasses.replace(PLAN, preconditioner="sgd", lr=1e-4)
    workspace = runner.prepare_update_workspace(plan)
    with pytest.raises(ConfigError, match=r"optimizer of the checkpoint is AdamW"):
        validate(workspace)
    model = small_model(torch.float64)
    bare = save_checkpoint(tmp_path / "bare", model, CharacterTokenizer(ALPHABET))
    plain = FisherKernelRunner(dataclasses.replace(config, checkpoint=str(bare)))
    found = validate(plain.prepare_update_workspace(plan), rates=(1e-4, 1e-5))
    assert found.slope == pytest.approx(1.0, abs=0.1)


def test_parameters_that_were_frozen_in_the_training_are_left_out(
    config: FisherKernelConfig, tmp_path: Path
) -> None:
    model = small_model(torch.float64)
    model.blocks[0].requires_grad_(requires_grad=False)
    frozen = {name for name, one in model.named_parameters() if not one.requires_grad}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.tensor([[1, 2, 3]])).square().mean().backward()
    optimizer.step()
    place = save_checkpoint(tmp_path / "step-1", model, CharacterTokenizer(ALPHABET), optimizer)
    runner = FisherKernelRunner(dataclasses.replace(config, checkpoint=str(place)))
    workspace = runner.prepare_update_workspace(PLAN)
    assert set(workspace.notes["frozen_parameters"]) == frozen
    assert not frozen & set(workspace.cache(workspace.batch.sequence_ids[0]).raw())
    assert validate(workspace, rates=(1e-5, 1e-6)).slope == pytest.approx(1.0, abs=0.1)


def test_update_that_moves_nothing_is_refused(runner: FisherKernelRunner) -> None:
    params = {**UPDATE.params, "reward_cfg": {"format_weight": 0.0, "answer_weight": 0.0}}
    still = dataclasses.replace(PLAN, update=BatchRequest(kind="update", params=params))
    with pytest.raises(ConfigError, match="every advantage of the update is zero"):
        runner.prepare_update_workspace(still)
    bare = dataclasses.replace(PLAN, update=REQUESTS[0])
    with pytest.raises(ConfigError, match="E-000-00 of the update has no weight"):
        runner.prepare_update_workspace(bare)


def test_missing_optimizer_state_is_refused_and_sgd_needs_none(
    config: FisherKernelConfig, tmp_path: Path
) -> None:
    model = small_model(torch.float64)
    bare = save_checkpoint(tmp_path / "bare", model, CharacterTokenizer(ALPHABET))
    runner = FisherKernelRunner(dataclasses.replace(config, checkpoint=str(bare)))
    with pytest.raises(StorageError, match="no optimizer state"):
        runner.prepare_update_workspace(PLAN)
    workspace = runner.prepare_update_workspace(dataclasses.replace(PLAN, preconditioner="sgd"))
    assert workspace.fingerprint.optimizer_step is None


def test_compute_type_of_the_plan_is_used(runner: FisherKernelRunner) -> None:
    narrow = runner.prepare_update_workspace(dataclasses.replace(PLAN, dtype="float32"))
    wide = runner.prepare_update_workspace(PLAN)
    assert narrow.fingerprint.dtype == "float32"
    torch.testing.assert_close(
        narrow.kernel_uu.double(),
        wide.kernel_uu,
        rtol=1e-3,
        atol=1e-4 * wide.kernel_uu.max().item(),
    )
