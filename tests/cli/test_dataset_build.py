"""`midstep data build` and `audit`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midstep.cli.main import main
from midstep.data import ClusterLabeledDataset, open_tables, read_triplets
from midstep.data.text.text_files import Texts
from tests.data.build.text_samples import topic_rows, write_csv

FEW = ["--encoder", "hashing:32", "--negatives", "6", "--clusters", "5"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("table") / "t.csv", topic_rows(120))


def build(table: Path, out: Path, *options: str) -> int:
    return main(["data", "build", str(table), "--out", str(out), *FEW, *options])


def test_build_tells_stages_and_outcome(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(table, tmp_path / "d") == 0
    told = capsys.readouterr().out
    assert "merge\ndeduplicate\nembed\nsplit\ncluster\nlink\nsteering\nmine\nvalidate\n" in told
    assert "pairs: train 96, val 12, test 12; dropped 0" in told
    assert "audit: clean" in told
    assert main(["data", "validate", str(tmp_path / "d")]) == 0
    assert main(["data", "audit", str(tmp_path / "d")]) == 0
    assert "no leak between its splits" in capsys.readouterr().out


def test_build_answers_with_one_line_of_json(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(table, tmp_path / "d", "--json", "--quotas", "6,0,0,0", "--form", "pt") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["clean"] is True
    assert sum(answer["negatives"].values()) == 120 * 6
    assert open_tables(tmp_path / "d").form == "pt"


def test_audit_finds_leaks_and_says_so_by_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {**row, "part": "val" if number < 20 else "train"}
        for number, row in enumerate(topic_rows(100))
    ]
    rows[0]["source"] = rows[50]["source"].upper()
    table = write_csv(tmp_path / "t.csv", rows)
    assert build(table, tmp_path / "d", "--split-column", "part") == 0
    assert "leaks found: midstep data audit" in capsys.readouterr().out
    (tmp_path / "d" / "audit.json").unlink()
    assert main(["data", "audit", str(tmp_path / "d"), "--write"]) == 1
    told = capsys.readouterr().out
    assert "source text: 1" in told
    assert "of train = " in told
    assert json.loads((tmp_path / "d" / "audit.json").read_text())["clean"] is False
    assert main(["data", "audit", str(tmp_path / "d"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["levels"]["source_text"]["leaks"] == 1


def test_cluster_kind_writes_a_dataset_a_split(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(table, tmp_path / "d", "--kind", "cluster") == 0
    sizes = {}
    for split in ("train", "val", "test"):
        dataset = ClusterLabeledDataset(tmp_path / "d" / split)
        sizes[split] = len(dataset)
        base, steering, label = dataset[0]
        assert base.shape == steering.shape == (32,)
        assert label.shape == (5,)
        assert float(label.sum()) == pytest.approx(1, abs=1e-5)
    assert sizes == {"train": 96, "val": 12, "test": 12}
    assert "samples: train 96, val 12, test 12; 5 clusters" in capsys.readouterr().out
    assert json.loads((tmp_path / "d" / "build.json").read_text())["kind"] == "cluster"


def test_triplets_of_a_split_stay_in_it(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(table, tmp_path / "d", "--kind", "triplets", "--k", "2") == 0
    assert "triplets: train 192, val 24, test 24" in capsys.readouterr().out
    used = {
        split: {
            name
            for triplet in read_triplets(tmp_path / "d" / f"{split}.jsonl")
            for name in triplet[:3]
        }
        for split in ("train", "val", "test")
    }
    assert not used["train"] & used["val"]
    assert not used["train"] & used["test"]
    first = next(iter(read_triplets(tmp_path / "d" / "train.jsonl")))
    question = Texts(tmp_path / "d", "questions")[int(first.question_id[1:])]
    right = (first.source_id_1, first.source_id_2)[first.label - 1]
    row = next(each for each in topic_rows(120) if each["question"] == question)
    assert Texts(tmp_path / "d", "sources")[int(right[1:])] == row["source"]


def test_kind_of_triplets_that_cannot_be_is_told(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(table, tmp_path / "d", "--kind", "triplets", "--samples", "positive") == 2
    assert "no positive triplet can be built" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--ratios", "1,2"], "--ratios takes 3 numbers with commas, got '1,2'"),
        (["--ratios", "0.5,0.1,0.1"], "ratios must sum to 1, got 0.7"),
        (["--quotas", "1,1,1,1"], "quotas must sum to n_neg = 6, got 4"),
        (["--quotas", "1.5,1,1,1"], "--quotas takes whole numbers"),
        (["--encoder", "glove"], "encoder 'glove' is unknown; use hashing"),
        (["--source-column", "text"], "has no column 'text', it has 'question'"),
    ],
)
def test_wrong_options_are_told(
    table: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    told: str,
) -> None:
    assert build(table, tmp_path / "d", *options) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "d").exists()


def test_wrong_rows_are_told_line_by_line(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = topic_rows(12)
    rows[0]["relevance"], rows[1]["source"] = "nan", ""
    assert build(write_csv(tmp_path / "t.csv", rows), tmp_path / "d") == 2
    first, one, other = capsys.readouterr().err.splitlines()
    assert first == "midstep: the table cannot be used:"
    assert one == "  t.csv line 2: relevance is 'nan', expected a number from 0 to 1"
    assert other.startswith("  t.csv line 3: source is ''")


def test_interrupted_build_says_how_to_go_on(
    table: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("midstep.data.build.pipeline.mine_stage", _interrupt)
        assert build(table, tmp_path / "d") == 130
    assert "the same command continues this build" in capsys.readouterr().err
    assert build(table, tmp_path / "d") == 0
    assert "steering (was done)\nmine\n" in capsys.readouterr().out


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("cluster", "train: 96 samples, 5 clusters, D = 32; the surest label"),
        ("triplets", "train: 480 triplets"),
    ],
)
def test_other_kinds_are_described_and_checked(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, told: str
) -> None:
    made = tmp_path / "d"
    assert build(table, made, "--kind", kind) == 0
    capsys.readouterr()
    assert main(["data", "info", str(made)]) == 0
    assert told in capsys.readouterr().out
    assert main(["data", "info", str(made), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == kind
    assert main(["data", "validate", str(made)]) == 0
    assert "every file of train, val, test checked" in capsys.readouterr().out
    assert main(["data", "audit", str(made)]) == 2
    assert "is not a steering dataset; midstep data info" in capsys.readouterr().err
    part = made / ("train.jsonl" if kind == "triplets" else "train/base_embeddings.npy")
    part.write_bytes(part.read_bytes()[:-4] + b"oops")
    assert main(["data", "validate", str(made)]) == 2
    assert part.name in capsys.readouterr().err


def test_one_split_of_cluster_labels_is_described_too(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(table, tmp_path / "d", "--kind", "cluster") == 0
    assert main(["data", "info", str(tmp_path / "d" / "val")]) == 0
    assert "val: 12 samples" in capsys.readouterr().out
    assert main(["data", "convert", str(tmp_path / "d" / "val"), str(tmp_path / "e")]) == 2
    assert "open it with ClusterLabeledDataset" in capsys.readouterr().err


def test_help_names_the_extra_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "convert", "--help"]) == 0
    assert "'midstep[data]'" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["build", "audit"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", command, "--help"]) == 0
    assert f"midstep data {command}" in " ".join(capsys.readouterr().out.split())
