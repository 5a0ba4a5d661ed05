"""A build from end to end: what comes out, how it goes on, what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from midstep.core.errors import DatasetError, StorageError
from midstep.data import JASPERSteeringDataset, open_tables
from midstep.data.build.builders import build_dataset
from midstep.data.build.leak_audit import audit_dataset
from midstep.data.build.stage_cache import BuildProgress
from midstep.data.steering.dataset_checks import validate_dataset
from midstep.data.text.encoders import HashingEncoder
from midstep.data.text.normalise import normalise_text
from midstep.data.text.text_files import Texts
from tests.data.build.text_samples import build_config, topic_rows, write_csv

STAGES = ["merge", "deduplicate", "embed", "split", "cluster", "link", "steering", "mine"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("table") / "t.csv", topic_rows())


@pytest.fixture(scope="module")
def built(table: Path) -> Path:
    return build_dataset(build_config(table, table.with_name("built")))


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but build.json, which tells how long it took."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "build.json"
    }


def test_result_is_a_dataset_that_passes_every_check(built: Path) -> None:
    assert validate_dataset(built) == {"train": 120, "val": 15, "test": 15}
    dataset = JASPERSteeringDataset(built)
    assert dataset.batch([0, 1])["negative_embs"].shape == (2, 6, 32)
    assert not list(built.parent.glob(".built*"))


def test_texts_stand_beside_their_rows(built: Path, table: Path) -> None:
    tables, rows = open_tables(built), topic_rows()
    questions, sources = Texts(built, "questions"), Texts(built, "sources")
    encoder = HashingEncoder(32)
    for pair in (0, 77, 149):
        question, source = (int(each) for each in tables["pair_index"][pair])
        row = next(each for each in rows if each["question"] == questions[question])
        assert sources[source] == row["source"]
        assert tables["pair_relevance"][pair] == pytest.approx(row["relevance"])
        assert np.array_equal(
            tables["question_embs"][question], encoder.encode([row["question"]])[0]
        )
        keywords = Texts(built, "keywords")
        assert [keywords[int(each)] for each in tables["pair_keyword_ids"][pair]] == row[
            "keywords"
        ].split(";")


def test_reports_tell_of_the_build(built: Path) -> None:
    assert read(built, "audit.json")["clean"] is True
    ledger = read(built, "ledger.json")
    assert sum(ledger["made"].values()) == 150 * 6
    assert ledger["dropped"] == 0
    told = read(built, "build.json")
    assert list(told["seconds"]) == STAGES
    assert told["encoder"] == {"name": "hashing:32", "dimension": 32}
    assert told["splits"]["val"] == {"pairs": 15, "questions": 15, "sources": 15}
    assert told["fitted"]["n_clusters"] == 7
    assert open_tables(built).config.steering_definition == "standard"


def test_two_builds_are_equal_to_the_byte(built: Path, table: Path, tmp_path: Path) -> None:
    again = build_dataset(build_config(table, tmp_path / "again"))
    assert contents(again) == contents(built)
    other = build_dataset(build_config(table, tmp_path / "other", seed=4))
    assert contents(other)["train_idx.npy"] != contents(built)["train_idx.npy"]


@pytest.mark.parametrize("form", ["pt", "hdf5"])
def test_other_forms_hold_the_same_tables(built: Path, table: Path, tmp_path: Path, form) -> None:
    pytest.importorskip("h5py")
    made = build_dataset(build_config(table, tmp_path / form, form=form))
    assert open_tables(made).form == form
    assert open_tables(made).config.tables == open_tables(built).config.tables


def test_changed_rows_of_other_splits_change_no_centroid(tmp_path: Path) -> None:
    rows = [
        {**row, "part": ("train", "train", "train", "val", "test")[number % 5]}
        for number, row in enumerate(topic_rows(100))
    ]
    changed = [
        row
        if row["part"] == "train"
        else {**row, "question": f"quite other {number} zebra?", "source": f"lion {number} text"}
        for number, row in enumerate(rows)
    ]
    made = [
        build_dataset(
            build_config(
                write_csv(tmp_path / f"{name}.csv", each),
                tmp_path / name,
                split_column="part",
                n_neg=4,
                margin=1.0,
            )
        )
        for name, each in (("one", rows), ("two", changed))
    ]
    one, two = (open_tables(each) for each in made)
    assert one["centroid_embs"].tobytes() == two["centroid_embs"].tobytes()
    assert read(made[0], "build.json")["fitted"] == read(made[1], "build.json")["fitted"]
    assert one["source_embs"].tobytes() != two["source_embs"].tobytes()


def test_given_split_with_a_shared_source_is_told_by_the_audit(tmp_path: Path) -> None:
    rows = [
        {**row, "part": "val" if number < 25 else "train"}
        for number, row in enumerate(topic_rows(120))
    ]
    rows[0]["source"] = rows[60]["source"].upper()
    made = build_dataset(
        build_config(write_csv(tmp_path / "t.csv", rows), tmp_path / "d", split_column="part")
    )
    report = audit_dataset(made)
    assert report.levels["source_text"].leaks == 1
    assert normalise_text(report.levels["source_text"].examples[0]["text"]) == normalise_text(
        rows[60]["source"]
    )
    assert len(open_tables(made)["test_idx"]) == 0


def test_shared_sources_and_near_duplicates_stay_in_one_split(tmp_path: Path) -> None:
    rows = topic_rows(150)
    for number in range(0, 60, 2):
        rows[number + 1]["source"] = rows[number]["source"]
    for number in range(60, 100, 2):  # one common word more: nearly the same question
        rows[number + 1]["question"] = rows[number]["question"].replace("What of", "So what of")
    made = build_dataset(
        build_config(write_csv(tmp_path / "t.csv", rows), tmp_path / "d", near_duplicate=0.9)
    )
    assert read(made, "audit.json")["clean"] is True
    assert read(made, "audit.json")["levels"]["near_duplicate"]["threshold"] == 0.9
    apart = build_dataset(
        build_config(
            tmp_path / "t.csv", tmp_path / "apart", keep_together="question", near_duplicate=0.9
        )
    )
    levels = read(apart, "audit.json")["levels"]
    assert levels["source_text"]["leaks"] > 0
    assert levels["near_duplicate"]["leaks"] > 0


def test_given_embeddings_take_the_place_of_an_encoder(table: Path, tmp_path: Path) -> None:
    rows = topic_rows()
    chance = np.random.default_rng(0)
    given = tmp_path / "given"
    given.mkdir()
    encoder = HashingEncoder(16)
    for name in ("question", "source"):
        np.save(given / f"{name}s.npy", encoder.encode([row[name] for row in rows]))
    words = sorted({word for row in rows for word in row["keywords"].split(";")})
    np.save(given / "keywords.npy", chance.standard_normal((len(words), 16)))
    (given / "keywords.txt").write_text("\n".join(words))
    made = build_dataset(build_config(table, tmp_path / "d", embeddings=given))
    own = build_dataset(build_config(table, tmp_path / "o", encoder=encoder))
    one, two = open_tables(made), open_tables(own)
    assert one["question_embs"].tobytes() == two["question_embs"].tobytes()
    assert one["hard_negatives"].tobytes() == two["hard_negatives"].tobytes()
    assert read(made, "build.json")["encoder"] == {"name": "given", "dimension": 16}
    for name in ("questions", "sources"):
        np.save(given / f"{name}.npy", np.ones((7, 16)))
    with pytest.raises(DatasetError, match=r"questions\.npy has 7 rows, the tables have 150"):
        build_dataset(build_config(table, tmp_path / "e", embeddings=given))


class InterruptionError(Exception):
    pass


def interrupt_at(stage: str, seen: list[BuildProgress]) -> Any:
    def tell(progress: BuildProgress) -> None:
        seen.append(progress)
        if progress.stage == stage and not progress.reused:
            raise InterruptionError

    return tell


@pytest.mark.parametrize("stage", ["embed", "mine", "validate"])
def test_interrupted_build_goes_on_and_ends_the_same(
    built: Path, table: Path, tmp_path: Path, stage: str
) -> None:
    config = build_config(table, tmp_path / "d")
    with pytest.raises(InterruptionError):
        build_dataset(config, progress=interrupt_at(stage, []))
    assert not (tmp_path / "d").exists()
    seen: list[BuildProgress] = []
    build_dataset(config, progress=seen.append)
    reused = [each.stage for each in seen if each.reused]
    assert reused == (STAGES[: STAGES.index(stage)] if stage in STAGES else STAGES)
    assert contents(tmp_path / "d") == contents(built)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_encoded_batches_are_not_encoded_again(table: Path, tmp_path: Path) -> None:
    asked: list[str] = []

    class Counting(HashingEncoder):
        name = "counting"
        left = 3

        def encode(self, texts):
            if not self.left:
                raise InterruptionError
            self.left -= 1
            asked.extend(texts)
            return super().encode(texts)

    first, second = Counting(32), Counting(32)
    second.left = 10**6
    with pytest.raises(InterruptionError):
        build_dataset(build_config(table, tmp_path / "d", encoder=first, batch_texts=40))
    assert len(asked) == 120
    build_dataset(build_config(table, tmp_path / "d", encoder=second, batch_texts=40))
    assert len(asked) == len(set(asked))


def test_changed_table_is_not_mixed_with_finished_stages(table: Path, tmp_path: Path) -> None:
    own = write_csv(tmp_path / "t.csv", topic_rows())
    with pytest.raises(InterruptionError):
        build_dataset(build_config(own, tmp_path / "d"), progress=interrupt_at("mine", []))
    write_csv(own, topic_rows(seed=8))
    seen: list[BuildProgress] = []
    build_dataset(build_config(own, tmp_path / "d"), progress=seen.append)
    assert not [each for each in seen if each.reused]
    fresh = build_dataset(build_config(own, tmp_path / "fresh"))
    assert contents(tmp_path / "d") == contents(fresh)


def test_changed_setting_makes_only_later_stages_again(table: Path, tmp_path: Path) -> None:
    with pytest.raises(InterruptionError):
        build_dataset(build_config(table, tmp_path / "d"), progress=interrupt_at("validate", []))
    seen: list[BuildProgress] = []
    build_dataset(build_config(table, tmp_path / "d", n_clusters=5), progress=seen.append)
    assert [each.stage for each in seen if each.reused] == STAGES[: STAGES.index("cluster")]


KILLED = """
import os, signal, sys
from pathlib import Path
from midstep.data.build.builders import build_dataset
from tests.data.build.text_samples import build_config

