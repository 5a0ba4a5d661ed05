"""Embedding datasets over HTTP: what is stored, whole and unharmed, and nothing beside it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from midstep.client import Client
from midstep.core.errors import ClientError
from midstep.data.build.builders import build_dataset
from midstep.data.steering.curriculum import DistanceGated, LinearZero, curriculum_from
from midstep.data.steering.storage.layout import FORMS
from midstep.data.steering.storage.tables import open_tables
from midstep.server.datasets.data_roots import DataRoots
from midstep.server.datasets.dataset_files import texts_of
from midstep.server.datasets.dataset_map import on_plane, principal_plane
from tests.data.build.text_samples import build_config, topic_rows, write_csv
from tests.served import Served, serving
from tests.server.datasets import PAIRS, SECRET, TOPICS, store_dataset, write_texts

ADDRESS = "/api/v1/datasets"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only to be read."""
    return store_dataset(tmp_path_factory.mktemp("data") / "small")


@pytest.fixture(scope="module")
def shared(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    runs = tmp_path_factory.mktemp("runs")
    with serving(runs, loop=None, datasets=DataRoots(stored.parent)) as made:
        yield made


@pytest.fixture
def root(stored: Path, tmp_path: Path) -> Path:
    """A folder of datasets for tests that spoil it."""
    shutil.copytree(stored, tmp_path / "data" / "small")
    return tmp_path / "data"


def told(served: Served, rest: str = "") -> dict:
    answer = served.ask("GET", f"{ADDRESS}{rest}", token="viewer")
    assert answer.status == 200, answer.body
    return answer.json()


def one_of(root: Path) -> dict:
    """What the list says of the only dataset below a root."""
    from midstep.server.datasets.dataset_views import summary_json

    roots = DataRoots(root)
    (only,) = roots.listing()
    return summary_json(only)


# -- the list --------------------------------------------------------------------------------------


def test_without_a_named_folder_there_is_nothing(tmp_path):
    with serving(tmp_path, loop=None) as served:
        assert told(served) == {"datasets": [], "total": 0, "roots": 0}


def test_datasets_are_listed_newest_first_with_their_counts(root, tmp_path):
    shutil.copytree(root / "small", tmp_path / "other" / "small")
    os.utime(tmp_path / "other" / "small" / "config.json", (2e9, 2e9))
    shutil.copytree(root / "small", root / ".being-written")
    (root / "no dataset").mkdir()
    with serving(
        tmp_path / "runs", loop=None, datasets=DataRoots(root, tmp_path / "other")
    ) as served:
        listed = told(served)
    assert [each["id"] for each in listed["datasets"]] == ["small~2", "small"]
    assert (listed["total"], listed["roots"]) == (2, 2)
    first = listed["datasets"][0]
    assert (first["name"], first["state"], first["problem"]) == ("small", "ready", None)
    assert first["counts"]["pairs"] == PAIRS
    assert first["schedule"] == "linear_zero"
    assert first["size_bytes"] > 10_000


def test_a_named_folder_may_itself_be_a_dataset(root):
    assert [each.id for each in DataRoots(root / "small").listing()] == ["small"]


def test_odd_names_get_plain_ids(root):
    (root / "small").rename(root / "boolq größe <b>")
    (only,) = DataRoots(root).listing()
    assert only.id == "boolq_gr__e__b_"
    assert only.name == "boolq größe <b>"


def test_a_folder_that_is_not_there_has_no_datasets(tmp_path):
    assert DataRoots(tmp_path / "nowhere").listing() == []


# -- one dataset -----------------------------------------------------------------------------------


def test_a_dataset_tells_splits_clusters_tiers_and_what_lies_beside(shared, stored):
    tables, found = open_tables(stored), told(shared, "/small")
    assert found["splits"] == {"train": 160, "val": 20, "test": 20}
    assert found["tiers"] == {"1": 800, "2": 600, "3": 600, "4": 400}
    assert found["encoder"] == "hashing-16"
    assert (found["has_texts"], found["has_audit"], found["has_ledger"]) == (True, True, True)
    for each in found["clusters"]:
        members = np.flatnonzero(tables["pair_cluster_id"] == each["cluster"])
        for split in ("train", "val", "test"):
            wanted = len(np.intersect1d(members, tables[f"{split}_idx"]))
            assert each["pairs"][split] == wanted
        mean = tables["centroid_distances"][members].mean()
        assert each["mean_distance"] == pytest.approx(float(mean), rel=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_the_same(stored, tmp_path, form):
    made = store_dataset(tmp_path / "data" / "small", form=form)
    roots = {name: DataRoots(folder.parent) for name, folder in (("here", stored), ("there", made))}
    with serving(tmp_path / "runs", loop=None, datasets=roots["there"]) as served:
        there = told(served, "/small/pairs/17")
        assert told(served, "/small")["form"] == form
    with serving(tmp_path / "more", loop=None, datasets=roots["here"]) as served:
        assert there == told(served, "/small/pairs/17")


def test_a_dataset_without_texts_shows_ids(tmp_path):
    store_dataset(tmp_path / "data" / "bare", texts=False)
    with serving(tmp_path / "runs", loop=None, datasets=DataRoots(tmp_path / "data")) as served:
        found = told(served, "/bare")
        assert (found["has_texts"], found["has_audit"], found["encoder"]) == (False, False, None)
        pair = told(served, "/bare/pairs/3")
        assert (pair["question"], pair["source"]["text"]) == (None, None)
        assert told(served, "/bare/audit") == {
            "audit": None,
            "audit_problem": None,
            "ledger": None,
            "ledger_problem": None,
        }


def test_no_path_of_the_machine_is_told(shared, stored, root):
    for rest in ("", "/small", "/small/map", "/small/pairs", "/small/pairs/0", "/small/audit"):
        body = shared.ask("GET", f"{ADDRESS}{rest}").body
        assert str(stored.parent).encode() not in body
    (root / "small" / "config.json").write_text("{}")
    assert str(root) not in one_of(root)["problem"]


# -- map and pairs ---------------------------------------------------------------------------------


def slow_plane(rows):
    """By the covariance matrix."""
    centred = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    return vectors[:, ::-1][:, :2].T, (values[::-1] / values.sum())[:2]


def test_plane_is_that_of_the_largest_variance():
    rows = np.random.default_rng(0).standard_normal((50, 6)) * [9, 1, 1, 4, 1, 1]
    mean, axes, shares = principal_plane(rows)
    slow_axes, slow_shares = slow_plane(rows)
    np.testing.assert_allclose(np.abs((axes * slow_axes).sum(axis=1)), 1, atol=1e-9)
    np.testing.assert_allclose(shares, slow_shares)
    np.testing.assert_allclose(on_plane(rows, mean, axes).mean(axis=0), 0, atol=1e-9)
    again = principal_plane(rows[::-1])[1]
    np.testing.assert_allclose(again, axes, atol=1e-9)  # no flip


def test_rows_that_are_not_finite_do_not_spoil_the_plane():
    rows = np.eye(4)
    rows[2, 1] = np.nan
    assert np.isfinite(principal_plane(rows)[1]).all()
    assert principal_plane(np.full((3, 4), np.nan))[2].tolist() == [0, 0]


def test_map_tells_where_questions_and_centroids_lie(shared, stored):
    tables, found = open_tables(stored), told(shared, "/small/map")
    questions = found["questions"]
    rows = tables["question_embs"][questions["question"]]
    mean, axes, shares = principal_plane(rows)
    np.testing.assert_allclose(found["shares"], shares)
    places = on_plane(tables["centroid_embs"], mean, axes)
    np.testing.assert_allclose(found["centroids"]["x"], places[:, 0], atol=1e-4)
    np.testing.assert_allclose(questions["y"], on_plane(rows, mean, axes)[:, 1], atol=1e-4)
    assert questions["cluster"] == tables["pair_cluster_id"][questions["pair"]].tolist()
    assert questions["question"] == tables["pair_index"][questions["pair"], 0].tolist()
    assert len(set(questions["question"])) == len(questions["question"])


def test_map_is_a_sample_that_stays_the_same(shared):
    few = told(shared, "/small/map?points=20")
    assert 1 <= len(few["questions"]["x"]) <= 20
    assert few == told(shared, "/small/map?points=20")
    assert few["of"] == PAIRS


@pytest.mark.parametrize("split", [None, "train", "val"])
@pytest.mark.parametrize("cluster", [None, 2])
def test_pairs_are_those_of_split_and_cluster(shared, stored, split, cluster):
    tables = open_tables(stored)
    wanted = np.arange(PAIRS) if split is None else tables[f"{split}_idx"]
    if cluster is not None:
        wanted = wanted[tables["pair_cluster_id"][wanted] == cluster]
    asked = "&".join(
        f"{name}={value}"
        for name, value in (("split", split), ("cluster", cluster))
        if value is not None
    )
    found = told(shared, f"/small/pairs?{asked}&offset=1&limit=3")
    assert found["total"] == len(wanted)
    assert [each["pair"] for each in found["pairs"]] == wanted[1:4].tolist()
    if split is not None:
        assert {each["split"] for each in found["pairs"]} <= {split}


def test_pairs_beyond_the_end_are_none(shared):
    assert told(shared, "/small/pairs?offset=5000")["pairs"] == []
    assert told(shared, "/small/pairs?cluster=999") == {"pairs": [], "offset": 0, "total": 0}


def cosine(one, other) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_a_pair_tells_all_that_a_batch_is_made_of(shared, stored):
    tables, found = open_tables(stored), told(shared, "/small/pairs/17")
    question_id, source_id = tables["pair_index"][17]
    question = tables["question_embs"][question_id].astype(np.float64)
    source = tables["source_embs"][source_id].astype(np.float64)
    assert (found["question_id"], found["source"]["id"]) == (question_id, source_id)
    assert found["source"]["similarity"] == pytest.approx(cosine(question, source))
    assert found["question"].startswith("Are ")
    assert [each["id"] for each in found["negatives"]] == tables["hard_negatives"][17].tolist()
    assert [each["tier"] for each in found["negatives"]] == tables["negative_tiers"][17].tolist()
    negative = found["negatives"][5]
    near = cosine(question, tables["source_embs"][negative["id"]].astype(np.float64))
    assert negative["similarity"] == pytest.approx(near)
    assert negative["of_positive"] == pytest.approx(near / cosine(question, source))
    assert [each["id"] for each in found["keywords"]] == tables["pair_keyword_ids"][17].tolist()
    assert all(each["text"] in TOPICS for each in found["keywords"])
    vector = tables["steering_residual"][17].astype(np.float64)
    residual = found["steering"][2]
    assert residual["variant"] == "residual"
    assert residual["length"] == pytest.approx(1, abs=1e-5)
    assert residual["to_source"] == pytest.approx(cosine(vector, source))
    assert residual["to_centroid"] == pytest.approx(0, abs=1e-5)


def test_a_pair_tells_the_variants_that_training_draws(shared, stored):
    tables = open_tables(stored)
    config = tables.config
    found = told(shared, "/small/pairs/17")["variants"]
    schedule = curriculum_from(config.curriculum)
    pairs, near = np.array([17]), tables["centroid_distances"][[17]]
    for epoch in (0, 9, 99):
        drawn = schedule.variants(
            config.random_seed, epoch, pairs, near, config.steering_probabilities
        )
        assert found[epoch] == drawn[0]


def test_texts_are_given_as_they_are(shared):
    assert told(shared, "/small/pairs/0")["question"] == SECRET


@pytest.mark.parametrize("pair", [str(PAIRS), "-1", "1.5", "٣", "1" * 13, "x"])
def test_unknown_pairs_are_404(shared, pair):
    assert shared.ask("GET", f"{ADDRESS}/small/pairs/{quote(pair)}").status == 404


# -- curriculum and audit --------------------------------------------------------------------------


def test_curriculum_has_the_datasets_own_schedule_first(shared):
    found = told(shared, "/small/curriculum?epochs=60")
    assert [each["name"] for each in found["schedules"]] == [
        "linear_zero",
        "distance_gated",
        "bands",
    ]
    assert [each["own"] for each in found["schedules"]] == [True, False, False]
    for each in found["schedules"]:
        assert len(each["shares"]) == 60
        np.testing.assert_allclose(np.sum(each["shares"], axis=1), 1)
    assert found["schedules"][2]["shares"][12] == [0.5, 0.3, 0.15, 0.05]
    zero = LinearZero().shares(30, open_shares())[0]
    assert found["schedules"][0]["shares"][30][0] == pytest.approx(zero)


def open_shares() -> dict[str, float]:
    return {"zero": 0.1, "centroid": 0.2, "keyword": 0.3, "residual": 0.4}


@pytest.mark.parametrize("epoch", [0, 4, 20])
def test_gated_shares_are_those_that_training_draws(shared, stored, epoch):
    tables = open_tables(stored)
    distances = tables["centroid_distances"][tables["train_idx"]]
    (gated,) = [
        each for each in told(shared, "/small/curriculum")["schedules"] if each["largest_distance"]
    ]
    beyond = (distances > np.float32(DistanceGated().largest_distance(epoch))).mean()
    assert gated["beyond"][epoch] == pytest.approx(beyond)
    assert gated["beyond"][0] > 0.2
    many = np.arange(200_000)
    drawn = DistanceGated().variants(1, epoch, many, np.resize(distances, len(many)), open_shares())
    counts = np.bincount(drawn, minlength=4) / len(many)
    np.testing.assert_allclose(counts, gated["shares"][epoch], atol=0.006)


def test_audit_and_ledger_are_told_in_parts(shared):
    found = told(shared, "/small/audit?limit=1&offset=1")
    assert not found["audit"]["clean"]
    levels = found["audit"]["levels"]
    assert {name: level["leaks"] for name, level in levels.items()} == {
        "question": 0,
        "source_text": 1,
        "near_duplicate": 2,
    }
    assert levels["near_duplicate"]["threshold"] == 0.95
    assert levels["near_duplicate"]["examples"][0]["similarity"] == 0.97
    ledger = found["ledger"]
    assert (ledger["short_pairs"], ledger["kept"], ledger["offset"]) == (2, 2, 1)
    assert ledger["dropped"] == 1
    assert [each["pair"] for each in ledger["shortages"]] == [42]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "not strict JSON"),
        (b"[]", "does not have format 1"),
        (b'{"format": 2}', "does not have format 1"),
        (b'{"format": 1}', "lacks fields"),
        (b'{"format": 1, "levels": {"question": 3}, "clean": true}', "lacks fields"),
        (b'{"format": 1, "levels": [], "shortages": 4}', "lacks fields"),
        (b"[" * 100_000, "not strict JSON"),
    ],
)
def test_damaged_reports_are_named_and_the_rest_is_shown(root, tmp_path, content, why):
    for name in ("audit.json", "ledger.json"):
        (root / "small" / name).write_bytes(content)
    with serving(tmp_path / "runs", loop=None, datasets=DataRoots(root)) as served:
        found = told(served, "/small/audit")
        assert why in found["audit_problem"]
        assert why in found["ledger_problem"]
        assert told(served, "/small")["counts"]["pairs"] == PAIRS


