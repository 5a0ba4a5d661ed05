from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from safetensors.numpy import load as load_arrays

from midstep.facts import FactsWriter, Lease, LoopProgress
from midstep.server.runs.run_schemas import (
    ConsoleOut,
    CurvesOut,
    DeletedOut,
    FilesOut,
    LineageOut,
    RunList,
    RunOut,
)
from tests.facts.stored_runs import write_run
from tests.served import Served
from tests.server.listed import listing


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these tests is about power cuts."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Six runs, two learning rates and three seeds, for the tests that leave them as they are."""
    with six_runs(tmp_path_factory.mktemp("many") / "runs") as made:
        yield made


@pytest.fixture
def own(root: Path) -> Iterator[Served]:
    """The same for a test that changes them."""
    with six_runs(root) as made:
        yield made


@contextmanager
def six_runs(root: Path) -> Iterator[Served]:
    for number in range(6):
        write_run(root / f"run_{number}", lr=0.1 * (1 + number % 2), seed=number // 2, depth=3)
    with listing(root) as made:
        yield made


def asked(served: Served, query: str = "") -> dict:
    found = served.ask("GET", f"/api/v1/runs?{query}").json()
    RunList.model_validate(found)
    return found


def names(served: Served, query: str) -> list[str]:
    return [run["directory"] for run in asked(served, query)["runs"]]


def id_of(served: Served, directory: str) -> str:
    return next(run["id"] for run in asked(served)["runs"] if run["directory"] == directory)


# -- the list -------------------------------------------------------------------------------------


def test_stored_runs_are_listed_with_all_that_a_table_shows(many):
    found = asked(many)
    assert (found["total"], found["matching"], found["states"]) == (6, 6, {"finished": 6})
    assert found["can_start"] is False
    assert found["has_stream"] is False
    run = next(run for run in found["runs"] if run["directory"] == "run_3")
    assert (run["state"], run["live"], run["reachable"]) == ("finished", False, False)
    assert run["config"] == {"lr": 0.2, "seed": 1, "depth": 3}
    assert run["summary"]["loss"] == 0.1
    assert run["summary"]["best_val_loss"] == 0.5
    assert (run["step"], run["epoch"], run["seed"]) == (10, 1, 1)
    assert run["scalars"] == ["loss", "lr"]
    assert run["bytes"] > 1000
    assert run["ended_at"] >= run["started_at"]


def test_what_varies_comes_first_among_the_columns(many):
    columns = asked(many)["columns"]
    assert columns["config"] == ["lr", "seed", "depth"]
    assert {"loss", "train_loss", "best_val_loss"} <= set(columns["summary"])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=RUN_3", ["run_3"]),
        ("q=run nothing", []),
        ("where=config.lr=0.1&sort=directory", ["run_0", "run_2", "run_4"]),
        ("where=lr>0.15&where=seed<=1&sort=directory", ["run_1", "run_3"]),
        ("where=config.depth!=3", []),
        ("state=failed,lost", []),
        ("state=finished&sort=-directory&limit=2", ["run_5", "run_4"]),
        ("sort=directory&offset=4", ["run_4", "run_5"]),
        ("where=summary.loss>0.05&limit=0", []),
        ("where=config.none=null&sort=directory&limit=1", ["run_0"]),
    ],
)
def test_runs_are_chosen_by_a_query(many, query, expected):
    assert names(many, quote(query, safe="=&")) == expected


def test_runs_are_grouped_with_the_spread_of_their_values(many):
    groups = asked(many, "group=config.lr")["groups"]
    assert [(group["value"], group["count"]) for group in groups] == [(0.1, 3), (0.2, 3)]
    loss = groups[0]["summary"]["loss"]
    assert loss == pytest.approx({"mean": 0.1, "std": 0.0, "count": 3})


def test_only_the_asked_columns_travel(many):
    (run,) = asked(many, "columns=config.lr,summary.loss&q=run_0")["runs"]
    assert (run["config"], run["summary"]) == ({"lr": 0.1}, {"loss": 0.1})


@pytest.mark.parametrize(
    "query", ["where=nothing", "limit=-1", "offset=x", "limit=99999", f"q={'x' * 300}"]
)
def test_a_query_that_makes_no_sense_is_refused(many, query):
    assert many.ask("GET", f"/api/v1/runs?{query}").status == 422


