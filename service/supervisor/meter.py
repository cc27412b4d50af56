"""The meter of one worker: it reports what the machine does, whoever started it.

A sample that fails, or a pause between two, proves nothing: the meter begins anew.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired, run
from types import SimpleNamespace
from typing import Any
from urllib.request import HTTPHandler, OpenerDirector, Request

SAMPLE_SECONDS, COUNT_SECONDS, LONGEST_PAUSE = 5, 60, 60
PUT_SECONDS, REPORT_SECONDS = 60, 240
RESTART_SECONDS = 600
CPU_PERCENT, NETWORK_BYTES = 10, 1_000_000
"""Above them, over COUNT_SECONDS, a core or the network (per second) is at work."""

SESSION = re.compile(r"sshd(-session)?: [^\s\[/]\S*")
NOT_A_NETWORK = re.compile(r"(lo|docker\d*|br-.*|veth.*|virbr\d*|cni.*)$")
GIVEN = SimpleNamespace(speed=1)


def parse_cpu(text):
    """Return the ticks at work and all ticks of each core."""
    found = {}
    for line in text.splitlines():
        name, *ticks = line.split() or [""]
        if re.match(r"cpu\d+$", name):
            numbers = [int(tick) for tick in ticks[:8]]
            found[name] = (sum(numbers) - sum(numbers[3:5]), sum(numbers))
    if not found:
        raise OSError("no core is counted")
    return found


def parse_network(text):
    """Return the bytes of each network that leaves the machine."""
    found = {}
    for line in text.splitlines():
        name, colon, numbers = line.partition(":")
        if colon and not NOT_A_NETWORK.match(name.strip()):
            words = numbers.split()
            found[name.strip()] = int(words[0]) + int(words[8])
    return found


def find_busiest(before, after):
    """Return the percent of the busiest core; ValueError where none went on counting."""
    shares = []
    for core, (work, ticks) in after.items():
        old_work, old_ticks = before.get(core, (0, 0))
        if ticks > old_ticks:
            shares.append(100 * max(0, work - old_work) / (ticks - old_ticks))
    return max(shares)


def count_bytes(before, after):
    """Return the bytes between two counts; a counter that fell has begun anew."""
    pairs = [(before.get(name, 0), count) for name, count in after.items()]
    return sum(count - old if count >= old else count for old, count in pairs)


def extend_rest(since, start, is_at_rest):
    """Return since when something is at rest, if a span from `start` was; else None."""
    if not is_at_rest:
        return None
    return math.ceil(start) if since is None else since


def count_restarts(seen, counts, now, window):
    """Return the most restarts of one container within the window.

    `counts` are those since each was made; `seen` keeps what the window needs, with times.
    """
    most = 0
    for container in [each for each in seen if each not in counts]:
        del seen[container]
    for container, count in counts.items():
        known = [*seen.get(container, []), (now, count)]
        while len(known) > 1 and known[1][0] <= now - window:
            known.pop(0)
        seen[container] = known
        most = max(most, count - known[0][1])
    return most


def may_put(sent, document, seconds, age):
    """Say whether a document is due; `age` is by how much it is newer than what was sent."""
    if seconds is not None and seconds < PUT_SECONDS:
        return False
    is_news = any(bool(sent.get(key)) != bool(document[key]) for key in ("holder", "sessions"))
    return is_news or seconds is None or age >= REPORT_SECONDS


def read_links(folder):
    """Yield what the open files of a process are."""
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):  # it was closed
            yield os.readlink(f"{folder}/{name}")


def look(proc, devices):
    """Return who holds a device, and how many people are logged in.

    Raises OSError where that is not known: no device, no process, or one that hides its files.
    """
    root = Path(devices).resolve()
    prefixes = f"{root}/vfio/", f"{root}/accel"
    if not any([*root.glob("vfio/*"), *root.glob("accel*")]):
        raise OSError("there is no device of an accelerator")
    holder, sessions, processes = "", 0, 0
    for process in filter(str.isdigit, os.listdir(proc)):
        folder = f"{proc}/{process}"
        try:
            command = Path(folder, "cmdline").read_text(errors="replace").replace("\0", " ")
            command = " ".join(command.split())[:200]
            held = [link for link in read_links(f"{folder}/fd") if link.startswith(prefixes)]
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
        processes += 1
        sessions += SESSION.fullmatch(command) is not None
        if held and not holder:
            holder = f"process {process} ({command}) holds {held[0]}"
    if not processes:
        raise OSError("there is no process")
    return holder, sessions


def ask_docker(*args):
    done = run(["docker", *args], capture_output=True, errors="replace", timeout=15)
    if done.returncode and not done.stdout:
        raise OSError(done.stderr)
    return [line.split() for line in done.stdout.splitlines()]


def list_restarts():
    """Return how often each container that is of no job was restarted since it was made."""
    if not shutil.which("docker"):
        return {}
    lines = ask_docker("ps", "--no-trunc", '--format={{.ID}} {{.Label "steward-attempt"}}')
    others = [words[0] for words in lines if len(words) == 1]
    lines = ask_docker("inspect", "--format={{.Id}} {{.RestartCount}}", *others) if others else []
    return {words[0]: int(words[1]) for words in lines}


def pace(seconds):
    return seconds / float(GIVEN.speed)


def read_counters():
    proc = Path(GIVEN.proc)
    return parse_cpu((proc / "stat").read_text()), parse_network((proc / "net/dev").read_text())


class Gauge:
    """What was seen since the meter began, or began anew. Times are UTC seconds."""

    def __init__(self, now):
        self.started_at = self.sampled_at = self.counted_at = now
        self.mark = time.monotonic()
        self.free_since = self.cpu_since = self.network_since = None
        self.holder, self.sessions, self.containers, self.restarts = "", 0, 0, 0
        self.cpu, self.network = read_counters()

    def is_broken(self, now):
        """Say whether time went by unseen, or somebody set the clock."""
        before, self.mark = self.mark, time.monotonic()
        seconds = now - self.sampled_at
        return not 0 <= seconds <= LONGEST_PAUSE or abs(seconds - (self.mark - before)) > 5

    def sample(self, now, seen):
        self.sampled_at = now
        self.holder, self.sessions = look(GIVEN.proc, GIVEN.devices)
        self.free_since = extend_rest(self.free_since, now, not self.holder)
        if now - self.counted_at >= pace(COUNT_SECONDS):
            self.count(now)
            try:
                counts = list_restarts()
            except (OSError, TimeoutExpired):
                return  # the numbers of before stay
            self.containers = len(counts)
            self.restarts = count_restarts(seen, counts, now, pace(RESTART_SECONDS))

    def count(self, now):
        cpu, network = read_counters()
        start, seconds = self.counted_at, now - self.counted_at
        is_quiet = find_busiest(self.cpu, cpu) <= CPU_PERCENT
        self.cpu_since = extend_rest(self.cpu_since, start, is_quiet)
        is_quiet = count_bytes(self.network, network) <= NETWORK_BYTES * seconds
        self.network_since = extend_rest(self.network_since, start, is_quiet)
        self.cpu, self.network, self.counted_at = cpu, network, now

    def document(self):
        """Return what is reported, until the last count; None before the first."""
        if self.counted_at == self.started_at:
            return None
        return {
            "v": 1,
            "boot": GIVEN.boot,
            "from": math.ceil(self.started_at),
            "at": int(self.counted_at),
            "holder": self.holder,
            "device_free_since": self.free_since,
            "cpu_quiet_since": self.cpu_since,
            "network_quiet_since": self.network_since,
            "sessions": self.sessions,
            "containers": self.containers,
            "restarts": self.restarts,
        }


WEB = OpenerDirector()  # no proxies, no redirects
WEB.add_handler(HTTPHandler())


def put(document):
    url = f"{GIVEN.metadata}/computeMetadata/v1/instance/guest-attributes/steward/activity"
    body, headers = json.dumps(document).encode(), {"Metadata-Flavor": "Google"}
    with WEB.open(Request(url, body, headers, method="PUT"), timeout=10) as reply:
        return reply.status == 200


def report(live, document):
    """Put a document that is due; one that failed waits like one that did not."""
    mark, speed = time.monotonic(), float(GIVEN.speed)
    seconds = None if live.put_at is None else (mark - live.put_at) * speed
    age = (document["at"] - live.sent.get("at", 0)) * speed if document else 0
    if document and may_put(live.sent, document, seconds, age):
        live.put_at = mark
        try:
            live.sent = document if put(document) else live.sent
        except OSError:
            traceback.print_exc()


def main():
    for option, value in zip(sys.argv[1::2], sys.argv[2::2]):
        setattr(GIVEN, option[2:], value)
    live: Any = SimpleNamespace(meter=None, seen={}, sent={}, put_at=None)
    while True:
        now = time.time()
        try:
            if live.meter is None or live.meter.is_broken(now):
                live.meter = Gauge(now)
            live.meter.sample(now, live.seen)
            report(live, live.meter.document())
        except Exception:  # noqa: BLE001 - a dead meter helps nobody
            traceback.print_exc()
            live.meter = None
        time.sleep(pace(SAMPLE_SECONDS))


if __name__ == "__main__":
    main()