def test_what_the_builder_writes_is_understood(tmp_path):
    table = write_csv(tmp_path / "pairs.csv", topic_rows(120))
    (tmp_path / "data").mkdir()
    built = build_dataset(build_config(table, tmp_path / "data" / "built"))
    with serving(tmp_path / "runs", loop=None, datasets=DataRoots(built.parent)) as served:
        found = told(served, "/built")
        assert (found["has_texts"], found["has_audit"], found["has_ledger"]) == (True, True, True)
        assert found["encoder"].startswith("hashing")
        audit = told(served, "/built/audit")
        assert (audit["audit_problem"], audit["ledger_problem"]) == (None, None)
        assert set(audit["audit"]["levels"]) == {"question", "source_text", "near_duplicate"}
        assert sum(audit["ledger"]["made"].values()) == 6 * found["counts"]["pairs"]
        pair = told(served, "/built/pairs/0")
    assert pair["question"].startswith("What of ")
    assert all(each["text"].startswith("On ") for each in pair["negatives"])


# -- what must not happen --------------------------------------------------------------------------

ODD_IDS = [
    "..",
    "%2e%2e",
    "..%2fsmall",
    "a%00b",
    "x" * 5000,
    "%ff%fe",
    "<script>",
    "linked",
    "small~2",
]
RESTS = ["", "/map", "/pairs", "/pairs/0", "/curriculum", "/audit"]