def test_unknown_values_are_sorted_last_either_way(root):
    write_run(root / "a", lr=1)
    write_run(root / "b")
    write_run(root / "c", lr=2)
    with listing(root) as served:
        assert names(served, "sort=config.lr") == ["a", "c", "b"]
        assert names(served, "sort=-config.lr") == ["c", "a", "b"]


def test_a_live_run_stands_in_the_list_with_its_state_now(root):
    with (
        listing_of_one_live(root) as served,
        FactsWriter(root / "live") as facts,
        Lease.acquire(root / "live", facts.run_id) as lease,
    ):
        lease.report_progress(
            lambda: LoopProgress(step=4, boundaries=4, moving=False, state="paused")
        )
        served.app.state.catalog.mark_stale()
        run = next(run for run in asked(served)["runs"] if run["directory"] == "live")
        assert (run["state"], run["step"], run["live"]) == ("paused", 4, True)


def listing_of_one_live(root: Path):
    root.mkdir()
    return listing(root)


def test_nan_travels_as_a_word(root):
    with FactsWriter(root / "a") as facts:
        facts.log(1, loss=float("nan"), gap=float("-inf"))
    with listing(root) as served:
        (run,) = asked(served)["runs"]
    assert run["summary"] == {"loss": "NaN", "gap": "-Infinity"}


def test_names_with_markup_travel_as_text(root):
    odd = {"__proto__": 1, "=HYPERLINK(1)": "<b>", "a": "\u202eevil"}
    write_run(root / "a", name="<img src=x onerror=alert(1)>", **odd)
    with listing(root) as served:
        answer = served.ask("GET", "/api/v1/runs")
    (run,) = answer.json()["runs"]
    assert (run["name"], run["config"]) == ("<img src=x onerror=alert(1)>", odd)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


# -- curves ---------------------------------------------------------------------------------------


def curves(served: Served, query: str) -> dict:
    found = served.ask("GET", f"/api/v1/curves?{query}").json()
    CurvesOut.model_validate(found)
    return found["curves"]


def test_curves_of_several_runs_come_together(many):
    first, second = id_of(many, "run_0"), id_of(many, "run_1")
    found = curves(many, f"runs={first},{second},nobody&name=loss")
    assert set(found) == {first, second}
    assert found[first]["x"] == [float(step) for step in range(1, 11)]
    assert found[first]["low"] == found[first]["high"] == [1 / step for step in range(1, 11)]
    assert (found[first]["exact"], found[first]["count"]) == (True, 10)


def test_curves_over_epochs_and_time(many):
    run = id_of(many, "run_0")
    by_epoch = curves(many, f"runs={run}&name=loss&x=epoch")[run]
    assert by_epoch["x"] == pytest.approx([step / 5 for step in range(1, 11)])
    by_time = curves(many, f"runs={run}&name=loss&x=time")[run]
    assert by_time["x"] == sorted(by_time["x"])
    assert 0 <= by_time["x"][0] < 60
    of_epochs = curves(many, f"runs={run}&name=train_loss&x=epoch")[run]
    assert (of_epochs["x"], of_epochs["low"]) == ([1.0, 2.0], [1.0, 0.5])


def test_long_curves_come_as_buckets_and_as_tensors(many):
    run = id_of(many, "run_0")
    found = curves(many, f"runs={run}&name=loss&points=5")[run]
    assert (found["exact"], len(found["x"]), found["count"]) == (False, 5, 10)
    assert (found["high"][0], found["low"][0]) == (1.0, 0.5)
    answer = many.ask("GET", f"/api/v1/curves?runs={run}&name=loss&points=5&format=safetensors")
    tensors = load_arrays(answer.body)
    assert tensors[f"{run}.low"].tolist() == found["low"]


def test_a_live_page_draws_curves_of_its_own_run(served):
    served.ask("POST", "/debug/step", {"n": 3})
    run = served.run.run_id
    found = curves(served, f"runs={run}&name=loss")
    assert found[run]["x"] == [1.0, 2.0, 3.0]


def test_too_many_runs_at_once_are_refused(many):
    wanted = ",".join(f"{number:012d}" for number in range(300))
    assert many.ask("GET", f"/api/v1/curves?runs={wanted}&name=loss").status == 422


