"""Forces and similarities over HTTP equal what is computed directly from the training's tensors."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from torch import Tensor

from midstep.loops.bcl import BclTraining
from midstep.loops.bcl_config import BclConfig
from midstep.server.step_views import cosine_matrix as cosine_matrix_module
from midstep.server.step_views import force_views
from tests.served import Served, serving

if TYPE_CHECKING:
    from midstep.session import Run

HIDDEN = 16


class Watched:
    """A served training that stands after three steps."""

    def __init__(self, served: Served, training: BclTraining) -> None:
        self.served, self.training = served, training
        for _ in range(3):
            served.ask("POST", f"{served.debug}/step", {"n": 1})

    def get(self, path: str) -> Any:
        answer = self.served.ask("GET", f"{self.served.debug}/{path}")
        assert answer.status == 200, answer.body
        return answer.json()

    def refused(self, path: str) -> tuple[int, str]:
        answer = self.served.ask("GET", f"{self.served.debug}/{path}")
        return answer.status, answer.json()["message"]

    @property
    def data(self) -> dict[str, Any]:
        return dict(self.served.controller.captures.reader.shown().values)


def watched(folder: Path, condition: Any) -> Iterator[Watched]:
    training = BclTraining(BclConfig(condition=condition, steps=50, hidden=HIDDEN))
    with serving(folder, loop=training.train) as served:
        yield Watched(served, training)


@pytest.fixture
def novelty(tmp_path: Path) -> Iterator[Watched]:
    yield from watched(tmp_path, "novelty")


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Watched]:
    yield from watched(tmp_path, "control")


def cosine(a: Tensor, b: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=0))


def direct_matrix(rows: Tensor) -> Tensor:
    unit = torch.nn.functional.normalize(rows.double().flatten(1), dim=1)
    return unit @ unit.T


def off_diagonal(matrix: Tensor) -> Tensor:
    return matrix[~torch.eye(len(matrix), dtype=torch.bool)]


def test_forces_are_those_of_the_competition(novelty: Watched) -> None:
    found, data = novelty.get("forces"), novelty.data
    columns = found["features"]
    assert (found["step"], found["tensor"], found["rows"]) == (3, "encoder.weight", HIDDEN)
    assert columns["id"] == list(range(HIDDEN))
    for name in ("grad_magnitude", "som_magnitude", "win_rate", "feature_novelty"):
        np.testing.assert_allclose(columns[name], data["bcl_metrics"][name], rtol=1e-6)
    assert sum(columns["grad_magnitude"]) == pytest.approx(
        float(data["bcl_tensors"]["grad_mask"].sum()), rel=1e-5
    )
    assert found["agree"] + found["fight"] + found["neutral"] == HIDDEN
    assert found["agree"] == columns["verdict"].count("agree")
    assert found["fight"] == columns["verdict"].count("fight")


def test_verdicts_follow_from_cosine_and_medians(novelty: Watched) -> None:
    columns = novelty.get("forces")["features"]
    grad, som = (torch.tensor(columns[name]) for name in ("grad_magnitude", "som_magnitude"))
    least = [0.01 * float(np.median(column)) for column in (grad, som)]
    for row, verdict in enumerate(columns["verdict"]):
        cos = columns["cos_grad_som"][row]
        weak = float(grad[row]) <= least[0] or float(som[row]) <= least[1]
        if weak or abs(cos) < 0.05:
            assert verdict == "neutral"
        else:
            assert verdict == ("agree" if cos > 0 else "fight")


def test_detail_of_every_feature_adds_up_and_has_no_nan(novelty: Watched) -> None:
    weight = novelty.training.model.encoder.weight.detach()
    cosines = novelty.get("forces")["features"]["cos_grad_som"]
    for feature in range(HIDDEN):
        found = novelty.get(f"step_data/force_detail?feature={feature}")
        parts = {
            name: torch.tensor(found[name], dtype=torch.float64)
            for name in ("grad_delta", "som_delta", "combined", "current_weight")
        }
        assert all(len(part) == 784 and bool(part.isfinite().all()) for part in parts.values())
        torch.testing.assert_close(
            parts["combined"], parts["grad_delta"] + parts["som_delta"], rtol=0, atol=1e-15
        )
        assert torch.equal(parts["current_weight"].float(), weight[feature])
        told = novelty.data["bcl_tensors"]["som_delta"][feature]
        assert torch.equal(parts["som_delta"].float(), told)
        assert found["cos_grad_som"] == pytest.approx(
            cosine(parts["grad_delta"], parts["som_delta"]), abs=1e-9
        )
        assert found["cos_grad_som"] == pytest.approx(cosines[feature], abs=1e-12)


def test_combined_is_what_the_weights_did(novelty: Watched) -> None:
    before = novelty.training.model.encoder.weight.detach().clone()
    novelty.served.ask("POST", f"{novelty.served.debug}/step", {"n": 1})
    moved = novelty.training.model.encoder.weight.detach() - before
    found = novelty.get("step_data/force_detail?feature=5")
    assert found["step"] == 4
    torch.testing.assert_close(torch.tensor(found["combined"]), moved[5], rtol=0, atol=1e-7)


@pytest.mark.parametrize("source", ["weights", "som_targets", "grad_delta"])
def test_matrix_equals_a_direct_computation(novelty: Watched, source: str) -> None:
    found = novelty.get(f"cosine_matrix?source={source}")
    change = novelty.served.controller.weight_changes.get()
    rows = {
        "weights": novelty.training.model.encoder.weight.detach(),
        "som_targets": novelty.data["bcl_tensors"]["som_targets"],
        "grad_delta": change.after - change.before - novelty.data["bcl_tensors"]["som_delta"],
    }[source]
    expected = direct_matrix(rows)
    off = off_diagonal(expected)
    assert found["labels"] == [str(row) for row in range(HIDDEN)]
    assert (found["source"], found["averaged"], found["note"]) == (source, False, None)
    near = 1e-6 if source != "grad_delta" else 1e-4  # small differences of float32 weights
    torch.testing.assert_close(
        torch.tensor(found["matrix"], dtype=torch.float64), expected, rtol=0, atol=near
    )
    assert found["mean_offdiag"] == pytest.approx(float(off.mean()), abs=near)
    assert found["std_offdiag"] == pytest.approx(float(off.std(correction=0)), abs=near)
    assert found["max_offdiag"] == pytest.approx(float(off.max()), abs=near)


def test_rows_are_ordered_as_asked(novelty: Watched) -> None:
    by_id = torch.tensor(novelty.get("cosine_matrix")["matrix"])
    rates = novelty.get("forces")["features"]["win_rate"]
    for order in ("cluster", "metric:win_rate"):
        found = novelty.get(f"cosine_matrix?order={order}")
        places = found["permutation"]
        assert sorted(places) == list(range(HIDDEN))
        assert found["labels"] == [str(row) for row in places]
        assert torch.equal(torch.tensor(found["matrix"]), by_id[places][:, places])
    assert [rates[row] for row in places] == sorted(rates, reverse=True)


def test_control_answers_the_same_routes_with_one_force(control: Watched) -> None:
    found = control.get("forces")
    columns = found["features"]
    assert (found["agree"], found["fight"], found["neutral"]) == (0, 0, HIDDEN)
    assert columns["som_magnitude"] == columns["cos_grad_som"] == [0.0] * HIDDEN
    assert min(columns["grad_magnitude"]) > 0
    assert len(columns["win_rate"]) == HIDDEN
    detail = control.get("step_data/force_detail?feature=2")
    assert detail["combined"] == detail["grad_delta"]
    assert set(detail["som_delta"]) == {0.0}
    expected = direct_matrix(control.training.model.encoder.weight.detach())
    matrix = torch.tensor(control.get("cosine_matrix")["matrix"], dtype=torch.float64)
    torch.testing.assert_close(matrix, expected, rtol=0, atol=1e-6)
    status, words = control.refused("cosine_matrix?source=som_targets")
    assert (status, "no targets for the rows of encoder.weight" in words) == (409, True)


# -- tensors of any shape -------------------------------------------------------------------------


def train_shapes(run: Run, tensors: dict[str, Tensor]) -> None:
    """A loop that moves all of its tensors a little."""
    for name in tensors:
        run.controller.watches.add_source(name, functools.partial(dict.__getitem__, tensors, name))
    going = run.controller.boundary.enter()
    while going:
        for tensor in tensors.values():
            if tensor.is_floating_point():
                tensor.add_(torch.randn_like(tensor), alpha=0.01)
        going = run.controller.wait_if_paused()


def shapes(folder: Path, **tensors: Tensor) -> Any:
    return serving(folder, loop=functools.partial(train_shapes, tensors=tensors))


def step(served: Served) -> None:
    assert served.ask("POST", f"{served.debug}/step", {"n": 1}).json()["parked"] is True


def ask(served: Served, path: str, expect: int = 200) -> Any:
    answer = served.ask("GET", f"{served.debug}/{path}")
    assert answer.status == expect, answer.body
    return answer.json()


def test_rows_of_a_kernel_are_flattened(tmp_path: Path) -> None:
    with shapes(tmp_path, kernel=torch.randn(6, 3, 5, 5)) as served:
        step(served)
        found = ask(served, "step_data/force_detail?feature=1")
        assert (len(found["combined"]), found["row_shape"]) == (75, [3, 5, 5])
        assert len(ask(served, "cosine_matrix")["matrix"]) == 6


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.ones(4), "1-dimensional"),
        (torch.ones(4, 4, dtype=torch.int64), "no floating-point numbers"),
    ],
)
def test_tensors_without_rows_are_refused(tmp_path: Path, tensor: Tensor, words: str) -> None:
    with shapes(tmp_path, odd=tensor, plain=torch.randn(2, 3)) as served:
        step(served)
        for path in ("forces", "cosine_matrix", "step_data/force_detail?feature=0"):
            mark = "&" if "?" in path else "?"
            answer = ask(served, f"{path}{mark}tensor=odd", expect=409)
            assert words in answer["message"]
        assert ask(served, "forces")["tensors"] == ["plain"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("forces?tensor=none", 422, "no tensor 'none'; there are plain"),
        ("step_data/force_detail", 422, "feature"),
        ("step_data/force_detail?feature=-1", 422, "feature"),
        ("step_data/force_detail?feature=2", 422, "has 2 rows; there is no feature 2"),
        ("cosine_matrix?source=other", 422, "source"),
        ("cosine_matrix?order=random", 422, "order"),
        ("cosine_matrix?order=metric:luck", 422, "no metric 'luck'"),
    ],
)
def test_wrong_questions_are_told_what_is_right(
    tmp_path: Path, path: str, status: int, words: str
) -> None:
    with shapes(tmp_path, plain=torch.randn(2, 3)) as served:
        ask(served, "state")
        step(served)
        assert words in ask(served, path, expect=status)["message"]


def test_before_the_first_step_there_are_weights_but_no_forces(tmp_path: Path) -> None:
    with shapes(tmp_path, plain=torch.randn(2, 3)) as served:
        assert ask(served, "cosine_matrix")["step"] == 0
        assert "Make one step" in ask(served, "forces", expect=409)["message"]
        step(served)
        assert ask(served, "forces")["step"] == 1


def test_forces_of_a_running_loop_come_without_any_viewer(tmp_path: Path) -> None:
    with shapes(tmp_path, plain=torch.randn(2, 3)) as served:
        served.controller.resume()
        assert ask(served, "forces")["step"] >= 1
        assert served.controller.captures.viewers == 0


def test_many_rows_are_averaged_with_statistics_of_all(tmp_path: Path) -> None:
    rows = torch.randn(1100, 8)
    with shapes(tmp_path, many=rows) as served:
        found = ask(served, "cosine_matrix")
        expected = direct_matrix(rows)
        off = off_diagonal(expected)
        assert (len(found["matrix"]), found["averaged"], found["rows"]) == (512, True, 1100)
        assert "1,100 rows in 512 blocks" in found["note"]
        assert (found["labels"][0], found["labels"][-1]) == ("0-1", "1097-1099")
        assert found["matrix"][0][0] == pytest.approx(float(expected[:2, :2].mean()), abs=1e-6)
        assert found["std_offdiag"] == pytest.approx(float(off.std(correction=0)), abs=1e-9)
        assert found["max_offdiag"] == pytest.approx(float(off.max()), abs=1e-9)
        answer = served.ask("GET", f"{served.debug}/cosine_matrix?full=1&format=safetensors")
        sent = load(answer.body)
        np.testing.assert_allclose(sent["matrix"], expected.numpy(), atol=1e-6)
        assert sent["permutation"].tolist() == list(range(1100))


def test_forces_of_some_rows_at_a_time_are_those_of_all(
    novelty: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = novelty.get("forces")
    monkeypatch.setattr(force_views, "CHUNK_ELEMENTS", 3 * 784)
    assert novelty.get("forces") == whole


@pytest.mark.parametrize(
    ("limit", "order", "words"),
    [
        ("MAX_MATRIX_ROWS", "id", "has 6 rows; cosines of all pairs are computed up to 5"),
        ("MAX_WHOLE_ROWS", "cluster", "as a whole or clustered are computed up to 5"),
        ("MAX_ELEMENTS", "id", "has 18 elements"),
    ],
)
def test_matrix_that_would_take_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, order: str, words: str
) -> None:
    monkeypatch.setattr(cosine_matrix_module, limit, 5)
    with shapes(tmp_path, plain=torch.randn(6, 3)) as served:
        told = ask(served, f"cosine_matrix?order={order}", expect=409)["message"]
        assert words in told


def test_rows_beyond_the_table_are_counted_but_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(force_views, "MAX_TABLE_ROWS", 4)
    with shapes(tmp_path, plain=torch.randn(6, 3)) as served:
        step(served)
        found = ask(served, "forces")
        assert (len(found["features"]["id"]), found["rows"], found["neutral"]) == (4, 6, 6)
        assert found["note"] == "the first 4 of 6 rows; the counts are of all"


def test_zero_and_infinite_rows_are_defined(tmp_path: Path) -> None:
    rows = torch.tensor([[1.0, 0.0], [0.0, 0.0], [float("inf"), 1.0]])
    with serving(tmp_path, loop=functools.partial(_stand, rows)) as served:
        step(served)
        matrix = ask(served, "cosine_matrix")["matrix"]
        assert matrix[0][:2] == [1.0, 0.0]
        assert matrix[1][1] == 0.0
        assert matrix[2][2] == "NaN"
        columns = ask(served, "forces")["features"]
        assert columns["verdict"] == ["neutral"] * 3
        assert columns["grad_magnitude"][:2] == [0.0, 0.0]


def _stand(rows: Tensor, run: Run) -> None:
    run.controller.watches.add_source("rows", lambda: rows)
    going = run.controller.boundary.enter()
    while going:
        going = run.controller.wait_if_paused()


def test_huge_tensor_is_refused_and_never_copied(tmp_path: Path) -> None:
    huge = torch.empty(10_000, 10_000)  # 10^8 elements; the memory is never touched
    with serving(tmp_path, loop=functools.partial(_stand, huge)) as served:
        step(served)
        for path in ("forces", "cosine_matrix"):
            told = ask(served, path, expect=409)["message"]
            assert "100,000,000 elements" in told