@pytest.mark.parametrize("dataset_id", ODD_IDS, ids=lambda text: text[:20])
def test_every_wrong_id_gets_the_same_answer(shared, stored, dataset_id):
    linked = stored.parent / "linked"
    if not linked.is_symlink():
        linked.symlink_to(stored, target_is_directory=True)
    unknown = shared.ask("GET", "/api/v1/runs/zzzzzzzzzzzz")
    for rest in RESTS:
        answer = shared.ask("GET", f"{ADDRESS}/{dataset_id}{rest}")
        assert (answer.status, answer.body) == (404, unknown.body), rest


@pytest.mark.parametrize(
    "name", ["question_embs.npy", "config.json", "texts/sources.jsonl", "audit.json"]
)
def test_a_link_out_of_the_folder_is_not_followed(root, tmp_path, name):
    file = root / "small" / name
    shutil.move(file, tmp_path / "secret")
    file.symlink_to(tmp_path / "secret")
    with serving(tmp_path / "runs", loop=None, datasets=DataRoots(root)) as served:
        if name == "config.json":  # then it is no dataset at all
            assert told(served)["datasets"] == []
            return
        (line,) = told(served)["datasets"]
        assert line["state"] == "damaged"
        assert f"{name} is not a regular file" in line["problem"]
        for rest in ("", "/map", "/pairs", "/pairs/0", "/curriculum"):
            answer = served.ask("GET", f"{ADDRESS}/small{rest}")
            assert (answer.status, answer.json()["error"]) == (409, "damaged")
        if name == "audit.json":
            assert told(served, "/small/audit")["audit"] is None