# -- labels ---------------------------------------------------------------------------------------


def test_tags_and_a_note_are_put_on_a_run_and_found_again(own, root):
    path = f"/api/v1/runs/{id_of(own, 'run_2')}"
    answer = own.ask("PATCH", path, {"tags": ["good", " good ", "base"]})
    RunOut.model_validate(answer.json())
    assert answer.json()["tags"] == ["good", "base"]
    assert own.ask("PATCH", path, {"note": "=HYPERLINK(1) <b>"}).json()["tags"] == [
        "good",
        "base",
    ]
    assert names(own, "tag=good&tag=base") == ["run_2"]
    assert names(own, "q=hyperlink") == ["run_2"]
    assert (root / "run_2" / "labels.json").is_file()


@pytest.mark.parametrize(
    "body",
    [
        {"tags": ["x" * 65]},
        {"tags": ["a,b"]},
        {"tags": ["a\nb"]},
        {"tags": [f"t{n}" for n in range(33)]},
        {"tags": "good"},
        {"note": 3},
        {"note": "x" * 10_001},
        {"more": 1},
    ],
)
def test_odd_labels_are_refused(many, body):
    assert many.ask("PATCH", f"/api/v1/runs/{id_of(many, 'run_2')}", body).status == 422


def test_a_live_run_can_be_labelled_through_its_own_page(served):
    path = f"/api/v1/runs/{served.run.run_id}"
    assert served.ask("PATCH", path, {"tags": ["now"]}).json()["tags"] == ["now"]
    assert served.ask("GET", path).json()["tags"] == ["now"]


# -- files and console ----------------------------------------------------------------------------


@pytest.fixture
def furnished(root: Path) -> Iterator[Served]:
    """One run with figures, a console, a foreign file and links out of it."""
    run, outside = root / "a", root.parent / "outside.txt"
    write_run(run)
    outside.write_text("secret")
    (run / "figures").mkdir()
    (run / "figures" / "losses-on_epoch_end-e003.png").write_bytes(b"\x89PNG")
    (run / "figures" / "mine.svg").write_text("<svg><script>alert(1)</script></svg>")
    (run / "figures" / "page.html").write_text("<script>alert(1)</script>")
    (run / "figures" / "link.png").symlink_to(outside)
    (run / "console.log").write_text("first line\nzweite Zeile: größer\n")
    (run / "notes.txt").write_text("mine")
    (run / "out").symlink_to(outside)
    with listing(root) as made:
        yield made


def files_of(served: Served) -> dict[str, dict]:
    found = served.ask("GET", f"/api/v1/runs/{id_of(served, 'a')}/files").json()
    FilesOut.model_validate(found)
    return {file["path"]: file for file in found["files"]}


def content(served: Served, file: str, **how):
    return served.ask("GET", f"/api/v1/runs/{id_of(served, 'a')}/files/{file}", **how)


def test_files_are_listed_by_kind_and_owner(furnished):
    found = files_of(furnished)
    kinds = {path: (file["kind"], file["own"]) for path, file in found.items()}
    assert kinds["facts/events.jsonl"] == ("facts", True)
    assert kinds["figures/losses-on_epoch_end-e003.png"] == ("figure", True)
    assert kinds["figures/mine.svg"] == ("figure", False)
    assert kinds["console.log"] == ("console", True)
    assert kinds["notes.txt"] == ("other", False)
    assert "out" not in kinds
    whole = furnished.ask("GET", f"/api/v1/runs/{id_of(furnished, 'a')}/files").json()
    assert whole["foreign"] == 5
    assert whole["bytes"] == sum(file["bytes"] for file in found.values())
    assert 0 < whole["own_bytes"] < whole["bytes"]


def test_pictures_are_shown_as_pictures_and_all_else_is_saved(furnished):
    found = files_of(furnished)
    png = content(furnished, found["figures/losses-on_epoch_end-e003.png"]["id"])
    assert (png.body, png.headers["content-type"]) == (b"\x89PNG", "image/png")
    svg = content(furnished, found["figures/mine.svg"]["id"])
    assert svg.headers["content-type"].startswith("image/svg+xml")
    page = content(furnished, found["figures/page.html"]["id"])
    assert page.headers["content-type"] == "application/octet-stream"
    assert page.headers["content-disposition"].startswith("attachment")
    for answer in (png, svg, page):
        assert answer.headers["x-content-type-options"] == "nosniff"
    text = content(furnished, found["notes.txt"]["id"])
    assert text.body == b"mine"