def tell(progress):
    if progress.stage == "mine" and progress.done:
        os.kill(os.getpid(), signal.SIGKILL)

build_dataset(build_config(Path(sys.argv[1]), Path(sys.argv[2])), progress=tell)
"""


def test_killed_build_leaves_no_dataset_and_goes_on(
    built: Path, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "d"
    answer = subprocess.run(
        [sys.executable, "-c", KILLED, str(table), str(out)], check=False, timeout=100
    )
    assert answer.returncode == -signal.SIGKILL
    assert not out.exists()
    seen: list[BuildProgress] = []
    build_dataset(build_config(table, out), progress=seen.append)
    assert [each.stage for each in seen if each.reused] == STAGES[:-1]
    assert contents(out) == contents(built)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_second_build_of_the_same_folder_is_refused(table: Path, tmp_path: Path) -> None:
    config = build_config(table, tmp_path / "d")
    code = (
        "import fcntl, sys; lock = open(sys.argv[1], 'a'); fcntl.lockf(lock, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    config.work_folder.mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(config.work_folder / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StorageError, match="another build works in"):
            build_dataset(config)
    finally:
        holder.stdin.close()
        holder.wait(timeout=60)
        holder.stdout.close()


def test_existing_folder_is_refused_before_any_work(built: Path, table: Path) -> None:
    seen: list[BuildProgress] = []
    with pytest.raises(StorageError, match="there is something of that name already"):
        build_dataset(build_config(table, built), progress=seen.append)
    assert not seen


def test_too_few_sources_is_one_clear_error(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "t.csv", topic_rows(40))
    with pytest.raises(
        DatasetError, match=r"finds 12 negatives, the best finds \d: it has 4 pairs"
    ):
        build_dataset(build_config(table, tmp_path / "d", n_neg=12, n_clusters=3))


def test_folder_without_a_name_is_refused(table: Path) -> None:
    with pytest.raises(DatasetError, match=r"out is '\.'; name a new folder"):
        build_dataset(build_config(table, "."))


def test_build_that_finished_nothing_leaves_nothing(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "t.csv", [*topic_rows(3), {**topic_rows(1)[0], "relevance": 4}])
    with pytest.raises(DatasetError, match="the table cannot be used"):
        build_dataset(build_config(table, tmp_path / "d"))
    assert list(tmp_path.iterdir()) == [table]


def test_question_with_many_sources_has_none_of_them_as_negative(tmp_path: Path) -> None:
    rows = topic_rows(150)
    many = [
        {**rows[0], "source": f"Entry {each} of the long list", "relevance": 1}
        for each in range(600)
    ]
    table = write_csv(tmp_path / "t.csv", [*many, *rows])
    tables = open_tables(build_dataset(build_config(table, tmp_path / "d")))
    mine = tables["pair_index"][:, 0] == 0
    answers = tables["pair_index"][mine, 1]
    assert len(answers) == 601
    assert not np.isin(tables["hard_negatives"][mine], answers).any()


def test_pairs_without_enough_negatives_are_dropped_and_told(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "t.csv", topic_rows(150))
    made = build_dataset(build_config(table, tmp_path / "d", n_neg=14))
    ledger = read(made, "ledger.json")
    tables = open_tables(made)
    assert 0 < ledger["dropped"] == 150 - len(tables["pair_index"])
    assert len(ledger["dropped_pairs"]) == ledger["dropped"]
    assert all(each["found"] < 14 for each in ledger["dropped_pairs"])