def test_a_pipe_in_a_files_place_holds_nobody_up(root):
    (root / "small" / "source_embs.npy").unlink()
    os.mkfifo(root / "small" / "source_embs.npy")
    assert "source_embs.npy is not a regular file" in one_of(root)["problem"]


@pytest.mark.parametrize(
    ("name", "at", "value", "rest"),
    [
        ("hard_negatives", (3, 1), 10**6, "/pairs/3"),
        ("pair_index", (3, 0), -5, "/pairs/3"),
        ("pair_index", (3, 1), 10**6, "/pairs/3"),
        ("pair_cluster_id", (3,), 99, ""),
        ("train_idx", (0,), 10**9, "/pairs"),
        ("pair_keyword_ids_offsets", (4,), 10**9, "/pairs/3"),
        ("pair_keyword_ids_values", (0,), -1, "/pairs/1"),
        ("pair_index", (3, 0), 10**6, "/map?points=5000"),
    ],
)
def test_ids_that_lead_nowhere_are_told_with_file_and_value(root, tmp_path, name, at, value, rest):
    file = root / "small" / f"{name}.npy"
    table = np.load(file)
    table[at] = value
    np.save(file, table)
    with serving(tmp_path / "runs", loop=None, datasets=DataRoots(root)) as served:
        answer = served.ask("GET", f"{ADDRESS}/small{rest}")
        assert (answer.status, answer.json()["error"]) == (409, "damaged")
        assert str(value) in answer.json()["message"]