def test_a_file_is_only_ever_found_by_its_listed_id(furnished):
    unknown = content(furnished, "0" * 20)
    for file in ("..%2f..%2foutside.txt", "%252e%252e", "notes.txt", "x" * 60, "%00"):
        answer = content(furnished, file)
        assert (answer.status, answer.body) == (404, unknown.body), file
    assert content(furnished, "x" * 5000).status == 422


def test_a_file_that_became_a_link_is_gone(furnished, root):
    file = files_of(furnished)["notes.txt"]["id"]
    (root / "a" / "notes.txt").unlink()
    (root / "a" / "notes.txt").symlink_to(root.parent / "outside.txt")
    assert content(furnished, file).status == 404


def test_who_may_only_look_is_given_figures_alone(furnished):
    found = files_of(furnished)
    png = found["figures/losses-on_epoch_end-e003.png"]["id"]
    assert content(furnished, png, token="viewer").status == 200
    for path in ("facts/events.jsonl", "console.log", "notes.txt"):
        assert content(furnished, found[path]["id"], token="viewer").status == 403
    path = f"/api/v1/runs/{id_of(furnished, 'a')}/console"
    assert furnished.ask("GET", path, token="viewer").status == 403


def console(served: Served, query: str = "") -> dict:
    found = served.ask("GET", f"/api/v1/runs/{id_of(served, 'a')}/console?{query}").json()
    ConsoleOut.model_validate(found)
    return found


def test_the_console_is_read_from_its_tail_and_then_on(furnished, root):
    whole = console(furnished)
    assert whole["text"].endswith("größer\n")
    assert (whole["start"], whole["end"], whole["size"]) == (0, whole["size"], whole["size"])
    with (root / "a" / "console.log").open("ab") as file:
        file.write("späte".encode()[:3])  # cut within the ä
    more = console(furnished, f"after={whole['end']}")
    assert (more["text"], more["end"]) == ("sp", whole["end"] + 2)
    with (root / "a" / "console.log").open("ab") as file:
        file.write("späte".encode()[3:])
    assert console(furnished, f"after={more['end']}")["text"] == "äte"


def test_a_tail_never_begins_or_ends_within_a_character(furnished, root):
    (root / "a" / "console.log").write_text("äöü€🙂" * 3)
    for size in range(40):
        part = console(furnished, f"tail={size}")
        assert "\ufffd" not in part["text"]
        assert len(part["text"].encode()) == part["end"] - part["start"]


def test_a_run_without_a_console_has_an_empty_one(many):
    found = many.ask("GET", f"/api/v1/runs/{id_of(many, 'run_0')}/console").json()
    assert found == {"text": "", "start": 0, "end": 0, "size": 0}


# -- lineage --------------------------------------------------------------------------------------


def test_the_lineage_tells_of_rewinds_and_forks(root):
    parent = write_run(root / "a", end=None)
    with FactsWriter(root / "a", attempt=1) as facts:
        facts.timeline = 1
        facts.event("on_intervention", kind="rewind", who="page", step=3, from_step=9, parent=0)
        facts.event("on_train_end", status="finished")
    (root / "a" / "lineage.json").write_text(
        '{"version":1,"edges":[{"kind":"timeline","timeline":1,"parents":["a"],'
        '"interventions":[{"step":3,"kind":"hparams","old":{"lr":[0.1,0.1]},"new":{"lr":[0.5]}}]}]}'
    )
    child = write_run(root / "b")
    (root / "b" / "lineage.json").write_text(
        '{"version":1,"edges":[{"kind":"fork","parents":["a"],"step":3}]}'
    )
    with listing(root) as served:
        found = served.ask("GET", f"/api/v1/runs/{parent}/lineage").json()
        LineageOut.model_validate(found)
        assert [each["from_step"] for each in found["timelines"]] == [None, 3]
        assert found["timelines"][1]["why"] == "by page, lr 0.1 → 0.5 at step 3"
        assert (found["parent"], found["children"]) == (None, [child])
        assert served.ask("GET", f"/api/v1/runs/{child}/lineage").json()["parent"] == parent


