"""`attach`: boundaries, ids, losses and ends of a plain loop."""

from __future__ import annotations

import itertools
import weakref

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from midstep.control import DebugController
from midstep.core.errors import ConfigError, StopTraining
from midstep.facts import FactsReader, SeriesStore
from midstep.live import attach
from tests.checkers.neutral import wait_until
from tests.control.loop import IN_VIEW
from tests.live.trainer import Numbers, Plain, in_thread


def moments(directory) -> list[str]:
    return [event["moment"] for event in FactsReader(directory).events()]


def series(directory, name: str) -> tuple[list[int], list[float]]:
    store = SeriesStore(directory)
    store.refresh()
    found = store.series(name)
    return list(found.step), list(found.low)


def parked_at(step: int):
    return lambda state: state["parked"] and state["step"] == step


# -- the boundary ---------------------------------------------------------------------------------


def test_every_optimizer_step_is_counted_also_the_last_of_an_epoch(tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        counts = []
        for _ in run.epochs(2):
            for x, _y in plain.loader:
                plain.step(x)
            counts.append(run.controller.get_state()["step"])
    assert counts == [6, 12]


def test_a_step_before_a_break_is_counted_when_the_epoch_or_the_block_ends(tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for epoch in run.epochs(2):
            assert run.controller.get_state()["step"] == epoch
            for x, _y in plain.loader:
                plain.step(x)
                break
        for x, _y in plain.loader:
            plain.step(x)
            break
    assert run.controller.get_state()["step"] == 3


def test_at_the_boundary_scheduler_and_zero_grad_have_run(tmp_path):
    plain = Plain()
    scheduler = torch.optim.lr_scheduler.StepLR(plain.optimizer, step_size=1, gamma=0.5)
    seen = []

    def body(run):
        for x, _y in plain.loader:
            plain.step(x)
            scheduler.step()

    attached = attach(*plain.parts, save_dir=tmp_path, scheduler=scheduler, start_paused=True)
    control = attached.controller
    with in_thread(attached, body):
        wait_until(control, parked_at(0))
        for step in (1, 2):
            control.step()
            state = wait_until(control, parked_at(step))
            seen.append((state["lr"], [p.grad for p in plain.model.parameters()]))
    assert seen == [(5e-5, [None, None]), (2.5e-5, [None, None])]


def test_start_paused_parks_before_the_first_batch_is_drawn(tmp_path):
    plain, seen = Plain(), []
    attached = attach(*plain.parts, save_dir=tmp_path, start_paused=True)
    with in_thread(attached, lambda run: plain.train(run, seen=seen)):
        state = wait_until(attached.controller, parked_at(0))
        assert seen == []
        assert state["state"] == "paused"


def test_pause_takes_effect_with_at_most_one_further_step_and_step_moves_by_one(tmp_path):
    plain, seen = Plain(4000), []
    attached = attach(*plain.parts, save_dir=tmp_path, start_paused=True)
    control = attached.controller
    with in_thread(attached, lambda run: plain.train(run, epochs=50, seen=seen)):
        wait_until(control, parked_at(0))
        control.run_until(step=5)
        wait_until(control, parked_at(5))
        assert len(seen) == 5
        for step in range(6, 11):
            control.step()
            wait_until(control, parked_at(step))
            batch = control.get_batch()
            assert batch["step"] == step - 1
            assert batch["sample_ids"] == seen[step - 1] == batch["labels"].tolist()
        control.resume()
        control.pause()
        wait_until(control, lambda state: state["parked"])
        assert len(seen) == control.get_state()["step"]


def test_a_pass_without_steps_meets_no_boundary_and_leaves_no_ids(tmp_path):
    plain = Plain(shuffle=False)
    control = DebugController()
    control.add_breakpoint("sample", ids=[0], enabled=False)
    with (
        attach(*plain.parts, save_dir=tmp_path, controller=control) as run,
        control.captures.viewer(*IN_VIEW),
    ):
        with torch.no_grad():
            for _ in plain.loader:
                pass
        assert run.controller.get_state()["step"] == 0
        batches = iter(plain.loader)
        run.log(loss=plain.step(next(batches)[0]))
        next(batches)  # the boundary; of later steps only ten a second would be kept
        assert control.get_batch()["sample_ids"] == [0, 1, 2, 3]


def test_stop_ends_the_block_quietly_and_is_on_record(tmp_path):
    plain, after = Plain(4000), []
    attached = attach(*plain.parts, save_dir=tmp_path)

    def body(run):
        try:
            plain.train(run, epochs=100)
        except StopTraining:
            after.append("raised at the boundary")
            raise

    with in_thread(attached, body):
        wait_until(attached.controller, lambda state: state["step"] >= 0)
        attached.controller.stop()
    assert after == ["raised at the boundary"]
    last = FactsReader(attached.dir).events()[-1]
    assert (last["moment"], last["status"]) == ("on_train_end", "stopped")


def test_a_stop_that_user_code_swallows_is_raised_again_at_the_next_batch(tmp_path):
    plain = Plain()
    raised = []
    with attach(*plain.parts, save_dir=tmp_path) as run:
        run.controller.stop()
        for _ in range(2):
            with pytest.raises(StopTraining) as caught:
                plain.train(run)
            raised.append(str(caught.value))
    assert raised == ["stopped after 0 steps"] * 2


# -- ids ------------------------------------------------------------------------------------------

LOADERS = {
    "in process": {},
    "workers": {"num_workers": 2},
    "persistent workers": {"num_workers": 1, "persistent_workers": True},
    "drop last": {"drop_last": True, "batch_size": 5},
    "last partial": {"batch_size": 5},
    "no batching": {"batch_size": None},
}


@pytest.mark.parametrize("settings", LOADERS.values(), ids=LOADERS.keys())
def test_ids_are_those_of_the_batch(tmp_path, settings):
    plain, seen, captured = Plain(**settings), [], []
    control = DebugController()
    control.add_breakpoint("sample", ids=[10**9])  # armed: ids and batch are read each step
    with attach(*plain.parts, save_dir=tmp_path, controller=control) as run:
        for _ in run.epochs(3):
            for x, y in plain.loader:
                captured += [run._loop._window.ids]
                seen += [y.reshape(-1).tolist()]
                run.log(loss=plain.step(x.reshape(-1, 2)))
    assert captured == seen
    first_epoch = list(itertools.chain.from_iterable(seen[: len(seen) // 3]))
    assert len(first_epoch) == len(set(first_epoch)) > 0


def test_a_second_pass_after_a_break_with_workers_starts_with_its_own_ids(tmp_path):
    plain, pairs = Plain(num_workers=2, persistent_workers=True), []
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for _ in run.epochs(3):
            for x, y in plain.loader:
                pairs.append((run._loop._window.ids, y.tolist()))
                plain.step(x)
                break
    assert all(ids == labels for ids, labels in pairs)


def test_accumulated_micro_batches_are_one_step_with_all_their_ids(tmp_path):
    plain, steps = Plain(shuffle=False, batch_size=2), []
    control = DebugController()
    with (
        attach(*plain.parts, save_dir=tmp_path, controller=control) as run,
        control.captures.viewer(*IN_VIEW),
    ):
        control.add_breakpoint("metric", name="loss", op="<", value=-1)
        for _ in run.epochs(1):
            for index, (x, _y) in enumerate(plain.loader):
                loss = plain.model(x).square().mean()
                loss.backward()
                if index % 3 == 2:
                    plain.optimizer.step()
                    plain.optimizer.zero_grad()
                    run.log(loss=loss)
                    steps.append(index)
    assert control.get_state()["step"] == len(steps) == 4
    batch = control.get_batch()
    assert batch["sample_ids"] == [0, 1, 2, 3, 4, 5]
    assert batch["batch"][0].shape == (6, 2)
    assert control.get_state()["total_steps"] == 4


def test_iterable_data_gets_positions(tmp_path):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(torch.arange(10, dtype=torch.float32).view(5, 2))

    plain = Plain()
    loader = DataLoader(Stream(), batch_size=2)
    found = []
    with attach(plain.model, plain.optimizer, loader, save_dir=tmp_path) as run:
        for _ in run.epochs(2):
            for x in loader:
                found.append(run._loop._window.ids)
                plain.step(x)
    assert found == [[0, 1], [2, 3], [4]] * 2


def test_a_loader_that_looks_one_batch_ahead_keeps_its_ids(tmp_path):
    class Ahead(DataLoader):
        def __iter__(self):
            batches = super().__iter__()
            held = next(batches)
            for batch in batches:
                yield held
                held = batch
            yield held

    plain, pairs = Plain(), []
    loader = Ahead(Numbers(), batch_size=4, shuffle=True)
    with attach(plain.model, plain.optimizer, loader, save_dir=tmp_path) as run:
        for _ in run.epochs(2):
            for x, y in loader:
                pairs.append((run._loop._window.ids, y.tolist()))
                plain.step(x)
    assert len(pairs) == 12
    assert all(ids == labels for ids, labels in pairs)


def test_two_passes_at_once_keep_their_ids_apart(tmp_path):
    plain, pairs = Plain(), []
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for (x, y), (_x, z) in zip(iter(plain.loader), iter(plain.loader), strict=True):
            pairs.append((run._loop._window.ids, y.tolist() + z.tolist()))
            plain.step(x)
    assert all(ids == labels for ids, labels in pairs)


def test_a_loader_class_of_ones_own_is_attached_too(tmp_path):
    class Batches:
        def __iter__(self):
            return iter([{"x": torch.ones(3, 2)}, {"x": torch.zeros(1, 2)}])

    plain, loader, found = Plain(), Batches(), []
    with attach(plain.model, plain.optimizer, loader, save_dir=tmp_path) as run:
        for _ in run.epochs(2):
            for batch in loader:
                found.append(run._loop._window.ids)
                plain.step(batch["x"])
    assert type(loader) is Batches
    assert found == [[0, 1, 2], [3]] * 2
    assert run.step == 4


def test_indices_that_are_no_numbers_leave_the_ids_unknown(tmp_path):
    class ByName(Numbers):
        def __getitem__(self, name):
            return super().__getitem__(len(name))

    plain = Plain()
    loader = DataLoader(ByName(), batch_sampler=[["a", "bb"], ["ccc"]])
    with attach(plain.model, plain.optimizer, loader, save_dir=tmp_path) as run:
        for x, _y in loader:
            assert run._loop._window.ids is None
            plain.step(x)
    assert run.step == 2


def test_a_sampler_that_counts_its_iterations_sees_as_many_as_without_us(tmp_path):
    class Counting:
        iterations = 0

        def __iter__(self):
            self.iterations += 1
            return iter([[0, 1], [2, 3]])

        def __len__(self):
            return 2

    sampler = Counting()
    plain = Plain()
    loader = DataLoader(Numbers(), batch_sampler=sampler)
    with attach(plain.model, plain.optimizer, loader, save_dir=tmp_path) as run:
        assert len(loader) == 2
        for _ in run.epochs(3):
            for x, _y in loader:
                plain.step(x)
    assert sampler.iterations == 3


# -- losses and scalars ---------------------------------------------------------------------------


def test_logged_losses_stand_in_the_facts_at_their_step(tmp_path):
    plain, losses = Plain(), []
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for _ in run.epochs(2):
            for x, _y in plain.loader:
                losses.append(plain.step(x).item())
                run.log(loss=losses[-1], accuracy=torch.tensor(0.5))
    assert series(run.dir, "loss") == (list(range(1, 13)), losses)
    assert series(run.dir, "accuracy")[1] == [0.5] * 12


def test_the_loss_of_a_declared_module_needs_no_logging(tmp_path):
    plain, losses = Plain(), []
    criterion = nn.MSELoss()
    with attach(*plain.parts, save_dir=tmp_path, loss_fn=criterion) as run:
        for _ in run.epochs(1):
            for x, y in plain.loader:
                loss = criterion(plain.model(x)[:, 0], y.float())
                loss.backward()
                plain.optimizer.step()
                plain.optimizer.zero_grad()
                losses.append(loss.item())
                with torch.no_grad():
                    criterion(plain.model(x)[:, 0] + 100, y.float())  # an evaluation is no loss
    assert series(run.dir, "loss") == ([1, 2, 3, 4, 5, 6], losses)
    assert not criterion._forward_hooks


def test_a_module_without_reduction_gives_per_sample_losses(tmp_path):
    plain = Plain()
    criterion = nn.MSELoss(reduction="none")
    control = DebugController()
    with (
        attach(*plain.parts, save_dir=tmp_path, loss_fn=criterion, controller=control),
        control.captures.viewer(*IN_VIEW),
    ):
        for x, y in plain.loader:
            losses = criterion(plain.model(x)[:, 0], y.float())
            losses.mean().backward()
            plain.optimizer.step()
            break
    batch = control.get_batch()
    assert batch["losses"].tolist() == losses.tolist()
    assert batch["loss"] == pytest.approx(losses.mean().item())


def test_what_is_logged_between_epochs_belongs_to_the_finished_step(tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for epoch in run.epochs(2):
            for x, _y in plain.loader:
                run.log(loss=plain.step(x))
            run.log(val_loss=0.25 + epoch, accuracy=0.5)
    assert series(run.dir, "val_loss") == ([6, 12], [0.25, 1.25])
    ends = [e for e in FactsReader(run.dir).events() if e["moment"] == "on_epoch_end"]
    assert [(e["epoch"], e["step"], e["val_loss"]) for e in ends] == [(0, 6, 0.25), (1, 12, 1.25)]
    assert ends[0]["metrics"] == {"accuracy": 0.5}
    assert ends[0]["train_loss"] == pytest.approx(sum(series(run.dir, "loss")[1][:6]) / 6)


def test_without_epochs_each_pass_with_steps_is_one(tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for _ in range(2):
            for x, _y in plain.loader:
                plain.step(x)
    assert moments(run.dir).count("on_epoch_end") == 2
    assert run.controller.get_state()["total_steps"] is None
    ends = [event for event in FactsReader(run.dir).events() if event["moment"] == "on_epoch_end"]
    for end in ends:
        assert end["throughput"] == pytest.approx(24 / end["epoch_time_s"])


def test_a_gradient_norm_breakpoint_reads_the_gradients_before_they_are_gone(tmp_path):
    plain = Plain(shuffle=False)
    norms = []
    plain.optimizer.register_step_pre_hook(
        lambda *_: norms.append(
            torch.cat([p.grad.flatten() for p in plain.model.parameters()]).norm().item()
        )
    )
    attached = attach(*plain.parts, save_dir=tmp_path)
    attached.controller.add_breakpoint("grad_norm", limit=1e-9)
    with in_thread(attached, plain.train):
        state = wait_until(attached.controller, lambda state: state["parked"])
        assert state["breakpoint"]["value"] == pytest.approx(norms[0])
        attached.controller.stop()


def test_a_sample_breakpoint_stops_with_that_sample_in_the_batch(tmp_path):
    plain = Plain()
    attached = attach(*plain.parts, save_dir=tmp_path)
    control = attached.controller
    control.add_breakpoint("sample", ids=[17])
    with in_thread(attached, plain.train):
        state = wait_until(control, lambda state: state["parked"])
        assert state["breakpoint"]["samples"] == [17]
        assert 17 in control.get_batch()["sample_ids"]


def test_with_several_optimizers_the_first_is_the_clock(tmp_path):
    plain = Plain()
    other = torch.optim.SGD(plain.model.parameters(), lr=1e-5)
    parts = plain.model, [plain.optimizer, other], plain.loader
    with attach(*parts, save_dir=tmp_path) as run:
        for x, _y in plain.loader:
            plain.model(x).mean().backward()
            other.step()
            other.step()
            plain.step(x)
    assert run.controller.get_state()["step"] == 6


# -- errors ---------------------------------------------------------------------------------------


def test_a_users_error_is_on_record_with_its_traceback_and_passes_through(tmp_path):
    plain = Plain()

    def train():
        for x, _y in plain.loader:
            plain.step(x)
            run.log(loss=float("nan"))
            raise ZeroDivisionError("one too many")

    with pytest.raises(ZeroDivisionError), attach(*plain.parts, save_dir=tmp_path) as run:
        train()
    last = FactsReader(run.dir).events()[-1]
    assert last["moment"] == "on_exception"
    assert last["error"] == "ZeroDivisionError: one too many"
    assert "in train" in last["traceback"]
    assert series(run.dir, "loss")[0] == [1]  # the evidence of the step that never ended


def test_with_on_error_park_the_loop_stands_with_the_reason_until_resumed(tmp_path):
    plain = Plain()
    attached = attach(*plain.parts, save_dir=tmp_path, on_error="park")
    control = attached.controller

    def body(run):
        for x, _y in plain.loader:
            plain.step(x)
            raise ZeroDivisionError("one too many")

    def look():
        state = wait_until(control, lambda state: state["parked"])
        assert state["state"] == "failed"
        assert "one too many" in state["reason"]
        control.resume()

    with pytest.raises(ZeroDivisionError), in_thread(attached, body):
        look()


def test_an_error_parks_by_default_while_somebody_watches(tmp_path):
    plain = Plain()
    attached = attach(*plain.parts, save_dir=tmp_path)
    control = attached.controller

    def body(run):
        raise ZeroDivisionError

    viewer = control.captures.viewer()
    with pytest.raises(ZeroDivisionError), in_thread(attached, body):
        wait_until(control, lambda state: state["parked"])
    viewer.close()


def test_a_broken_report_is_said_once_and_training_goes_on(tmp_path, monkeypatch, caplog):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        monkeypatch.setattr(run.controller.captures, "capture", None)
        plain.train(run)
    assert run.controller.get_state()["step"] == 12
    assert [r.message for r in caplog.records] == [
        "reporting the step failed and is off; training continues"
    ]


# -- user objects ---------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", LOADERS.values(), ids=LOADERS.keys())
def test_user_objects_are_left_as_they_were_found(tmp_path, settings):
    plain = Plain(**settings)
    criterion = nn.MSELoss()
    before = found_in(plain, criterion)
    with attach(*plain.parts, save_dir=tmp_path, loss_fn=criterion) as run:
        assert isinstance(plain.loader, DataLoader)
        for _ in run.epochs(1):
            for x, _y in plain.loader:
                plain.step(x.reshape(-1, 2))
    assert found_in(plain, criterion) == before
    if plain.loader._iterator is not None:
        assert plain.loader._iterator._index_sampler is plain.loader._index_sampler
        plain.loader._iterator._shutdown_workers()


def found_in(plain: Plain, criterion: nn.Module) -> dict[str, object]:
    loader = {k: id(v) for k, v in vars(plain.loader).items() if k != "_iterator"}
    return {
        "class": type(plain.loader),
        "loader": loader,
        "optimizer": sorted(vars(plain.optimizer)),
        "pre": len(plain.optimizer._optimizer_step_pre_hooks),
        "post": len(plain.optimizer._optimizer_step_post_hooks),
        "model": [len(module._forward_hooks) for module in plain.model.modules()],
        "criterion": len(criterion._forward_hooks),
    }


def test_user_objects_are_put_back_after_an_error_too(tmp_path):
    plain, criterion = Plain(), nn.MSELoss()
    before = found_in(plain, criterion)
    with pytest.raises(ZeroDivisionError), attach(*plain.parts, save_dir=tmp_path):
        raise ZeroDivisionError
    assert found_in(plain, criterion) == before


def test_an_iterator_that_outlives_the_block_goes_on(tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        batches = iter(plain.loader)
        plain.step(next(batches)[0])
    assert sum(1 for _ in batches) == 5
    assert run.controller.get_state()["step"] == 1


def test_a_loader_that_the_user_lets_go_of_is_gone_at_once(tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        plain.train(run, epochs=1)
    loader = weakref.ref(plain.loader)
    del plain
    assert loader() is None
    assert run.step == 6


def test_living_persistent_workers_are_kept(tmp_path):
    plain = Plain(num_workers=1, persistent_workers=True)
    for _ in plain.loader:
        pass
    workers, seen = [w.pid for w in plain.loader._iterator._workers], []
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for x, y in plain.loader:
            seen.append((run._loop._window.ids, y.tolist()))
            plain.step(x)
    assert [w.pid for w in plain.loader._iterator._workers] == workers
    assert all(ids == labels for ids, labels in seen)
    plain.loader._iterator._shutdown_workers()


# -- layers ---------------------------------------------------------------------------------------


def test_a_look_at_an_attached_model_finds_its_layers(tmp_path):
    plain, control = Plain(shuffle=False), DebugController()
    optimizer = torch.optim.SGD(plain.model.parameters(), lr=0.1)
    weight = plain.model.weight.detach().clone()
    with (
        attach(plain.model, optimizer, plain.loader, save_dir=tmp_path, controller=control),
        control.captures.viewer(*IN_VIEW),
    ):
        for x, _y in plain.loader:
            plain.model(x).square().mean().backward()
            gradient = plain.model.weight.grad.clone()
            optimizer.step()
            break
        layers = control.get_step_data("layers")
    after = plain.model.weight.detach()
    assert layers["name"] == ["weight", "bias"]
    assert layers["weight_norm"][0] == after.norm()
    assert layers["grad_norm"][0] == pytest.approx(gradient.norm())
    assert layers["update_ratio"][0] == pytest.approx((after - weight).norm() / after.norm())


def test_layers_that_the_user_pushes_stay(tmp_path):
    plain, control = Plain(), DebugController()
    with (
        attach(*plain.parts, save_dir=tmp_path, controller=control),
        control.captures.viewer(*IN_VIEW),
    ):
        for x, _y in plain.loader:
            control.capture_step_data("layers", "mine")
            plain.step(x)
            break
        assert control.get_step_data("layers") == "mine"


def test_no_layers_are_read_when_nobody_could_look(tmp_path, monkeypatch):
    norms = "midstep.session.metrics.tensor_norms.ParameterNorms"
    monkeypatch.setattr(norms, lambda *_: pytest.fail("nobody looks"))
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        plain.train(run)


# -- modes and refusals ---------------------------------------------------------------------------


def test_mode_off_touches_nothing_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDSTEP_MODE", "off")
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path, serve=True) as run:
        assert type(plain.loader) is DataLoader
        plain.train(run)
        assert run.url is None
    assert list(tmp_path.iterdir()) == []


def test_mode_record_writes_facts_and_serves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDSTEP_MODE", "record")
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path, serve=True) as run:
        plain.train(run)
        assert run.url is None
    assert moments(run.dir)[-1] == "on_train_end"


def test_a_run_that_was_not_entered_says_so(tmp_path, monkeypatch):
    run = attach(*Plain().parts, save_dir=tmp_path)
    for use in (lambda: run.epochs(2), lambda: run.log(loss=1.0)):
        with pytest.raises(
            ConfigError, match=r"has not begun: use `with midstep\.attach\(…\) as run:`"
        ):
            use()
    monkeypatch.setenv("MIDSTEP_MODE", "off")
    off = attach(*Plain().parts)
    off.log(loss=1.0)
    assert list(off.epochs(2)) == [0, 1]


def test_start_and_close_do_without_a_block(tmp_path, capsys):
    plain = Plain()
    before = found_in(plain, nn.MSELoss())
    run = attach(*plain.parts, save_dir=tmp_path).start()
    plain.train(run)
    run.close()
    run.close()
    assert found_in(plain, nn.MSELoss()) == before
    assert moments(run.dir)[-1] == "on_train_end"
    assert capsys.readouterr().err.splitlines() == [
        f"midstep: run {run.dir}",
        "midstep: finished after 12 steps",
    ]
    with pytest.raises(ConfigError, match="begun before"):
        run.start()
    with pytest.raises(ConfigError, match="this run has ended"):
        run.log(loss=1.0)


def test_a_run_without_a_block_that_is_stopped_ends_as_stopped(tmp_path, capsys):
    plain = Plain()
    run = attach(*plain.parts, save_dir=tmp_path).start()
    run.controller.stop()
    with pytest.raises(StopTraining):
        plain.train(run)
    run.close()
    assert FactsReader(run.dir).events()[-1]["status"] == "stopped"
    assert capsys.readouterr().err.endswith("midstep: stopped after 0 steps\n")


def test_closing_what_was_never_begun_is_fine(tmp_path):
    attach(*Plain().parts, save_dir=tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_mode_names_the_known_ones(monkeypatch):
    monkeypatch.setenv("MIDSTEP_MODE", "on")
    with pytest.raises(ConfigError, match="live, record or off"):
        attach(*Plain().parts)


def test_what_cannot_be_attached_is_refused_before_anything_is_written(tmp_path):
    plain = Plain()
    with (
        pytest.raises(ConfigError, match=r"run\.steps"),
        attach(plain.model, plain.optimizer, [torch.ones(1, 2)], save_dir=tmp_path),
    ):
        pass
    unordered = Plain(num_workers=1, in_order=False)
    with (
        pytest.raises(ConfigError, match="in_order=True"),
        attach(*unordered.parts, save_dir=tmp_path),
    ):
        pass
    with pytest.raises(ConfigError, match="got Linear"):
        attach(plain.model, plain.model, plain.loader)
    assert list(tmp_path.iterdir()) == []


def test_a_loader_is_attached_once(tmp_path):
    plain = Plain()
    with (
        attach(*plain.parts, save_dir=tmp_path),
        pytest.raises(ConfigError, match="attached already"),
        attach(*plain.parts, save_dir=tmp_path),
    ):
        pass
    assert len(list(tmp_path.iterdir())) == 1


# -- the header -----------------------------------------------------------------------------------


class Named(Numbers):
    def __getitem__(self, index):
        raise AssertionError("a fingerprint reads no sample")

    def fingerprint(self):
        return {"file": "numbers.bin", "bytes": 96}


class Nameless(Numbers):
    def __len__(self):
        raise RuntimeError("not counted yet")

    def fingerprint(self):
        raise OSError("the file is gone")


@pytest.mark.parametrize(
    ("dataset", "fingerprint"),
    [
        (Numbers(24), {"class": "Numbers", "length": 24, "own": None}),
        (Named(24), {"class": "Named", "length": 24, "own": {"file": "numbers.bin", "bytes": 96}}),
        (Nameless(24), {"class": "Nameless", "length": None, "own": None}),
    ],
    ids=["plain", "with its own", "that raises"],
)
def test_the_header_has_the_data_fingerprint(tmp_path, dataset, fingerprint):
    plain = Plain()
    loader = DataLoader(dataset, batch_sampler=[[0]])
    with attach(plain.model, plain.optimizer, loader, save_dir=tmp_path) as run:
        directory = run.dir
    assert FactsReader(directory).header()["data_fingerprint"] == fingerprint


class Bare:
    def __iter__(self):
        return iter([torch.ones(4, 2)])


def test_the_data_of_a_bare_iterable_are_unknown(tmp_path):
    plain = Plain()
    with attach(plain.model, plain.optimizer, Bare(), save_dir=tmp_path) as run:
        directory = run.dir
    assert FactsReader(directory).header()["data_fingerprint"] is None
