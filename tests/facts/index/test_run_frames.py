"""`load_runs`: what its frames hold, and which runs they leave out."""

from __future__ import annotations

import math

import pytest

from midstep.core.errors import FormatError
from midstep.facts import FactsWriter, append_jsonl_event, build_event_payload, load_runs
from midstep.facts.index.hydra_files import read_hydra_files


def write_run(folder, *, losses, status="finished", **start):
    """A run with one record for each loss."""
    with FactsWriter(folder) as facts:
        facts.event("on_start", **start)
        for epoch, loss in enumerate(losses):
            late = {"late": 1.0} if epoch >= 7 else {}
            facts.event("on_epoch_end", epoch=epoch, train_loss=loss, val_loss=loss, metrics=late)
        if status is not None:
            facts.event("on_train_end", status=status, total_time_s=5.0)
    return folder


def write_hydra(folder, config, overrides):
    """The files that a composed run has."""
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "config.yaml").write_text(config)
    (folder / ".hydra" / "overrides.yaml").write_text(overrides)


def test_the_rows_have_settings_losses_and_one_column_for_each_override(tmp_path):
    config = {"loop": "ae", "phase1": {"latent_space": {"name": "vq", "codebook_size": 64}}}
    first = tmp_path / "first"
    write_hydra(first, "loop: ae\n", "- phase1.trainer.seed=1\n- +extra=2\n")
    write_run(
        first,
        losses=[0.5, math.nan, 0.25, 0.75],
        seed=1,
        config=config,
        git={"commit": "abc", "dirty": False},
    )
    second = write_run(tmp_path / "second", losses=[0.1] * 9, seed=2, config=config)
    runs, per_epoch, order = load_runs([first, second])
    assert order == [str(first), str(second)] == runs.run_dir.tolist()
    row = runs.iloc[0]
    assert (row.tokenizer, row.codebook_size, row.loop, row.seed) == ("vq", 64, "ae", 1)
    assert (row.best_epoch, row.best_val_loss, row.final_val_loss) == (2, 0.25, 0.75)
    assert (row.git_commit, row.epochs, row.total_time_s) == ("abc", 4, 5.0)
    assert runs["override.phase1.trainer.seed"].tolist()[0] == "1"
    assert runs["override.extra"].isna().tolist() == [False, True]
    assert runs.config_hash.nunique() == 1
    assert math.isnan(per_epoch[order[0]].train_loss[1])
    assert per_epoch[order[1]].metric_late.tolist()[7:] == [1.0, 1.0]
    assert per_epoch[order[1]].metric_late.isna().sum() == 7


def test_what_is_left_out_is_listed_with_its_reason(tmp_path):
    good = write_run(tmp_path / "good", losses=[1.0])
    stopped = write_run(tmp_path / "stopped", losses=[1.0], status="stopped")
    empty = write_run(tmp_path / "empty", losses=[])
    torn = write_run(tmp_path / "torn", losses=[1.0])
    (torn / "facts" / "events.jsonl").write_bytes(b"no record\n")
    runs, _, _ = load_runs([good, stopped, empty, torn, tmp_path / "missing"])
    assert runs.run_dir.tolist() == [str(good)]
    reasons = {each["run_dir"]: each["reason"] for each in runs.attrs["excluded"]}
    assert reasons[str(stopped)] == "it is stopped, not finished"
    assert reasons[str(empty)] == "it has recorded no epoch"
    assert reasons[str(torn)] == "damaged: no record in events.jsonl is whole"
    assert str(tmp_path / "missing") in reasons
    runs, _, _ = load_runs([good, stopped, empty], require_complete=False)
    assert runs.run_dir.tolist() == [str(good), str(stopped)]


def test_a_run_that_grew_is_read_on(tmp_path):
    folder = write_run(tmp_path / "run", losses=[1.0])
    assert load_runs([folder])[0].epochs.tolist() == [1]
    with FactsWriter(folder) as facts:
        facts.event("on_epoch_end", epoch=1, val_loss=0.5)
        facts.event("on_train_end", status="finished")
    runs, per_epoch, order = load_runs([folder])
    assert runs.epochs.tolist() == [2]
    assert per_epoch[order[0]].val_loss.tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("a: !!python/object/apply:os.system [ls]\n", "not plain YAML"),
        ("a: ${oc.env:HOME}\n", "reads the environment"),
        ("a: ${env:HOME}\n", "reads the environment"),
        ("a: &x [1]\nb: [*x, *x]\n", "aliases"),
        ("[1, 2]\n", "not a mapping"),
        ("a: 2024-13-45\n", "not plain YAML"),
        ("a: 0x_\n", "not plain YAML"),
    ],
)
def test_a_strangers_config_is_refused(tmp_path, config, words):
    write_hydra(tmp_path / "run", config, "[]\n")
    with pytest.raises(FormatError, match=words):
        read_hydra_files(tmp_path / "run")
    write_run(tmp_path / "run", losses=[1.0])
    [left_out] = load_runs([tmp_path / "run"])[0].attrs["excluded"]
    assert "config.yaml" in left_out["reason"]


def test_a_thousand_epochs_with_histories_grow_linearly(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)  # a thousand of them take seconds
    sizes, history = [], []
    with FactsWriter(tmp_path):
        for epoch in range(1000):
            history.append(1.0)
            payload = build_event_payload(
                "on_epoch_end", tmp_path, epoch=epoch, val_loss=1.0, histories={"loss": history}
            )
            append_jsonl_event(tmp_path, payload)
            if epoch % 500 == 499:
                sizes.append((tmp_path / "facts" / "events.jsonl").stat().st_size)
    assert sizes[1] < 2.05 * sizes[0]