# -- deletion -------------------------------------------------------------------------------------


def delete(served: Served, run: str, confirm: str, **how):
    return served.ask("DELETE", f"/api/v1/runs/{run}", {"confirm": confirm}, **how)


def test_a_deleted_run_is_gone_and_foreign_files_are_named(furnished, root):
    run = id_of(furnished, "a")
    before = furnished.ask("GET", f"/api/v1/runs/{run}/files").json()
    answer = delete(furnished, run, "a").json()
    DeletedOut.model_validate(answer)
    assert answer["removed_bytes"] >= before["own_bytes"]
    assert set(answer["kept"]) == {
        "figures/link.png",
        "figures/mine.svg",
        "figures/page.html",
        "notes.txt",
        "out",
    }
    assert (root.parent / "outside.txt").read_text() == "secret"
    assert asked(furnished)["runs"] == []
    assert not (root / "a" / "facts").exists()


def test_a_deletion_without_the_right_name_changes_nothing(furnished, root):
    for confirm in ("", "b", "A", "../a", "a/"):
        answer = delete(furnished, id_of(furnished, "a"), confirm)
        assert (answer.status, answer.json()["field"]) == (422, "confirm")
    assert furnished.ask("DELETE", f"/api/v1/runs/{id_of(furnished, 'a')}").status == 422
    assert (root / "a" / "facts" / "events.jsonl").exists()


def test_a_live_run_is_not_deleted(root):
    with listing_of_one_live(root) as served, FactsWriter(root / "a") as facts:
        facts.event("on_start", name="a")
        answer = delete(served, facts.run_id, "a")
        assert (answer.status, answer.json()["error"]) == (409, "live")
        assert str(root) not in answer.json()["message"]
        facts.event("on_train_end", status="finished")
        assert delete(served, facts.run_id, "a").status == 409  # its process still holds it
    with listing(root) as served:
        assert delete(served, facts.run_id, "a").status == 200
    assert not (root / "a").exists()


def test_the_page_of_a_run_does_not_delete_it_while_it_is_there(served):
    run = served.run
    assert delete(served, run.run_id, run.dir.name).status == 409
    served.ask("POST", "/debug/stop", {})
    assert delete(served, run.run_id, run.dir.name).status == 409  # its lock is still held here
    assert (run.dir / "facts" / "events.jsonl").exists()


# -- who may --------------------------------------------------------------------------------------


def test_a_viewer_changes_nothing(furnished, root):
    run = id_of(furnished, "a")
    assert delete(furnished, run, "a", token="viewer").status == 403
    answer = furnished.ask("PATCH", f"/api/v1/runs/{run}", {"note": "x"}, token="viewer")
    assert answer.status == 403
    assert not (root / "a" / "labels.json").exists()
    assert (root / "a" / "facts").is_dir()


ODD_IDS = ("..", "a", "%2e%2e", "..%2fa", "%252e%252e%252fa", "a%00", "0" * 12, "x" * 5000)


@pytest.mark.parametrize("what", ["files", "console", "lineage"])
def test_a_run_is_only_ever_found_by_its_listed_id(many, what):
    unknown = many.ask("GET", f"/api/v1/runs/zzzzzzzzzzzz/{what}")
    for run in (*ODD_IDS, "run_0", "run_0%2f"):
        answer = many.ask("GET", f"/api/v1/runs/{run}/{what}")
        assert (answer.status, answer.body) == (404, unknown.body), run


def test_a_directory_that_became_a_link_is_not_opened(own, root, tmp_path):
    run = id_of(own, "run_0")
    shutil.move(root / "run_0", tmp_path / "moved")
    (root / "run_0").symlink_to(tmp_path / "moved")
    for what in ("files", "console", "lineage"):
        assert own.ask("GET", f"/api/v1/runs/{run}/{what}").status == 404
    assert delete(own, run, "run_0").status == 404
    assert (tmp_path / "moved" / "facts" / "events.jsonl").exists()


def test_no_absolute_path_and_no_command_line_is_in_the_list(many):
    body = many.ask("GET", "/api/v1/runs", token="viewer").body
    assert b"runs/" not in body
    assert b"--secret" not in body
    assert b"/home/ada" not in body
