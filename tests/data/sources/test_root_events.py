"""Collision events from ROOT files: what arrives in the HDF5 file, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import uproot

from midstep.cli.main import main
from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError
from midstep.data.sources import DataConfig, make_dataloaders
from midstep.data.sources.root_events import ImportConfig, ImportProgress, import_events

REAL = Path(__file__).parents[4] / "shared" / "data" / "particles" / "uproot-HZZ.root"
EVENTS = 40
PARTICLES = {"jet": "Jet", "muon": "Muon"}


def particles(event: int, kind: str) -> list[tuple[float, float, float, float]]:
    """The particles that the test writes: jets in rising, muons in falling momentum."""
    count = {"jet": event % 5, "muon": 0 if event == 0 else 2}[kind]
    scale = 1 if kind == "jet" else -3
    return [
        (event + scale * n, 2.0 * n, -1.0 * event, 100.0 * event + n) for n in range(1, count + 1)
    ]


def write_root(path: Path, *, without: str = "", missing_value: bool = False) -> Path:
    """A ROOT file with jets, muons, missing energy and a label."""
    import awkward

    branches: dict[str, Any] = {}
    for kind, prefix in PARTICLES.items():
        for index, component in enumerate(("Px", "Py", "Pz", "E")):
            lists = [[each[index] for each in particles(event, kind)] for event in range(EVENTS)]
            branches[f"{prefix}_{component}"] = awkward.values_astype(
                awkward.Array(lists), np.float32
            )
    missing = np.arange(EVENTS, dtype=np.float32)
    branches["MET_px"] = np.where(missing == 7, np.nan, missing) if missing_value else missing
    branches["MET_py"] = -missing
    branches["anomaly"] = (np.arange(EVENTS) == 9).astype(np.int32)
    branches["share"] = np.where(missing == 3, np.nan, missing + 0.5)
    branches["number"] = np.arange(EVENTS, dtype=np.int64) + 2**24
    branches.pop(without, None)
    with uproot.recreate(path) as file:
        file.mktree("events", {name: _type_of(value) for name, value in branches.items()})
        file["events"].extend(branches)
    return path


def _type_of(value: Any) -> str:
    return "var * float32" if value.ndim == 2 else str(value.dtype)


@pytest.fixture(scope="module")
def root_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_root(tmp_path_factory.mktemp("root") / "events.root")


def imported(out: Path) -> dict[int, tuple[list[Any], list[int], list[float]]]:
    """Tokens, types and globals of each event by its number, which MET_px holds."""
    events = {}
    with h5py.File(out) as file:
        for group in file.values():
            for row, values in enumerate(group["globals"][...].tolist()):
                tokens, ids = group["tokens_cont"][row], group["tokens_id"][row]
                events[int(values[0])] = (tokens.tolist(), ids.tolist(), values)
    return events


def test_tokens_are_the_particles_of_the_largest_momentum_ordered_by_type(
    root_file: Path, tmp_path: Path
) -> None:
    out, n_tokens = tmp_path / "events.h5", 4
    result = import_events([root_file], out, ImportConfig(particles=PARTICLES, n_tokens=n_tokens))
    expected = {}
    dropped = 0
    for event in range(EVENTS):
        tokens = [
            (number, *each)
            for number, kind in enumerate(PARTICLES, start=1)
            for each in particles(event, kind)
        ]
        largest = sorted(tokens, key=lambda each: -np.hypot(each[1], each[2]))[:n_tokens]
        ordered = sorted(largest, key=lambda each: (each[0], -np.hypot(each[1], each[2])))
        dropped += len(tokens) - len(ordered)
        padding = n_tokens - len(ordered)
        if ordered:
            expected[event] = (
                [list(each[1:]) for each in ordered] + [[0.0] * 4] * padding,
                [each[0] for each in ordered] + [0] * padding,
                [event, -event],
            )
    assert imported(out) == expected
    assert (result.empty_events, result.dropped_particles) == (1, dropped)
    assert sum(result.splits.values()) == EVENTS - 1


def test_an_imported_file_is_a_source(root_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "events.h5"
    config = ImportConfig(particles=PARTICLES, label="anomaly", unit="MeV")
    result = import_events([root_file, root_file], out, config)
    *loaders, meta = make_dataloaders(DataConfig(name="h5", path=str(out)), seed=1)
    assert meta["splits"] == result.splits
    assert (meta["num_types"], meta["type_names"]) == (3, ["padding", "jet", "muon"])
    assert meta["units"] == {"tokens_cont": ["MeV"] * 4, "globals": ["MeV"] * 2}
    assert next(iter(loaders[0]))["tokens_cont"].shape[1:] == (18, 4)
    assert sum(int(batch["label"].sum()) for loader in loaders for batch in loader) == 2


def test_the_same_import_gives_the_same_events_in_pieces(
    root_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ImportConfig(particles=PARTICLES)
    fingerprints, steps = [], []
    for name, size in (("one", 20_000), ("two", 7)):
        monkeypatch.setattr("midstep.data.sources.root_events.EVENTS_AT_ONCE", size)
        import_events([root_file], tmp_path / name, config, progress=steps.append)
        data = make_dataloaders(DataConfig(name="h5", path=str(tmp_path / name)))[3]
        fingerprints.append(data["data_fingerprint"])
    assert fingerprints[0] == fingerprints[1]
    assert steps[0] == ImportProgress(EVENTS, EVENTS)
    assert [each.done for each in steps[1:]] == [7, 14, 21, 28, 35, 40]


def test_large_labels_stay_apart(root_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "events.h5"
    import_events([root_file], out, ImportConfig(particles=PARTICLES, label="number"))
    with h5py.File(out) as file:
        labels = [label for group in file.values() for label in group["label"][...].tolist()]
    assert sorted(labels) == [2**24 + event for event in range(1, EVENTS)]


def test_a_missing_branch_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    root = write_root(tmp_path / "events.root", without="Muon_E")
    out = tmp_path / "out" / "events.h5"
    with pytest.raises(ConfigError, match="has no branch 'Muon_E'; similar: Muon_P") as caught:
        import_events([root], out, ImportConfig(particles=PARTICLES))
    assert "\n" not in str(caught.value)
    assert not out.parent.exists()


def test_wrong_input_leaves_no_file(root_file: Path, tmp_path: Path) -> None:
    nan = write_root(tmp_path / "nan.root", missing_value=True)
    damaged = tmp_path / "damaged.root"
    damaged.write_bytes(root_file.read_bytes()[:900])
    wrong: list[tuple[Path, dict[str, Any], type[Exception], str]] = [
        (tmp_path / "none.root", {}, ConfigError, "is not a file"),
        (damaged, {}, FormatError, "cannot be read"),
        (nan, {}, FormatError, "event 7 has a value in globals that is not finite"),
        (root_file, {"tree": "Events"}, ConfigError, "has no tree 'Events'; it has events"),
        (root_file, {"label": "share"}, FormatError, "'share' must have whole numbers"),
        (root_file, {"globals": ("Jet_Px",)}, FormatError, "'Jet_Px' has not one value"),
        (
            root_file,
            {"components": ("Px", "Py", "Pz", "Pz"), "particles": {"x": "MET{}"}},
            ConfigError,
            "has no branch 'METPx'",
        ),
    ]
    folder = tmp_path / "out"
    for path, settings, error, message in wrong:
        with pytest.raises(error, match=message) as caught:
            import_events(
                [path], folder / "x.h5", ImportConfig(**{"particles": PARTICLES, **settings})
            )
        assert str(path) in str(caught.value)
        assert not folder.exists() or not list(folder.iterdir())


def test_the_command_imports_and_info_describes(
    root_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "events.h5"
    command = ["data", "import-events", str(root_file), "--out", str(out)]
    assert main([*command, "--particles", "jet=Jet,muon=Muon"]) == 0
    assert f"{out}  train" in capsys.readouterr().out
    assert main(["data", "info", str(out), "--json"]) == 0
    summary = strict_json.loads(capsys.readouterr().out)
    assert (summary["kind"], summary["n_tokens"]) == ("events", 18)
    assert summary["ranges"]["globals"]["max"] == [39.0, -1.0]
    assert main(["data", "info", str(out)]) == 0
    text = capsys.readouterr().out
    assert all(each in text for each in ("padding, jet, muon", "MET_px", "GeV", "fingerprint"))
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err
    assert main([*command[:3], "--out", str(tmp_path / "b.h5"), "--particles", "jet"]) == 2
    assert "--particles takes TYPE=PREFIX" in capsys.readouterr().err


@pytest.mark.skipif(not REAL.is_file(), reason=f"{REAL} is not there")
def test_real_collision_events_become_batches(tmp_path: Path) -> None:
    out = tmp_path / "hzz.h5"
    result = import_events([REAL], out, ImportConfig())
    assert sum(result.splits.values()) + result.empty_events == 2_421
    config = DataConfig(name="h5", path=str(out), batch_size=2_000)
    train, _, _, meta = make_dataloaders(config, seed=0)
    [batch] = train
    scale = meta["normalisation"]["tokens_cont"]
    values = batch["tokens_cont"].numpy() * scale["std"] + scale["mean"]
    momenta, energies = values[..., :3], values[..., 3]
    is_real = batch["tokens_id"].numpy() > 0
    # No particle has less energy than its momentum, and no event is without particles.
    assert (energies[is_real] > 0.99 * np.linalg.norm(momenta, axis=-1)[is_real]).all()
    assert is_real.any(axis=1).all()
    assert meta["type_names"] == ["padding", "jet", "muon", "electron", "photon"]


def test_info_describes_a_table_and_refuses_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, text = tmp_path / "table.npz", tmp_path / "notes.txt"
    np.savez(table, X=np.arange(60.0).reshape(20, 3), y=np.arange(20) > 17)
    text.write_text("no data")
    assert main(["data", "info", str(table)]) == 0
    shown = capsys.readouterr().out
    assert "20 rows of 3 features" in shown
    assert "2 anomalies in test" in shown
    for path in (text, tmp_path / "none.h5"):
        assert main(["data", "info", str(path)]) == 2
        error = capsys.readouterr().err
        assert str(path) in error
        assert error.count("\n") == 1
