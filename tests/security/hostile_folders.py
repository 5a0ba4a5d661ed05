"""Run directories, results and datasets as a stranger might make them to do harm."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from midstep.core.ids import new_run_id
from midstep.facts.format.event_lines import EventHeader, encode_line
from midstep.facts.format.step_frames import LAYOUT, FileHeader, file_header
from midstep.loops.sweep.plan import PLAN, read_plan, write_plan
from tests.facts.stored_runs import write_run
from tests.server.datasets import store_dataset
from tests.tiny_sweep import plan_of

SECRET = "a file of ours that is none of theirs"
TWICE_NAMED = "a file of ours with a second name"
GIANT_BYTES = 6 << 30
HUGE = 10**400
DEEP = "[" * 100_000
ODD = "odd\x1b[31m\u202e\u2066<img src=x onerror=alert(1)>\x9b\x07\n'"
RUN_ID = "0123456789ab"
SMALL_FILES = ("lease.json", "labels.json", "lineage.json", "facts/deleting.json", "facts/.lock")
OTHER_FILES = (
    "console.log",
    "console.log.10-2",
    "artifacts/trajectories.json",
    f"artifacts/media/{'0' * 20}/index.json",
    f"artifacts/media/{'0' * 20}/0.txt",
    "artifacts/evidence/10.zip",
    "figures/loss-on_epoch_end-e1.svg",
    "checkpoints/10/manifest.json",
    "checkpoints/10/state.json",
    "checkpoints/10/tensors.safetensors",
)
FACTS = ("facts/events.jsonl", "facts/steps.0.1.bin")

Maker = Callable[[Path, Path], None]
"""Changes a run directory; the second path is the secret file."""


def sound_run(folder: Path) -> Path:
    """A run with everything that a run directory may have."""
    write_run(folder)
    for name in OTHER_FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (folder / "lineage.json").write_text('{"version": 1, "edges": []}')
    (folder / "labels.json").write_text('{"version": 1, "tags": ["a"], "note": "b"}')
    (folder / "last").symlink_to("checkpoints/10")
    return folder


def _cleared(folder: Path, name: str) -> Path:
    path = folder / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    return path


def links(folder: Path, secret: Path) -> None:
    """Every file is a link to the secret."""
    for name in (*SMALL_FILES, *OTHER_FILES, *FACTS, "last", "best_val", "model"):
        _cleared(folder, name).symlink_to(secret)


def linked_folders(folder: Path, secret: Path) -> None:
    """Every folder is a link to the folder of the secret."""
    for name in ("facts", "checkpoints", "figures", "artifacts"):
        _cleared(folder, name).symlink_to(secret.parent)


def linked_inner_folders(folder: Path, secret: Path) -> None:
    """Every folder below a folder is a link, and so is the one with the settings."""
    for name in (".hydra", "facts/quarantine", "artifacts/evidence", "artifacts/media"):
        _cleared(folder, name).symlink_to(secret.parent)
    for name in ("checkpoints/10", "checkpoints/blocks"):
        _cleared(folder, name).symlink_to(secret.parent)


def second_names(folder: Path, secret: Path) -> None:
    """Every file that a training appends to or locks is a hard link to a file of ours."""
    ours = second_file(secret)
    ours.write_text(TWICE_NAMED)
    for name in (*SMALL_FILES, *FACTS, "facts/steps.0.2.bin", "console.log"):
        _cleared(folder, name).hardlink_to(ours)


def second_file(secret: Path) -> Path:
    """A file that has a second name in a run directory; it may be read, and not changed."""
    return secret.with_name("named twice")


def links_out(folder: Path, secret: Path) -> None:
    """Our own links lead out of the run directory, or in a circle."""
    for name, target in {"last": secret.parent, "best_val": "model", "model": "best_val"}.items():
        _cleared(folder, name).symlink_to(target)


def pipes(folder: Path, _: Path) -> None:
    for name in (*SMALL_FILES, *OTHER_FILES, *FACTS):
        os.mkfifo(_cleared(folder, name))


def pipe_as_lease(folder: Path, _: Path) -> None:
    os.mkfifo(folder / "lease.json")


def devices(folder: Path, _: Path) -> None:
    """/dev/zero and /dev/random under the names of files; root alone can make them."""
    for minor, name in zip((5, 8, 5, 5), (*SMALL_FILES[:2], *FACTS), strict=True):
        os.mknod(_cleared(folder, name), 0o20666, os.makedev(1, minor))


def giant_small_files(folder: Path, _: Path) -> None:
    for name in (*SMALL_FILES, *OTHER_FILES):
        path = folder / name
        path.touch()
        os.truncate(path, GIANT_BYTES)


def giant_events(folder: Path, _: Path) -> None:
    os.truncate(folder / "facts" / "events.jsonl", GIANT_BYTES)


def giant_steps(folder: Path, _: Path) -> None:
    os.truncate(folder / "facts" / "steps.0.1.bin", GIANT_BYTES)


def folders_as_files(folder: Path, _: Path) -> None:
    for name in (*SMALL_FILES, *OTHER_FILES, *FACTS):
        _cleared(folder, name).mkdir()


def deep_json(folder: Path, _: Path) -> None:
    for name in (*SMALL_FILES, *OTHER_FILES):
        (folder / name).write_text(DEEP)
    append_records(folder, f'"config":{DEEP}', '"config":' + '{"a":' * 900 + "1" + "}" * 900)


def long_numbers(folder: Path, _: Path) -> None:
    numbers = f'"step":{HUGE},"epoch":{HUGE},"val_loss":{HUGE},"total_steps":{HUGE},"seed":{HUGE}'
    append_records(folder, numbers, moment="on_epoch_end")
    append_records(folder, numbers, moment="on_start")
    append_records(folder, f'"n":{"9" * 5000}')
    lease = {"pid": HUGE, "started": HUGE, "step": HUGE, "heartbeat_mono": 1e308, "host": HUGE}
    (folder / "lease.json").write_text(json.dumps(lease))
    (folder / "facts" / f"steps.0.{'9' * 200}.bin").write_bytes(b"")
    (folder / "checkpoints" / ("9" * 200)).mkdir()


def wrong_types(folder: Path, _: Path) -> None:
    """Whole records with right CRCs, whose values are of other types than a writer gives them."""
    names = ("epoch", "step", "config", "metrics", "status", "name", "error", "train_loss", "who")
    for value in ("[]", "{}", '"x"', "null", "true", "-1", "1e999", '{"a":[{"b":null}]}'):
        fields = ",".join(f'"{name}":{value}' for name in names)
        for moment in ("on_start", "on_epoch_end", "on_intervention", "on_train_end"):
            append_records(folder, fields, moment=moment)
        for kind in ("rewind", "command", "feature_health", "breakpoint"):
            more = f'"kind":"{kind}","features":{value},"payload":{value},"from_step":{value}'
            append_records(folder, f"{more},{fields}", moment="on_intervention")
    for name in (*SMALL_FILES, *OTHER_FILES):
        (folder / name).write_text('[{"edges": 1, "tags": {}, "tensors": [], "pid": "x"}]')
    (folder / "lineage.json").write_text('{"version": 1, "edges": [{"kind": "timeline"}, 3]}')


def wrong_heads(folder: Path, _: Path) -> None:
    """Right CRCs around wrong fixed fields."""
    for seq in ('"x"', str(HUGE), "-1", "null", "1" * 5000):
        body = f'{{"schema_version":2,"seq":{seq},"attempt":[],"wall":{{}},"moment":7'.encode()
        _append_line(folder, body)
    _append_line(folder, b'{"schema_version":2,"seq":5,"moment":"on_start","wall":"late"')
    _append_line(folder, b'{"schema_version":99,"seq":6,"moment":"on_start"')
    _append_line(folder, b'{"schema_version":2,"seq":7')
    _append_line(folder, b'{"schema_version":2,"seq":8,')


def endless_times(folder: Path, _: Path) -> None:
    for wall in (1e308, -1e308, 1e12, float("nan")):
        head = EventHeader(1, 0, wall, wall, "on_epoch_end", RUN_ID, 0)
        with (folder / "facts" / "events.jsonl").open("ab") as file:
            file.write(encode_line(90, head, '"epoch":1,"epoch_time_s":1e308'))


def line_bombs(folder: Path, _: Path) -> None:
    """Lines that are slow to search: heads without tails, and nothing but line ends."""
    with (folder / "facts" / "events.jsonl").open("ab") as file:
        file.write(b'{"schema_version":2,"seq":1,' * 150_000 + b"\n")
        file.write(b',"crc":"00000000"}' * 200_000 + b"\n" * 3_000_000)


def frame_bombs(folder: Path, _: Path) -> None:
    """Every eight bytes look like the head of a row of two megabytes."""
    head = struct.pack("<II", 2 << 20, 1)
    with (folder / "facts" / "steps.0.1.bin").open("ab") as file:
        file.write(head * (4 << 17))


def layout_bombs(folder: Path, _: Path) -> None:
    """Layouts that claim millions of names, or whose names are no texts."""
    frames = [_layout(1, 2**31, b"[]"), _layout(2, 1, DEEP.encode()), _layout(3, 2, b"[1,{}]")]
    header = file_header(FileHeader(RUN_ID, 1, 0))
    (folder / "facts" / "steps.0.1.bin").write_bytes(header + b"".join(frames))


def tensor_bombs(folder: Path, secret: Path) -> None:
    """Manifests that lead out of their folder, and headers that claim exabytes."""
    entry = {"shape": [2**31, 2**31], "dtype": "F32", "bytes": 2**64, "blake2b": "0"}
    small = {"shape": [2, 2], "dtype": "F32", "bytes": 16, "blake2b": "0"}
    manifest = {
        "files": {f"../../../{secret.name}": {"bytes": 1}},
        "tensors": {"model.a": entry, "model.b": small, f"model.../../{secret}": small},
    }
    checkpoint = folder / "checkpoints" / "10"
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    (checkpoint / "tensors.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    shutil.copytree(checkpoint, folder / "checkpoints" / "9")
    header = json.dumps({"model.b": {"data_offsets": [-(10**9), 2**62]}}).encode()
    (folder / "checkpoints" / "9" / "tensors.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header
    )


def settings_bombs(folder: Path, _: Path) -> None:
    """Settings that build objects, read the environment, or grow without end."""
    aliases = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20))
    texts = {
        "config": "loop: !!python/object/apply:os.system ['false']\n",
        "hydra": "hydra: ${oc.env:HOME}\n",
        "overrides": f"a0: &a0 x\n{aliases}\n",
    }
    (folder / ".hydra").mkdir()
    for name, text in texts.items():
        (folder / ".hydra" / f"{name}.yaml").write_text(text)


def odd_texts(folder: Path, _: Path) -> None:
    text = json.dumps(ODD)
    fields = f'"name":{text},"config":{{{text}:{text}}},"error":{text},"host":{text}'
    append_records(folder, fields, moment="on_start")
    append_records(folder, f'"epoch":1,"metrics":{{{text}:1.5}}', moment="on_epoch_end")
    append_records(folder, '"name":"\\ud800","config":{"\\udfff":1}', moment="on_start")
    (folder / "labels.json").write_text(json.dumps({"tags": [ODD], "note": ODD}))
    (folder / f"figures/{ODD.replace('/', '')}.svg").write_text("<svg onload='alert(1)'/>")
    (folder / os.fsdecode(b"not-utf8-\xff\xfe")).write_text("x")


def stop_bombs(folder: Path, _: Path) -> None:
    """Stops whose parts unpack to gigabytes, or hold what no writer puts there."""
    wrong = {"stop": [], "step": "x", "wall": HUGE, "cause": ODD, "who": {}, "breakpoint": [1]}
    listed = [1, {"id": "x"}, {"id": 1, "words": ODD, "condition": {"kind": "step", "step": HUGE}}]
    manifest = {
        **wrong,
        "format": 1,
        "breakpoints": listed,
        "batch_step": 9,
        "step_data": [{"key": ODD, "panel": "none"}, {"key": "layers"}, 3, {"key": []}],
        "watches": {"source": 1, "feature_ids": ["a", -1], "others": {"b": 3}},
        "not_kept": {ODD: ODD, "c": 1},
    }
    parts = {
        "wrong": {"batch.json": b'{"kind": 1}', "batch.png": b"GIF", "step_data/1.json": b"[]"},
        "deep": dict.fromkeys(("batch.json", "step_data/0.json", "console.txt"), DEEP.encode()),
        "large": dict.fromkeys(("batch.json", "console.txt", "samples/0.json"), bytes(64 << 20)),
        "many": {f"samples/{number}.json": b"" for number in range(3000)},
    }
    for step, (name, contents) in enumerate(parts.items(), 10):
        path = folder / "artifacts" / "evidence" / f"{step}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
            packed.writestr("stop.json", json.dumps({**manifest, "wall": float(step)}))
            for part, data in contents.items():
                packed.writestr(part, data)
        assert name
    torn = folder / "artifacts" / "evidence" / "14.zip"
    torn.write_bytes((folder / "artifacts" / "evidence" / "10.zip").read_bytes()[:-10])
    for odd in ("0010.zip", "10.t0.zip", f"{'9' * 40}.zip", "10.ZIP", "10-end.zip.zip"):
        (folder / "artifacts" / "evidence" / odd).write_bytes(b"PK")
    for name in ("0-0", "5-0", f"{'9' * 30}-1", "7-9"):
        (folder / f"console.log.{name}").write_text(ODD)


MAKERS: tuple[Maker, ...] = (
    stop_bombs,
    links,
    linked_folders,
    linked_inner_folders,
    second_names,
    links_out,
    pipes,
    pipe_as_lease,
    devices,
    giant_small_files,
    giant_events,
    giant_steps,
    folders_as_files,
    deep_json,
    long_numbers,
    wrong_types,
    wrong_heads,
    endless_times,
    line_bombs,
    frame_bombs,
    layout_bombs,
    tensor_bombs,
    settings_bombs,
    odd_texts,
)


def make_hostile_root(root: Path, secret: Path) -> list[Path]:
    """One run directory of each kind under `root`, two with one id, and two with odd names."""
    secret.write_text(SECRET)
    folders = []
    for make in MAKERS:
        folder = sound_run(root / "runs" / make.__name__)
        try:
            make(folder, secret)
        except PermissionError:  # devices, without root
            continue
        folders.append(folder)
    for name in ("copy", f"run {ODD.replace('/', '|')}", os.fsdecode(b"run_\xff")):
        shutil.copytree(root / "runs" / "links_out", root / "runs" / name, symlinks=True)
        folders.append(root / "runs" / name)
    return folders


def append_records(folder: Path, *fields: str, moment: str = "on_intervention") -> None:
    """Add records with right CRCs to the events of a run."""
    with (folder / "facts" / "events.jsonl").open("ab") as file:
        for seq, text in enumerate(fields, start=100):
            file.write(encode_line(seq, EventHeader(1, 0, 1.0, 1.0, moment, RUN_ID, 0), text))


def _append_line(folder: Path, body: bytes) -> None:
    with (folder / "facts" / "events.jsonl").open("ab") as file:
        file.write(body + b',"crc":"%08x"}\n' % crc32(body))


def _layout(identity: int, count: int, names: bytes) -> bytes:
    padding = -(24 + len(names)) % 8
    size = 24 + len(names) + padding
    body = struct.pack("<IIIII", size, LAYOUT, identity, count, len(names)) + names
    body += bytes(padding)
    return struct.pack("<I", crc32(body)) + body


# -- what lies beside runs ------------------------------------------------------------------------


def make_hostile_results(root: Path, secret: Path) -> list[Path]:
    """Folders of the Influence page."""
    contents: dict[str, Any] = {
        "deep": DEEP,
        "types": json.dumps({"requests": [{"name": ODD}, 3], "batch": [], "plan": "x"}),
        "long": json.dumps({"requests": HUGE}),
    }
    folders = []
    for name, text in contents.items():
        folder = root / "influence" / name
        (folder / "requests" / "000_x").mkdir(parents=True)
        (folder / "results.json").write_text(text)
        folders.append(folder)
    pipe = root / "influence" / "pipe"
    pipe.mkdir()
    os.mkfifo(pipe / "results.json")
    giant = root / "influence" / "giant"
    giant.mkdir()
    (giant / "results.json").touch()
    os.truncate(giant / "results.json", GIANT_BYTES)
    link = root / "influence" / "link"
    link.mkdir()
    (link / "results.json").symlink_to(secret)
    return [*folders, pipe, giant, link]


def make_hostile_sweeps(root: Path, secret: Path) -> list[Path]:
    """Sweeps whose plans, locks and run directories lead elsewhere, or are of wrong types."""
    folders = []
    for name, change in _SWEEPS.items():
        folder = root / "multiruns" / f"exp_{name}"
        plan = plan_of(("level=1,2",))
        for job in plan.jobs:
            plan = plan.with_job(replace(job, run_id=write_run(folder / job.run_dir)))
        (folder / ".jobs").mkdir()
        write_plan(folder, plan)
        change(folder, secret)
        folders.append(folder)
    for name, texts in _plan_texts().items():
        folder = root / "multiruns" / f"exp_{name}"
        folder.mkdir(parents=True)
        (folder / PLAN).write_text("".join(f"{text}\n" for text in texts))
        folders.append(folder)
    return folders


def _run_dirs(folder: Path) -> list[str]:
    return [job.run_dir for job in read_plan(folder).jobs]


def _linked_runs(folder: Path, secret: Path) -> None:
    for name in _run_dirs(folder):
        _cleared(folder, name).symlink_to(secret.parent / "outputs" / "runs" / "sound")


def _linked_locks(folder: Path, secret: Path) -> None:
    for name in (".pool.lock", "pool.log", ".jobs/000"):
        _cleared(folder, name).symlink_to(secret)


def _second_names(folder: Path, secret: Path) -> None:
    for name in (".pool.lock", "pool.log", ".jobs/000"):
        _cleared(folder, name).hardlink_to(secret)


def _linked_starts(folder: Path, secret: Path) -> None:
    shutil.copytree(secret.parent, folder / "elsewhere", ignore=lambda *_: ["outputs"])
    _cleared(folder, ".jobs").symlink_to(folder / "elsewhere")


def _pipes_as_locks(folder: Path, _: Path) -> None:
    for name in (".pool.lock", "pool.log", ".jobs/000"):
        os.mkfifo(_cleared(folder, name))


def _linked_plan(folder: Path, secret: Path) -> None:
    _cleared(folder, PLAN).symlink_to(secret)


def _pipe_as_plan(folder: Path, _: Path) -> None:
    os.mkfifo(_cleared(folder, PLAN))


def _giant_plan(folder: Path, _: Path) -> None:
    os.truncate(folder / PLAN, GIANT_BYTES)


_SWEEPS: dict[str, Maker] = {
    each.__name__.strip("_"): each
    for each in (
        _linked_runs,
        _linked_locks,
        _second_names,
        _linked_starts,
        _pipes_as_locks,
        _linked_plan,
        _pipe_as_plan,
        _giant_plan,
    )
}


def _plan_texts() -> dict[str, list[str]]:
    """Lines of plans in which one field has another type, or text, than a writer gives it."""
    plan = plan_of(("level=1,2",))
    job = asdict(plan.jobs[0])
    header = {"kind": "sweep", "version": 1, **asdict(plan), "jobs": []}
    plans = {}
    for number, value in enumerate(([], {}, None, HUGE, ODD, [ODD])):
        for key in header:
            plans[f"header_{key}_{number}"] = [{**header, "id": new_run_id(), key: value}, job]
        for key in job:
            plans[f"job_{key}_{number}"] = [{**header, "id": new_run_id()}, {**job, key: value}]
    for number, path in enumerate(("/dev/zero", "/proc/self/mem", "\0", "\ud800", ODD)):
        named = {"data_files": [path], "modules": [path, f"midstep.{path}"]}
        plans[f"named_{number}"] = [{**header, "id": new_run_id()}, {**job, **named}]
    plans["no_jobs"], plans["twice"] = [header], [header, job, job]
    return {
        **{name: list(map(json.dumps, lines)) for name, lines in plans.items()},
        "deep": [DEEP, DEEP],
        "empty": [],
        "texts": ["1", "[]", '"x"'],
    }


def make_hostile_datasets(root: Path, secret: Path) -> list[Path]:
    """Datasets whose tables, configs, other files or databases are bombs, pipes or links."""
    sound = store_dataset(root / "sound")
    folders = [*_poisoned_files(root, sound, secret), *_other_kinds(root, secret)]
    for name in ("link", "pipe", "giant", "deep", "npz", "shape"):
        folder = root / name
        shutil.copytree(sound, folder)
        folders.append(folder)
        table = folder / "question_embs.npy"
        if name in ("link", "pipe"):
            table.unlink()
            table.symlink_to(secret) if name == "link" else os.mkfifo(table)
        elif name == "giant":
            os.truncate(folder / "config.json", GIANT_BYTES)
        elif name == "deep":
            (folder / "config.json").write_text(DEEP)
        elif name == "npz":
            with table.open("wb") as file:
                np.savez_compressed(file, bomb=np.zeros(1 << 22))
        else:
            with table.open("wb") as file:
                shape = {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**20)}
                np.lib.format.write_array_header_1_0(file, shape)
    hdf5, database = root / "hdf5", root / "database"
    for folder in (hdf5, database):
        folder.mkdir()
    _hdf5_bomb(hdf5, sound, secret)
    connection = sqlite3.connect(database / "dataset.db")
    connection.execute(
        "CREATE VIEW samples AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) "
        "SELECT * FROM n"
    )
    connection.close()
    return [*folders, hdf5, database]


def _poisoned_files(root: Path, sound: Path, secret: Path) -> list[Path]:
    """Copies of a dataset in which files beside the tables, or one table, are poisoned."""
    folders = []
    for poison in (_pipe_as, _giant_as, _link_as):
        for name, files in _POISONED.items():
            folder = root / f"{poison.__name__.strip('_')}_{name}"
            shutil.copytree(sound, folder)
            for file in files:
                poison(folder / file, secret)
            folders.append(folder)
    folder = root / "link_as_folder"
    shutil.copytree(sound, folder)
    texts = shutil.copytree(sound / "texts", secret.parent / "private" / "whole")
    _cleared(folder, "texts").symlink_to(texts)
    for name, offsets in {"far": [0, *[1 << 60] * 160], "few": [0, 9], "flat": 3}.items():
        folders.append(shutil.copytree(sound, root / f"offsets_{name}"))
        np.save(folders[-1] / "texts" / "questions.offsets.npy", np.array(offsets))
    return [*folders, folder]


_POISONED = {
    "sidecars": ("build.json", "audit.json", "ledger.json"),
    "config": ("config.json",),
    "table": ("question_embs.npy",),
    "texts": ("texts/questions.jsonl", "texts/sources.jsonl"),
    "offsets": ("texts/questions.offsets.npy",),
}


def _pipe_as(path: Path, _: Path) -> None:
    os.mkfifo(_cleared(path.parent, path.name))


def _giant_as(path: Path, _: Path) -> None:
    os.truncate(path, GIANT_BYTES)


def _link_as(path: Path, secret: Path) -> None:
    """A link out of the dataset to a file that is as it should be."""
    private = secret.parent / "private" / path.parent.name
    private.mkdir(parents=True, exist_ok=True)
    path.symlink_to(shutil.move(path, private / path.name))


def _other_kinds(root: Path, secret: Path) -> list[Path]:
    """Triplets and cluster labels whose files are pipes, giants or links."""
    folders = []
    for poison in (_pipe_as, _giant_as, _link_as):
        kind = poison.__name__.strip("_")
        triplets, clusters = root / f"{kind}_triplets", root / f"{kind}_clusters"
        for folder, name in ((triplets, "train.jsonl"), (clusters, "dataset.db")):
            folder.mkdir(parents=True)
            (folder / name).write_text('["q", "a", "b", 1]\n')
            poison(folder / name, secret)
        (triplets / "build.json").write_text('{"kind": "triplets", "encoder": []}')
        folders += [triplets, clusters]
    journal = root / "pipe_as_journal"
    journal.mkdir()
    connection = sqlite3.connect(journal / "dataset.db")
    connection.execute("CREATE TABLE samples (id INTEGER)")
    connection.close()
    for name in ("dataset.db-journal", "dataset.db-wal"):
        os.mkfifo(journal / name)
    return [*folders, journal]


def _hdf5_bomb(folder: Path, sound: Path, secret: Path) -> None:
    import h5py

    config = json.loads((sound / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "storage_format": "hdf5"}))
    with h5py.File(folder / "dataset.h5", "w") as file:
        file["pair_index"] = h5py.ExternalLink(str(secret), "/")
        file.create_dataset("question_embs", (2**40, 2**20), "f4", chunks=(1, 1))
        file.create_dataset(
            "source_embs", (8,), "i1", external=[(str(secret), 0, h5py.h5f.UNLIMITED)]
        )
