"""The route by which a stream names what it shows."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import Field, model_validator
from starlette.responses import Response

from midstep.control.capture.subscriptions import Need
from midstep.server.dependencies import RunDependency
from midstep.server.problems import Refusal
from midstep.server.responses import StrictJsonResponse
from midstep.server.schema_base import In, Out
from midstep.server.step_views.batch_json import MAX_SHOWN

router = APIRouter()
MAX_SUBSCRIPTIONS = 32
MAX_VERSION = 2**53
_Id = Annotated[str, Field(min_length=1, max_length=128)]
_Key = Annotated[str, Field(min_length=1, max_length=512)]


class BatchSubscription(In):
    """Samples of the batch, reduced to tiles."""

    id: _Id
    kind: Literal["batch"]
    first: Annotated[int, Field(ge=0, le=2**31)] = 0
    count: Annotated[int, Field(ge=1, le=MAX_SHOWN)] = 64

    def need(self) -> Need:
        """What the run captures for it."""
        return Need(kind="batch", first=self.first, count=self.count)


class KeySubscription(In):
    """Step data of one key, or all of it; or what needs clones of one tensor."""

    id: _Id
    kind: Literal["step_data", "forces", "cosine_matrix", "weights"]
    key: _Key | None = None
    """Key of the step data, all keys when left out; or name of the tensor, the run's default when
    left out."""

    def need(self) -> Need:
        """What the run captures for it."""
        return Need(kind=self.kind, key=self.key)


class LayersSubscription(In):
    """The norms of the layers."""

    id: _Id
    kind: Literal["layers"]

    def need(self) -> Need:
        """What the run captures for it."""
        return Need(kind="layers")


Subscription = Annotated[
    BatchSubscription | KeySubscription | LayersSubscription, Field(discriminator="kind")
]


class SubscriptionsIn(In):
    """All that a stream shows; it replaces the list before."""

    version: Annotated[int, Field(ge=0, le=MAX_VERSION)]
    """A lower version than the last one is ignored."""
    subscriptions: Annotated[list[Subscription], Field(max_length=MAX_SUBSCRIPTIONS)]
    """At most 512 samples over all batches."""

    @model_validator(mode="after")
    def _check(self) -> SubscriptionsIn:
        ids = [each.id for each in self.subscriptions]
        if len(set(ids)) < len(ids):
            raise ValueError("each subscription needs an id of its own")
        batches = (each for each in self.subscriptions if isinstance(each, BatchSubscription))
        samples = sum(each.count for each in batches)
        if samples > MAX_SHOWN:
            raise ValueError(f"{samples} samples; at most {MAX_SHOWN} over all subscriptions")
        return self


class SubscriptionsOut(Out):
    """What the run captures for the stream from now on."""

    stream: str
    version: int
    """The version that counts."""
    accepted: list[str]
    """Ids of the subscriptions that count."""


@router.put("/streams/{stream}/subscriptions", response_model=SubscriptionsOut)
def put_subscriptions(
    run: RunDependency,
    stream: Annotated[str, Path(max_length=64, description="Id of the stream, from its hello.")],
    body: SubscriptionsIn,
) -> Response:
    """Name what a stream shows; the run captures only that, and no more when the stream ends.

    Also allowed with a viewer token and on a read-only server: it changes no training state.
    """
    held = run.subscriptions()
    needs = {each.id: each.need() for each in body.subscriptions}
    version = None if held is None else held.replace(stream, body.version, needs)
    if held is None or version is None:
        raise Refusal(
            404, "no_stream", "This run has no open stream of this id. Read it from the hello."
        )
    accepted = list(held.list_of(stream))
    return StrictJsonResponse({"stream": stream, "version": version, "accepted": accepted})
