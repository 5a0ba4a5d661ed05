"""The recipe `bcl`: the linear autoencoder on digits, with competing features or without.

Conditions that differ in nothing but what is attached to the encoder: control (nothing),
neighborhood (a gate on the gradient), novelty and rescue (a gate and a pull), balance (a pull on
the length of a feature alone).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from midstep.control import Field, Level, Panel, Sort, Status
from midstep.core.moments import Moment
from midstep.data.sources.digits import SIDE
from midstep.loops.autoencoder_training import AutoencoderTraining, TrainingResult, hidden_units
from midstep.loops.bcl_config import BclConfig, Condition
from midstep.loops.bcl_health import FeatureHealth, FeatureHealthMonitor, competition_metrics
from midstep.models.competitive import BCL
from midstep.models.competitive.settings import DEAD_BELOW, WINNER_ABOVE
from midstep.session.hooks import LayerNorms

if TYPE_CHECKING:
    import torch

    from midstep.control import DebugController
    from midstep.control.capture.deferred_columns import DeferredColumns
    from midstep.session import Run, Session
    from midstep.session.fit.fit_loop import StepRecord

SOURCE = "encoder.weight"
TABLE = Panel(
    kind="table",
    title="Metrics",
    source=SOURCE,
    shape=(SIDE, SIDE),
    sort=Sort(field="win_rate", descending=True),
    fields={
        "win_rate": Field(label="Win rate"),
        "feature_novelty": Field(label="Novelty"),
        "mean_activation": Field(label="Activation"),
        "fraction_active": Field(label="Active"),
        "grad_norm": Field(label="Gradient"),
        "weight_norm": Field(label="Weight"),
    },
    status=Status(
        field="win_rate",
        levels=(
            Level(below=DEAD_BELOW, word="dead", tone="bad"),
            Level(above=WINNER_ABOVE, word="winner", tone="good"),
        ),
        otherwise=Level(word="contender", tone="warn"),
    ),
)
"""How features are shown."""
COMPETITION_TABLE = replace(
    TABLE,
    fields={
        "win_rate": Field(label="Win rate"),
        "grad_magnitude": Field(label="Gradient"),
        "som_magnitude": Field(label="SOM"),
        "feature_novelty": Field(label="Novelty"),
        "effective_win": Field(label="Eff. win"),
        "gradient_weight": Field(label="Grad. w"),
        "contender_weight": Field(label="Cont. w"),
        "attraction_weight": Field(label="Attr. w"),
        "mean_activation": Field(label="Activation"),
    },
)
"""How the metrics of competing features are shown."""


@dataclass(frozen=True, kw_only=True)
class BclResult(TrainingResult):
    """How a training ended."""

    condition: Condition
    """Which of them it was."""
    seed: int
    """The one it was made with."""
    health: FeatureHealth
    """The features at the end."""


class BclTraining(AutoencoderTraining):
    """Model, optimizer, data and competition of one run.

    >>> training = BclTraining(BclConfig(steps=3))
    >>> training.bcl.describe()["variant"]
    'novelty'
    """

    def __init__(self, config: BclConfig) -> None:
        super().__init__(config.training)
        self.recipe = config
        gated = config.condition != "control"
        self.bcl = BCL(self.model.encoder, config.competition) if gated else None
        self._monitor = FeatureHealthMonitor(
            self.model, self.validation.images, config.competition, gated=gated
        )
        self._fault_reported = False

    @property
    def settings(self) -> dict[str, Any]:
        """What the run's header records."""
        return {"recipe": "bcl", **asdict(self.recipe)}

    def declare_sources(self, run: Run) -> None:
        """Tell the run which tensor is looked at by default, and what moves it."""
        run.controller.watches.add_source(SOURCE, lambda: self.model.encoder.weight, default=True)
        if self.bcl is None:
            run.controller.weight_changes.declare_extra_update(SOURCE, metrics_key="features")
        else:
            run.controller.weight_changes.declare_extra_update(
                SOURCE,
                delta_key="bcl_tensors.som_delta",
                target_key="bcl_tensors.som_targets",
                metrics_key="bcl_metrics",
            )

    def extra_state(self) -> dict[str, Any]:
        """What moves with the training besides model and optimizer."""
        own: dict[str, Any] = {"health": self._monitor}
        return own if self.bcl is None else {**own, "bcl": self.bcl}

    def session(self, run: Run) -> Session:
        """The session that trains in `run`."""
        session = super().session(run)
        control, training = session.controller, session.trainer
        session.after_step(lambda _model: self._examine(training.step + 1))
        if self.bcl is not None:
            # Kept in every step they would cost a hundredth of it: memory is free again later.
            self.bcl.wants_tensors = lambda: control.captures.shows_step and not training.replaying
        return session

    def begin(self, session: Session) -> None:
        """What the competition shows itself stands in place of the norms of layers."""
        session.run.hide(LayerNorms.key)
        self.declare_sources(session.run)

    def train(self, run: Run) -> BclResult:
        """Train to the last step, or until the run is stopped."""
        result = super().train(run)
        return BclResult(
            **asdict(result),
            condition=self.recipe.condition,
            seed=self.recipe.seed,
            health=self._record_end(run, result.steps),
        )

    def run_to_end(self, run: Run) -> BclResult:
        """Train in `run`, and put on record how that ended."""
        return cast("BclResult", super().run_to_end(run))

    def _examine(self, step: int) -> None:
        """Also where steps are repeated: each examination is made against the one before."""
        if step % self.recipe.health_every == 0:
            self._monitor.examine(step)

    def step_ended(self, session: Session, record: StepRecord) -> None:
        """Tell of a step what the session does not know, the competition included."""
        super().step_ended(session, record)
        run = session.run
        if self.bcl is not None and self.bcl.fault is not None:
            self._report_fault(run, self.bcl.fault)
        health = self._monitor.last
        if health is not None and health.step == record.step:
            run.log(**health.metrics)
            run.event(Moment.STEP, **health.as_fact())

    def capture_features(self, control: DebugController, images: torch.Tensor) -> None:
        """What the competition did, nothing after a batch that it left alone."""
        bcl = self.bcl
        if bcl is None:
            control.capture_step_data(
                "features", partial(self._features_without_competition, images), panel=TABLE
            )
            return
        if metrics := bcl.get_step_metrics():
            control.capture_step_data("bcl_metrics", metrics, panel=COMPETITION_TABLE)
        if tensors := bcl.last_tensors():
            control.capture_step_data("bcl_tensors", tensors)

    def _features_without_competition(self, images: torch.Tensor) -> DeferredColumns:
        """Features without a competition, and how they would do in one."""
        return hidden_units(
            self.model, images, partial(competition_metrics, config=self.recipe.competition)
        )

    def _report_fault(self, run: Run, fault: str) -> None:
        """The competition switched itself off; once is enough to say so."""
        if not self._fault_reported:
            self._fault_reported = True
            run.event(Moment.INTERVENTION, who="system", kind="hook_off", hook="bcl", why=fault)

    def _record_end(self, run: Run, step: int) -> FeatureHealth:
        """The features at the end, on record too, unless they were examined just now."""
        previous = self._monitor.last
        health = self._monitor.examine(step)
        if health is not previous:
            run.log_finished(**health.metrics)
            run.event(Moment.STEP, **health.as_fact())
        return health