def test_numbers_that_are_not_finite_travel(root, tmp_path):
    for name in ("question_embs", "centroid_distances", "steering_residual"):
        table = np.load(root / "small" / f"{name}.npy")
        table[:4] = np.nan
        np.save(root / "small" / f"{name}.npy", table)
    with serving(tmp_path / "runs", loop=None, datasets=DataRoots(root)) as served:
        assert told(served, "/small/pairs/0")["distance"] == "NaN"
        assert told(served, "/small/pairs?limit=2")["pairs"][0]["distance"] == "NaN"
        assert "NaN" in told(served, "/small/map?points=5000")["questions"]["x"]
        told(served, "/small")
        told(served, "/small/curriculum")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b'{"n_pairs": "many"}'])
def test_damaged_datasets_are_listed_with_the_reason(root, content):
    (root / "small" / "config.json").write_bytes(content)
    line = one_of(root)
    assert line["state"] == "damaged"
    assert line["problem"]


def test_a_cut_table_is_refused_and_named(root, tmp_path):
    file = root / "small" / "source_embs.npy"
    file.write_bytes(file.read_bytes()[:200])
    with serving(tmp_path / "runs", loop=None, datasets=DataRoots(root)) as served:
        answer = served.ask("GET", f"{ADDRESS}/small")
    assert (answer.status, answer.json()["error"]) == (409, "damaged")
    assert "source_embs.npy" in answer.json()["message"]
    assert str(root) not in answer.json()["message"]


