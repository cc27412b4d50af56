"""What goes wrong around jobs: reports that cannot be read, tasks that are written over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from service.domain.errors import CloudUnavailable, ImageNotFound
from service.domain.jobs.image import ImageFacts
from service.emulator.errors import ApiError
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.surfaces import control
from service.emulator.world.container_runs import ContainerRun
from tests.simulation.clock import Agenda
from tests.simulation.cloud_faults import CloudFaults
from tests.simulation.crash_points import CrashPoints, SeamedCloud
from tests.simulation.jobs.requests import MISSING_IMAGE

STORMS: tuple[dict[str, Any], ...] = (
    {"rpc": "GetGuestAttributes", "action": "error", "code": "UNAVAILABLE"},
    {"rpc": "GetGuestAttributes", "action": "error", "code": "INTERNAL", "probability": 0.5},
    {"rpc": "UpdateNode", "action": "lose_response"},
    {"rpc": "UpdateNode", "action": "error", "code": "UNAVAILABLE", "probability": 0.5},
    {"rpc": "UpdateNode", "action": "fail_operation", "code": "INTERNAL"},
    {"rpc": "UpdateNode", "action": "lose_operation"},
    {"rpc": "UpdateNode", "action": "slow_operation", "delay_seconds": 120},
)
BLACKOUT_SECONDS = 240
NOTICE_SECONDS = 45
LAG_SECONDS = 45
DIGEST = "sha256:" + "ab" * 32


class Accidents:
    """Storms of the mailbox, and people who write the same metadata as we do (J3)."""

    def __init__(
        self,
        agenda: Agenda,
        weather: CloudFaults,
        luck: Random,
        blackouts: Random,
        notices: Random,
    ) -> None:
        self._agenda = agenda
        self._weather = weather
        self._luck = luck
        self._storms_per_hour = luck.choice([0, 2, 6])
        self._logins_per_hour = luck.choice([0, 10, 40])
        self._sibling_death = luck.choice([0.0, 30.0, 30.0])
        self._blackouts = blackouts
        self._blacked_out = blackouts.choice([0.0, 0.0, 0.3])
        """The share of the containers soon after whose start a blackout begins."""
        self.supplant: Callable[[str], None] = lambda _: None
        """Submits another job for the node of a job, and cancels that one."""
        if self._blacked_out:
            self._sibling_death = blackouts.choice([0.0, self._sibling_death])
        self._notices = notices
        self._noticed = notices.choice([0.0, 0.0, 0.3])
        """The share of the containers soon after whose start their node is told to go."""
        self._rivals: dict[str, dict[str, str]] = {}
        """By node: the map that somebody read, and will write as soon as a newer one is there."""

    def begin(self) -> None:
        config = {
            "played_workers": "all",
            "odds": {"sibling_death_seconds": self._sibling_death},
        }
        control.change_config(self._weather.world, config)
        self._weather.world.on_metadata.append(self._write_over)
        self._weather.world.runs.observers.append(self._started)
        self._often(self._storms_per_hour, self._storm)
        self._often(self._logins_per_hour, self._log_in)

    def _often(self, per_hour: float, happen: Any) -> None:
        if not per_hour:
            return

        def turn() -> None:
            if not self._weather.fair:
                happen()
                self._agenda.after(self._luck.expovariate(per_hour / 3600), turn)

        self._agenda.after(self._luck.expovariate(per_hour / 3600), turn)

    def _storm(self) -> None:
        seconds = self._luck.choice([30, 120, 600])
        storm = {**self._luck.choice(STORMS), "for_seconds": seconds}
        control.add_fault(self._weather.world, storm)

    def _started(self, run: ContainerRun) -> None:
        if self._blackouts.random() < self._blacked_out:
            self._agenda.after(self._blackouts.uniform(5, 60), lambda: self._black_out(run.job))
        if self._notices.random() < self._noticed:
            self._agenda.after(self._notices.uniform(5, 60), lambda: self._give_notice(run.node))

    def _give_notice(self, node: str) -> None:
        """The notice of a preemption, for all workers of a node that can be preempted."""
        if not self._weather.fair:
            with suppress(ApiError):  # on demand, or gone
                notice = {"name": node, "notice_seconds": NOTICE_SECONDS}
                control.preempt_node(self._weather.world, notice)

    def _black_out(self, job_id: str) -> None:
        """For longer than a stop is waited for, no worker is told anything. Meanwhile somebody
        wants the node of a job for another one: that comes while the container still runs."""
        if self._weather.fair:
            return
        blackout = {"rpc": "UpdateNode", "action": "error", "code": "UNAVAILABLE"}
        control.add_fault(self._weather.world, {**blackout, "for_seconds": BLACKOUT_SECONDS})
        self._agenda.after(5, lambda: self.supplant(job_id))

    def _log_in(self) -> None:
        """Do as `gcloud compute tpus tpu-vm ssh` does: read the map, add a key, write the map."""
        nodes = sorted(
            name
            for name, record in self._weather.world.nodes.items()
            if record.state == "READY" and "steward-id" in record.message.labels
        )
        if not nodes:
            return
        name = self._luck.choice(nodes)
        self.write_later(name, self.metadata(name), self._luck.uniform(0, 5))

    def metadata(self, name: str) -> dict[str, str]:
        """What somebody reads who is about to write it back."""
        record = self._weather.world.nodes.get(name)
        return {} if record is None else dict(record.message.metadata)

    def write_later(self, name: str, metadata: dict[str, str], seconds: float) -> None:
        """Write a map that was read before, with a key more, over whatever is there by then."""
        metadata["ssh-keys"] = f"ada:key-{self._luck.random()}"

        def write() -> None:
            with suppress(ApiError):  # an operation is open, or the node is gone
                node = {"name": name, "metadata": metadata}
                self._weather.ask("UpdateNode", node=node, update_mask={"paths": ["metadata"]})

        self._agenda.after(seconds, write)

    def write_at_once(self, name: str, metadata: dict[str, str]) -> None:
        """Write a map that was read before over the next one, which no worker has read by then."""
        self._rivals[name] = {**metadata, "ssh-keys": "ada:key-of-a-rival"}

    def _write_over(self, record: NodeRecord, _at: float) -> None:
        rival = self._rivals.pop(record.name, None)
        if rival is not None:
            record.message.metadata.clear()
            record.message.metadata.update(rival)


class LaggingCloud:
    """The cloud, which now and then answers with reports of a moment ago: what is read is served by
    many machines, and nothing says that all of them have the newest. And what is written is now and
    then written over by somebody who had read the map before."""

    def __init__(
        self,
        cloud: SeamedCloud,
        agenda: Agenda,
        seams: CrashPoints,
        accidents: Accidents,
        luck: Random,
        rivals: Random,
    ) -> None:
        self._accidents = accidents
        self._rivals = rivals
        self._unread = rivals.choice([0.0, 0.0, 0.2])
        """The share of what is written that is written over before a worker reads it."""
        self._races = luck.choice([0.0, 0.2, 0.5])
        self._cloud = cloud
        self._agenda = agenda
        self._seams = seams
        self._luck = luck
        self._lags = luck.choice([0.0, 0.1, 0.3])
        self._answers: dict[str, list[tuple[float, Any]]] = defaultdict(list)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._cloud, verb)

    def update_metadata(self, place: Any, metadata: Any) -> Any:
        """Write it; a login that has read the map before may write its own after it."""
        before = self._accidents.metadata(place.path)
        answer = self._cloud.update_metadata(place, metadata)
        if before and not self._seams.calm and self._rivals.random() < self._unread:
            self._accidents.write_at_once(place.path, before)
        if before and not self._seams.calm and self._luck.random() < self._races:
            self._accidents.write_later(place.path, before, self._luck.uniform(3, 10))
        return answer

    def guest_attributes(self, place: Any, namespace: str) -> Any:
        """The newest answer, or one that was given within the last 45 seconds."""
        answer = self._cloud.guest_attributes(place, namespace)
        known = self._answers[place.path]
        recent = [old for at, old in known if at >= self._agenda.now - LAG_SECONDS]
        known.append((self._agenda.now, answer))
        if recent and not self._seams.calm and self._luck.random() < self._lags:
            return self._luck.choice(recent)
        return answer


class SeamedRegistry:
    """A registry that has every image but one, and that cannot always be reached."""

    def __init__(self, seams: CrashPoints, luck: Random) -> None:
        self._seams = seams
        self._luck = luck

    def resolve(self, image: str, architecture: str) -> ImageFacts:
        """What the registry says of an image."""
        return self._seams.call("resolve", lambda: self._answer(image, architecture))

    def _answer(self, image: str, architecture: str) -> ImageFacts:
        if not self._seams.calm and self._luck.random() < 0.1:
            raise CloudUnavailable("the registry did not answer")
        if image == MISSING_IMAGE:
            raise ImageNotFound(f"the registry has no {image}")
        return ImageFacts(DIGEST, (f"linux/{architecture}",))