def test_a_dataset_that_is_written_again_is_read_again(root, tmp_path):
    with serving(tmp_path / "runs", loop=None, datasets=DataRoots(root)) as served:
        before = told(served, "/small")["seed"]
        config = json.loads((root / "small" / "config.json").read_text())
        (root / "small" / "config.json").write_text(json.dumps({**config, "random_seed": 1234}))
        after = told(served, "/small")["seed"]
    assert (before, after) == (7, 1234)


@pytest.mark.parametrize("form", ["pt", "hdf5"])
def test_a_form_that_is_read_whole_has_a_limit(tmp_path, monkeypatch, form):
    from midstep.server.datasets import data_roots

    monkeypatch.setattr(data_roots, "MOST_LOADED_BYTES", 1000)
    store_dataset(tmp_path / "data" / "large", form=form)
    with serving(tmp_path / "runs", loop=None, datasets=DataRoots(tmp_path / "data")) as served:
        answer = served.ask("GET", f"{ADDRESS}/large")
    assert answer.status == 409
    assert "midstep data convert" in answer.json()["message"]


def test_texts_survive_odd_offsets_and_lines(root):
    (only,) = DataRoots(root).listing()
    write_texts(
        root / "small",
        "questions",
        ["one", "zwei\nü", "\ud800".encode("utf-8", "replace").decode()],
    )
    assert texts_of(only, "questions", [1, 0, 7]) == {0: "one", 1: "zwei\nü", 7: None}
    folder = root / "small" / "texts"
    offsets = np.load(folder / "questions.offsets.npy")
    for odd in (offsets[::-1], offsets + 10**12, offsets - 1, offsets * 2**40):
        np.save(folder / "questions.offsets.npy", odd)
        assert texts_of(only, "questions", [0])[0] is None
    np.save(folder / "questions.offsets.npy", offsets.astype(np.float64))
    assert texts_of(only, "questions", [0]) == {0: None}
    (folder / "questions.offsets.npy").write_bytes(b"\x93NUMPY")
    assert texts_of(only, "questions", [0]) == {0: None}


# -- the client ------------------------------------------------------------------------------------


def test_the_client_reads_what_the_page_reads(shared):
    client = Client(shared.url, token=shared.tokens.viewer)
    assert [each["id"] for each in client.datasets.list()] == ["small"]
    small = client.datasets.get("small")
    assert small.info()["counts"]["pairs"] == PAIRS
    assert small.pairs(split="val", limit=5)["total"] == 20
    assert small.pair(17)["pair"] == 17
    assert small.map(points=10)["of"] == PAIRS
    assert small.curriculum(epochs=3)["epochs"] == 3
    assert small.audit()["ledger"]["short_pairs"] == 2
    with pytest.raises(ClientError) as caught:
        client.datasets.get("../small").info()
    assert caught.value.status == 404
