"""The supervisor of one worker: it runs the container that instance metadata asks for.

Python 3.8 and its standard library alone. Pure functions decide, `Supervisor` acts. A crash ends no
container: docker keeps it, systemd starts this file again, the state on disk says where to go on.
"""

from __future__ import annotations

import argparse
import calendar
import collections
import fcntl
import hashlib
import http.client
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, NamedTuple
from urllib.parse import quote, urlencode

Json = Dict[str, Any]
LINE_BYTES, BATCH_BYTES, QUEUE_BYTES, TAIL_BYTES = 200_000, 1 << 20, 8 << 20, 64 << 10
PUTS = (2, 2, 3, 4)  # in any 60 s, by the weight of a change; Compute Engine allows ten queries
EPOCH = 1_700_000_000  # where the faster clock of --speed begins
STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT[\d:.]+Z) ")
MARKER = rb"(?m)^(\S+) STEWARD_(?:(DONE)|(CHECKPOINT|STEP|DEVICES) +(\d{1,15}))[ \t\r]*$"
NO_DEVICE = (
    r"(?i)/dev/(vfio|accel).*(not permitted|permission denied|no such file)"
    r"|no tpu (device|chip)s? (was |were )?found"
)
PULL_FAILURES = (
    ("", "credential"),  # a helper that is not ready yet (marin #6567)
    ("DISK_FULL", "no space left"),
    ("IMAGE_NOT_FOUND", "manifest.* (unknown|not found)|name unknown|no matching manifest"),
    ("IMAGE_NOT_FOUND", "invalid reference format|repository .* not found|/.*: not found"),
    ("PULL_DENIED", "denied|unauthorized|forbidden|no basic auth"),
)
OPTIONS = ["--network", "host", "--ulimit", "memlock=-1:-1", "--log-driver", "json-file"]
OPTIONS += ["--log-opt", "max-size=50m", "--log-opt", "max-file=2"]
# Docker itself would obey these names: their values go with the arguments.
OWN = re.compile("PATH|HOME|XDG_.*|DOCKER_.*|LD_.*|GO.*|SSL_.*|.*_proxy", re.IGNORECASE)
NUMBERS: Json = {"generation": 0, "first_worker": 0, "stop_grace_seconds": 25, "pull_seconds": 1800}
NUMBERS.update(max_duration_seconds=0, device_wait_seconds=120, report_seconds=15)
TIMES = "exit_code pull_started_at pulled_at started_at ended_at done_at checkpoint checkpoint_at"
# What a report says of an attempt. A record on disk adds keys with `_`.
ATTEMPT: Json = dict.fromkeys([*TIMES.split(), "step", "step_at", "devices"])
ATTEMPT.update(state="IDLE", reason="", detail="", image_digest="", access="", warnings=[], tail="")
ATTEMPT["logs"] = {"shipped": 0, "dropped": 0, "cut": 0, "error": ""}


def check(is_right: object, problem: str) -> None:
    if not is_right:
        raise ValueError(problem)


def parse_task(text: str) -> Json:
    """Return the task with its defaults; raises ValueError that says what is wrong."""
    try:
        task = json.loads(text)
        check(task["v"] == 1, "v is not 1")
        task = {**NUMBERS, "workers": [], "log": {}, "storage": {}, **task}
        check(re.fullmatch("[a-z0-9-]{1,63}", task["attempt"]), "attempt is no id")
        check(task["action"] in ("pull", "run", "stop", "release"), "action is unknown")
        for key in NUMBERS:
            check(0 <= task[key] < 1e12, f"{key} is out of range")
        task["container"] = parse_container(task.get("container", {}), task["action"])
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    return dict(task)


def parse_container(given: Json, action: str) -> Json:
    """Return the container with its defaults; refuses what docker would take for an option."""
    container = {"command": [], "args": [], "env": {}, "mounts": [], "shm_size": "", **given}
    container.setdefault("device_access", "auto")
    if action in ("stop", "release"):
        return container
    check(re.fullmatch(r"[A-Za-z0-9][\w./:@-]*", container["image"]), "image is no reference")
    words = [*container["command"], *container["args"], *container["env"].values()]
    check(all(isinstance(word, str) for word in words), "command, args and env hold texts")
    check(container["device_access"] in ("auto", "device", "privileged"), "device_access")
    check(re.fullmatch(r"(\d+[bkmgBKMG]?)?", container["shm_size"]), "shm_size is no size")
    for path in (mount[end] for mount in container["mounts"] for end in ("source", "target")):
        check(re.fullmatch(r"/[^,\"\r\n]*", path), "a mount is no absolute path")
    return container


def choose_task(current: Json | None, record: Json, offered: Json) -> Json:
    """Return the task to act on: a container ends before another attempt begins."""
    is_other = current and current["attempt"] != offered["attempt"]
    if current and is_other and record.get("_boot") and record["state"] != "EXITED":
        return {**current, "action": "stop"}
    return offered


class Scene(NamedTuple):
    """What decides beyond the task and the record; times in UTC seconds."""

    boot: str
    now: float
    is_ready: bool = True  # the startup script has ended
    preempted_at: float | None = None


def find_stop_reason(task: Json, record: Json, scene: Scene) -> str:
    """Return why a container has to end or must not start; empty if it may run."""
    limit, started_at = task["max_duration_seconds"], record["started_at"]
    if record.get("_stop") or task["action"] == "stop":
        return str(record.get("_stop") or "STOPPED")
    if scene.preempted_at is not None:
        return "PREEMPTION_NOTICE"
    is_over = limit and started_at is not None and scene.now >= started_at + limit
    return "TIMED_OUT" if is_over else ""


def next_step(  # noqa: C901, PLR0911 - a table
    task: Json, record: Json, container: str, scene: Scene
) -> tuple[str, str]:
    """Return the one thing to do next, and the reason of the end that it leads to.

    `container` is missing, created, running, exited or unknown: docker did not answer.
    """
    if task["action"] == "release":
        return ("REST" if record.get("_released") else "RELEASE"), ""
    if record["state"] == "EXITED":
        return "REST", ""
    if record.get("_boot", scene.boot) != scene.boot:
        return "FINISH", "REBOOTED"
    if container == "unknown":
        return "REST", ""
    reason = find_stop_reason(task, record, scene)
    if container == "running":
        return ("STOP" if reason else "WATCH"), reason
    if container == "exited" and not record.get("_again"):
        return "COLLECT", ""
    if record["state"] in ("RUNNING", "STOPPING"):
        return "FINISH", "LOST"
    if reason:
        return "FINISH", reason
    if not scene.is_ready:
        return "REST", ""
    if record["pulled_at"] is None:
        return "PULL", ""
    return ("START" if task["action"] == "run" else "REST"), ""


def find_end_reason(record: Json, state: Json, preempted_at: float | None) -> str:
    """Return why a container ended, given docker's state of it."""
    if record.get("_stop") or preempted_at is not None:
        return str(record.get("_stop") or "PREEMPTION_NOTICE")
    return "OOM_KILLED" if state.get("OOMKilled") and state.get("ExitCode") else "COMPLETED"


def needs_privileges(wanted: str, access: str, exit_code: int, seconds: float, output: str) -> bool:
    """Whether a program failed at once because it could not open the TPU device."""
    is_early = wanted == "auto" and access == "device" and exit_code != 0 and seconds < 30
    return is_early and re.search(NO_DEVICE, output) is not None


def weigh_change(sent: Json, report: Json) -> int:
    """Return 0 for no change, 1 for a detail, 2 for a state, 3 for an end or a preemption."""
    if sent == report:
        return 0
    if report["preempted_at"] != sent.get("preempted_at"):
        return 3
    if all(report[key] == sent.get(key) for key in ("state", "attempt", "generation")):
        return 1
    weights = {"EXITED": 3, "UNAVAILABLE": 3, "PULLING": 1, "STARTING": 1}
    return weights.get(report["state"], 2)


def find_put_delay(puts: list[float], now: float, weight: int, least: float) -> float:
    """Return the seconds until a report of that weight may be PUT; 0 when it may go now."""
    recent = sorted(at for at in puts if now - 60 < at <= now)
    delay = recent[-PUTS[weight]] + 60 - now if len(recent) >= PUTS[weight] else 0.0
    if weight < 2 and recent:
        delay = max(delay, recent[-1] + (max(least, 15) if weight else 60) - now)
    return max(delay, 0.0)


def encode_report(report: Json) -> bytes:
    """Return the report as JSON of at most 100 kB: the tail gives way."""
    while True:
        body = json.dumps(report, ensure_ascii=False).encode("utf-8", "replace")
        if len(body) <= 100_000 or not report["tail"]:
            return body
        report = {**report, "tail": report["tail"][len(report["tail"]) // 4 + 1 :]}


def classify_pull(output: str) -> str:
    """Return the reason of a failed pull; empty if a retry may help."""
    found = (reason for reason, text in PULL_FAILURES if re.search(text, output, re.IGNORECASE))
    return next(found, "")


def find_registry(image: str) -> str:
    """Return the host to log in to with the worker's token; empty for other registries."""
    host = image.partition("/")[0]
    return host if f".{host}".endswith((".gcr.io", ".pkg.dev")) else ""


def build_run(task: Json, access: str, devices: list[str], worker: int) -> tuple[list[str], Json]:
    """Return the arguments of `docker run`, and the environment that its `--env NAME` reads."""
    name, container = task["attempt"], task["container"]
    args = ["run", "--detach", "--name", f"steward-{name}", "--label", f"steward-attempt={name}"]
    args += [*OPTIONS, *(["--privileged"] if access == "privileged" else [])]
    if access != "privileged":
        args += [word for device in devices for word in ("--device", device)]
    if container["shm_size"]:
        args += ["--shm-size", container["shm_size"]]
    for mount in container["mounts"]:
        option = f"type=bind,source={mount['source']},target={mount['target']}"
        args += ["--mount", option + (",readonly" if mount.get("read_only") else "")]
    env = {"STEWARD_WORKER": str(task["first_worker"] + worker), **container["env"]}
    for key, value in env.items():
        args += ["--env", f"{key}={value}" if OWN.fullmatch(key) else key]
    first, rest = container["command"][:1], container["command"][1:]
    args += ["--entrypoint", *first] if first else []
    env = {key: value for key, value in env.items() if not OWN.fullmatch(key)}
    return [*args, container["image"], *rest, *container["args"]], env


def judge_storage(verb: str, url: str, status: int, answer: Json) -> tuple[str, str]:
    """Return why a job cannot use a gs:// address, or a warning, or two empty texts."""
    if status in (401, 403, 404):
        return f"{url}: storage answered {status} to a check of {verb} access", ""
    if status != 200:
        return "", f"{url}: the check of {verb} access failed with {status}"
    if verb == "write" and not answer.get("permissions"):
        return f"{url}: storage.objects.create is not granted", ""
    return "", f"{url} holds nothing" if verb == "read" and not answer.get("items") else ""


def is_near(location: str, region: str) -> bool:
    """Whether a bucket's location (`US-WEST4`, `EU`) is or holds the region."""
    place = {"eu": "europe"}.get(location.lower(), location.lower())
    return not place or not region or f"{region}-".startswith(f"{place}-")


def parse_seconds(stamp: str) -> int | None:
    """Return the UTC seconds of an RFC 3339 time; None for no time and for docker's year 1."""
    with suppress(ValueError):
        return max(calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")), 0) or None
    return None


def parse_markers(output: bytes) -> Json:
    """Return what stamped lines `STEWARD_...` say; the last of a kind counts."""
    found: Json = {}
    for stamp, done, kind, value in re.findall(MARKER, output):
        name = "done" if done else kind.decode().lower()
        found.update({name: int(value)} if kind else {})
        found.update({} if name == "devices" else {f"{name}_at": parse_seconds(stamp.decode())})
    return found


def cut_lines(rest: bytes, data: bytes) -> tuple[list[bytes], bytes]:
    """Return the lines that are whole now, and the bounded rest; no data ends the last line."""
    limit = LINE_BYTES + 1000  # with the timestamps in it
    *whole, rest = (rest + data).split(b"\n")
    whole, rest = ([*whole, rest], b"") if rest and not data else (whole, rest[:limit])
    return [line[:limit] for line in whole], rest


def split_line(raw: bytes) -> tuple[str, bytes]:
    """Return time and text. Docker repeats the time before each 16 kB of a long line."""
    match = STAMP.match(raw)
    if not match:
        return "", raw
    text = raw[match.end() :]
    return match[1].decode(), text.replace(match[0], b"") if len(text) > 16384 else text


def build_entries(task: Json, worker: int, lines: list[tuple[str, str, int, bytes]]) -> Json:
    """Return the body of `entries:write`; a line has the same insertId each time it is sent."""
    log, number, entries = task["log"], str(task["first_worker"] + worker), []
    for stream, stamp, index, text in lines:
        entry = {
            "logName": f"projects/{log['project']}/logs/{quote(log['log'], safe='')}",
            "resource": {"type": "global", "labels": {"project_id": log["project"]}},
            "labels": {**log.get("labels", {}), "worker": number, "stream": stream},
            "insertId": f"{task['attempt']}-{number}-{stamp}-{stream}-{index:06}",
            "severity": "INFO",
            "textPayload": text.decode("utf-8", "replace"),
        }
        entries.append({**entry, "timestamp": stamp} if stamp else entry)
    return {"entries": entries, "partialSuccess": True}


class Logs:
    """The output of one attempt on its way to Cloud Logging, in bounded memory."""

    def __init__(self, path: Path, task: Json, worker: int, send: Any) -> None:
        self.path, self.task, self.worker, self.send = path, task, worker, send
        self.ready, self.hurry = threading.Condition(), threading.Event()
        self.queue: collections.deque[tuple[str, str, int, bytes]] = collections.deque()
        self.tail: collections.deque[bytes] = collections.deque()
        self.queued = self.failures = 0
        self.error = "" if task["log"].get("project") else "the task names no log"
        counts: Json = {"shipped": 0, "dropped": 0, "cut": 0, "after": {}}
        self.budget = task["log"].get("budget_bytes", 1 << 30)
        saved = load(path)
        self.counts: Json = saved["counts"] if saved.get("attempt") == task["attempt"] else counts
        self.taken = {key: (at, number) for key, (at, number) in self.counts["after"].items()}

    def read(self, stream: str, pipe: Any, record: Json) -> None:
        """Take the lines of one stream of `docker logs` until its end, with their markers."""
        place, rest, data = ("", 0), b"", b"-"
        while data:
            data = os.read(pipe.fileno(), 1 << 16)
            lines, rest = cut_lines(rest, data)
            new = []
            with self.ready:
                if (
                    lines and self.queued + 200 * len(self.queue) > QUEUE_BYTES
                ):  # too many to look at
                    new, place = lines, (split_line(lines[-1])[0], sys.maxsize)
                    self.counts["dropped"] += sum(map(len, lines)) - 31 * len(lines)
                    self.taken[stream] = place
                    lines = []
                for line in lines:
                    at, text = split_line(line)
                    place = (at, place[1] + 1 if at == place[0] else 0)
                    if place > self.taken.get(stream, ("", -1)):  # else read once more
                        self.taken[stream] = place
                        self.put((stream, *place, text))
                        new.append(line)
                block = b"\n".join(new)
                record.update(parse_markers(block) if b"STEWARD_" in block else {})
                self.tail.extend([block[-TAIL_BYTES:]] if new else [])
                while sum(map(len, self.tail)) > TAIL_BYTES + len(self.tail[0]):
                    self.tail.popleft()
                self.ready.notify_all()

    def put(self, line: tuple[str, str, int, bytes]) -> None:
        size = len(line[3][:LINE_BYTES])
        self.counts["cut"] += size < len(line[3])
        if self.counts["shipped"] + self.queued + size > self.budget:
            self.counts["dropped"] += size
        else:
            self.queue.append((*line[:3], line[3][:LINE_BYTES]))
            self.queued += size

    def ship(self) -> None:
        """Send one batch. What Logging refuses for good is dropped, all else is tried again."""
        with self.ready:
            if not self.queue:
                self.ready.wait(pace(1))
                return
        if self.failures or len(self.queue) < 1000:
            self.hurry.wait(pace(min(60, 2 ** min(self.failures + 1, 6))))
        with self.ready:
            sizes = itertools.accumulate(len(line[3]) + 500 for line in self.queue)
            count = 1 + sum(size < BATCH_BYTES for size in itertools.islice(sizes, 1, 1000))
            lines = list(itertools.islice(self.queue, count))
        self.error = self.send(build_entries(self.task, self.worker, lines)) if lines else ""
        self.failures = self.failures + 1 if self.error else 0
        if self.error and not self.error.startswith(("400", "413")):
            time.sleep(pace(1))
            return
        with self.ready:
            for line in lines if self.queue else ():
                self.queue.popleft()
                self.queued -= len(line[3])
                self.counts["dropped" if self.error else "shipped"] += len(line[3])
                self.counts["after"][line[0]] = line[1:3]
            save(self.path, {"attempt": self.task["attempt"], "counts": self.counts})

    def flush(self, seconds: float) -> None:
        """Wait until everything is sent, bounded; count the rest as dropped."""
        self.hurry.set()
        until = time.monotonic() + seconds
        while self.queue and time.monotonic() < until and not self.error.startswith("40"):
            time.sleep(0.05)
        with self.ready:
            self.counts["dropped"] += self.queued
            self.queue.clear()
            self.queued = 0

    def text(self) -> str:
        with self.ready:
            blocks = b"\n".join(self.tail)
        return STAMP.sub(b"", blocks)[-TAIL_BYTES:].decode("utf-8", "replace")

    def show(self) -> Json:
        """Return what the report says of the logs."""
        counts = {key: self.counts[key] for key in ("shipped", "dropped", "cut")}
        tail = self.text() if self.error else ""
        return {"logs": {**counts, "error": self.error}, "tail": tail}


def find_devices(root: str) -> list[str]:
    folder = Path(os.path.realpath(root))
    return sorted(str(path) for glob in ("vfio/*", "accel*") for path in folder.glob(glob))


def find_holder(devices: list[str]) -> str:
    """Name a process that has a device open; empty if there is none (J5)."""
    roots = tuple(f"{device}/" for device in devices)
    for pid in list_processes():
        with suppress(OSError):  # the process has ended
            for link in Path(f"/proc/{pid}/fd").iterdir():
                device = read_link(link)
                if f"{device}/".startswith(roots):
                    command = " ".join(read_command(pid))[:200].strip()
                    return f"process {pid} ({command}) holds {device}"
    return ""


def list_processes() -> list[str]:
    return [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]


def read_link(path: Path) -> str:
    with suppress(OSError):
        return os.readlink(path)
    return ""


def read_command(pid: str) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").split("\0")
    return []


def load(path: Path) -> Json:
    """Read a JSON object; an empty one where the file is missing or damaged."""
    with suppress(OSError, ValueError):
        return dict(json.loads(path.read_text("utf-8")))
    return {}


def save(path: Path, content: Json) -> str:
    """Write a JSON object at once or not at all; returns why that failed."""
    try:
        part = path.with_suffix(".new")
        with part.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        return f"the state cannot be saved: {error}"
    return ""


SPEED = [1.0]


def pace(seconds: float) -> float:
    return seconds / SPEED[0]


def clock() -> float:
    """UTC seconds; faster with --speed, and the same after a restart."""
    return EPOCH + (time.time() - EPOCH) * SPEED[0]


WEB = urllib.request.OpenerDirector()  # no proxies, no redirects, no exception for a status
WEB.add_handler(urllib.request.HTTPHandler())
WEB.add_handler(urllib.request.HTTPSHandler())


def call(
    url: str, body: bytes | None = None, method: str = "", **names: str
) -> tuple[int, str, bytes]:
    """Return status, ETag and body; raises OSError when there is no answer."""
    headers = {key.replace("_", "-"): value for key, value in names.items()}
    request = urllib.request.Request(url, body, headers, method=method or "GET")
    try:
        with WEB.open(request, timeout=90 if "wait_for_change" in url else 20) as reply:
            return reply.status, reply.headers.get("ETag", ""), reply.read(1 << 22)
    except http.client.HTTPException as error:
        raise OSError(f"{url}: {error!r}") from error


def docker(*args: str, text: str = "", seconds: float = 60, **more: Any) -> tuple[int, str, str]:
    """Return exit code, output and errors; -1 where docker is missing, too slow or not wanted.

    `env` is added to the environment; `cancel` is an event that ends docker.
    """
    env, cancel = {**os.environ, **more.get("env", {})}, more.get("cancel")
    words, pipe = [shutil.which("docker") or "docker", *args], subprocess.PIPE
    data: bytes | None = text.encode()
    until = time.monotonic() + seconds
    try:
        process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True
        )
    except (OSError, ValueError) as error:
        return -1, "", f"docker cannot be run: {error}"
    while True:
        try:
            out, err = process.communicate(data, 0.5)
            return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")
        except subprocess.TimeoutExpired:
            data = None
            if time.monotonic() > until or (cancel and cancel.is_set()):
                with suppress(OSError):
                    os.killpg(process.pid, 9)
                process.communicate()
                return -1, "", f"docker {args[0]} was ended: it took too long or is not wanted"


def look(name: str) -> tuple[str, Json]:
    """Return how a container is (see `next_step`), and docker's state of it."""
    code, out, err = docker("inspect", name)
    if code:
        return ("missing" if "no such" in err.lower() else "unknown"), {}
    with suppress(ValueError, LookupError, TypeError):
        state = json.loads(out)[0]["State"]
        status = "running" if state.get("Running") else state["Status"]
        return (status if status in ("running", "created") else "exited"), state
    return "unknown", {}


class Supervisor:
    """Acts on one worker: `tick` takes one step at a time; threads watch, report, ship and pull."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.home = options, Path(options.home)
        self.digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
        self.boot = Path(options.boot_id_file).read_text().strip()
        self.lock = threading.RLock()
        self.wake, self.changed, self.cancel = (threading.Event() for _ in range(3))
        self.state: Json = {"seq": 0, "puts": [], "records": {}, "task": None}
        self.state.update(instance="", worker=0)
        self.state.update(load(self.home / "state.json"))
        if self.state.get("boot") != self.boot:
            self.state.update(boot=self.boot, boot_at=int(clock()), preempted_at=None, startup={})
        self.values: Json = {}  # of the metadata, by path: ETag and body
        self.read_attributes = self.script = ""
        self.is_settled = False
        self.offered: Json | None = None
        self.task_error = self.trouble = ""
        self.sent: Json = {}
        self.token = (0.0, "")
        self.seen: tuple[str, str, Json, float] = ("", "", {}, 0.0)  # name, status, state, when
        self.doing: tuple[str, str, threading.Thread] | None = None
        self.logs: Logs | None = None
        self.follower: threading.Thread | None = None
        self.reader: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        for path in ("attributes/?recursive=true&", "preempted?", "maintenance-event?"):
            self.spawn(self.watch, path)
        for loop in (self.run_startup_script, self.report, self.ship):
            self.spawn(loop)
        self.forever(self.tick)

    def spawn(self, loop: Any, *args: Any) -> None:
        threading.Thread(target=self.forever, args=(loop, *args), daemon=True).start()

    def forever(self, loop: Any, *args: Any) -> None:
        """Call a loop's body until it returns True; an error costs a pause, nothing else."""
        while True:
            try:
                if loop(*args):
                    return
            except Exception as error:  # noqa: BLE001 - a dead supervisor helps nobody
                self.say(repr(error) if isinstance(error, OSError) else traceback.format_exc())
                time.sleep(pace(random.uniform(2, 5)))

    def say(self, text: str) -> None:
        with suppress(OSError):
            os.write(1, f"tpu-steward: {text}\n".encode("utf-8", "replace"))

    def metadata(self, path: str, body: bytes | None = None) -> tuple[int, str, bytes]:
        url = f"{self.options.metadata}/computeMetadata/v1/instance/{path}"
        return call(url, body, "PUT" if body else "GET", Metadata_Flavor="Google")

    def watch(self, path: str) -> None:
        """Wait for a change of one value; its ETag is that of the same response."""
        last = self.values.get(path, ("NONE", ""))[0]
        status, etag, body = self.metadata(
            f"{path}wait_for_change=true&timeout_sec=60&last_etag={last}"
        )
        if status != 200:
            raise OSError(f"the metadata server answered {status} to {path}")
        self.values[path] = etag, body.decode("utf-8", "replace").strip()
        self.wake.set()
        if etag == last:
            time.sleep(pace(1))

    def value(self, path: str) -> str:
        return str(self.values.get(path, ("", ""))[1])

    def note_metadata(self) -> None:
        body = self.value("attributes/?recursive=true&")
        if body != self.read_attributes:
            attributes, instance = json.loads(body), self.metadata("id")[2].decode()
            if self.state["instance"] not in ("", instance):  # the disk of another machine
                self.state.update(records={}, task=None)
            number = int(attributes.get("agent-worker-number") or 0)
            self.update(self.state, instance=instance, worker=number)
            self.take(attributes.get("steward-task"))
            self.script = attributes.get("steward-startup-script", "")
            self.read_attributes = body
        if self.value("preempted?") == "TRUE" and self.state["preempted_at"] is None:
            self.update(self.state, preempted_at=int(clock()))

    def take(self, text: str | None) -> None:
        """Take a task to act on; one of an older generation is a stale copy (J3)."""
        self.task_error = ""
        try:
            check(text, "there is no steward-task")
            task = parse_task(str(text))
            known = (self.state["task"] or task)["generation"]
            check(task["generation"] >= known, f"its generation is older than {known}")
            self.offered = task
        except ValueError as error:
            self.task_error = str(error)[:500]
        self.changed.set()

    def bearer(self) -> str:
        """Return the token of the worker's service account; raises OSError without one."""
        if time.monotonic() > self.token[0]:
            status, _, body = self.metadata("service-accounts/default/token")
            if status != 200:
                raise OSError(f"no token of the service account: {status}")
            found = json.loads(body)
            self.token = time.monotonic() + found["expires_in"] - 60, found["access_token"]
        return self.token[1]

    def update(self, record: Json, **fields: Any) -> bool:
        """Change the state and save it; False if the disk refuses."""
        with self.lock:
            record.update(fields)
            self.trouble = save(self.home / "state.json", self.state)
        self.changed.set()
        self.wake.set()
        return not self.trouble

    def record(self, attempt: str) -> Json:
        with self.lock:
            records: Json = self.state["records"]
            if attempt not in records:
                records[attempt] = {**ATTEMPT, "warnings": []}
            for old in list(records)[:-20]:
                del records[old]
            return dict.__getitem__(records, attempt)

    def finish(self, record: Json, reason: str, detail: str = "", **fields: Any) -> None:
        fields = {"ended_at": int(clock()), **self.show_logs(record), **fields}
        self.update(record, state="EXITED", reason=reason, detail=detail.strip()[:500], **fields)

    def show_logs(self, record: Json) -> Json:
        """Return the logs of an attempt, as far as this process has read them."""
        is_mine = self.logs and self.record(self.logs.task["attempt"]) is record
        return self.logs.show() if self.logs and is_mine else {}

    def build_report(self) -> Json:
        with self.lock:
            task, startup = (
                self.state["task"] or {"attempt": "", "generation": 0},
                self.state["startup"],
            )
            record = self.record(task["attempt"]) if task["attempt"] else {}
            record = {} if record.get("_released") else record
            report = {**ATTEMPT, **{key: record[key] for key in ATTEMPT if key in record}}
            report.update({} if report["state"] == "EXITED" else self.show_logs(record))
            problems = [self.trouble, "docker does not answer" if self.seen[1] == "unknown" else ""]
            report["warnings"] = [*report["warnings"], *filter(None, problems)]
            is_idle = report["state"] in ("IDLE", "PULLING", "PULLED", "STARTING")
            if is_idle and startup.get("state") != "running" and not shutil.which("docker"):
                report.update(state="UNAVAILABLE", reason="NO_DOCKER")
            event = self.value("maintenance-event?")
            report.update(
                {key: self.state[key] for key in ("boot", "boot_at", "instance", "preempted_at")}
            )
            report.update(
                v=1,
                worker=self.state["worker"],
                supervisor=self.digest,
                startup_script={"state": startup["state"], "exit_code": startup["exit_code"]},
            )
            report.update(
                generation=task["generation"],
                attempt=task["attempt"],
                task_error=self.task_error,
                maintenance="" if event == "NONE" else event,
            )
            return report

    def report(self) -> None:
        """PUT the newest report when it may go; a report that fails counts as well."""
        self.changed.clear()
        if not self.state["startup"] or not self.is_settled:
            self.changed.wait(pace(1))
            return
        report, state = self.build_report(), self.state
        least = (state["task"] or NUMBERS)["report_seconds"]
        delay = find_put_delay(state["puts"], clock(), weigh_change(self.sent, report), least)
        if delay:
            self.changed.wait(pace(delay))
            return
        # The time, so that seq grows even where the disk forgot the last one.
        seq = max(state["seq"] + 1, int(time.time()))
        self.update(state, seq=seq, puts=[*state["puts"], clock()][-4:])
        status = self.metadata(
            "guest-attributes/steward/report",
            encode_report({**report, "seq": seq, "at": int(clock())}),
        )[0]
        if status != 200:
            raise OSError(f"the report was refused with {status}")
        self.sent = report

    def ship(self) -> None:
        logs = self.logs
        if logs and not logs.error.startswith("the task"):
            logs.ship()
        else:
            time.sleep(pace(1))

    def send(self, body: Json) -> str:
        """Write log entries; returns why that failed, the status first."""
        try:
            headers = {
                "Content_Type": "application/json",
                "Authorization": f"Bearer {self.bearer()}",
            }
            url = f"{self.options.logging}/v2/entries:write"
            status, _, answer = call(url, json.dumps(body).encode(), "POST", **headers)
        except OSError as error:
            return f"no answer: {error}"[:300]
        self.changed.set()
        return "" if status == 200 else f"{status} {answer.decode('utf-8', 'replace')}"[:300]

    def open_logs(self, task: Json) -> Logs:
        if self.logs is None or self.logs.task["attempt"] != task["attempt"]:
            self.logs = Logs(self.home / "logs.json", task, self.state["worker"], self.send)
        return self.logs

    def follow(self, task: Json) -> None:
        """Have a thread read the container's output as it comes."""
        if self.follower is None or not self.follower.is_alive():
            self.follower = threading.Thread(
                target=self.read_logs, args=(task, "--follow"), daemon=True
            )
            self.follower.start()

    def read_logs(self, task: Json, *flags: str) -> None:
        """Read from the last line that was taken until the end of the output."""
        logs, record, pipe = self.open_logs(task), self.record(task["attempt"]), subprocess.PIPE
        since = [f"--since={min(logs.taken.values())[0]}"] if len(logs.taken) == 2 else []
        words = [shutil.which("docker") or "docker", "logs", "--timestamps", *flags, *since]
        with suppress(OSError), subprocess.Popen(
            [*words, f"steward-{task['attempt']}"], stdout=pipe, stderr=pipe
        ) as process:
            self.reader = process
            other = threading.Thread(target=logs.read, args=("stderr", process.stderr, record))
            other.start()
            logs.read("stdout", process.stdout, record)
            other.join()
        self.seen = ("", "", {}, 0)
        self.wake.set()

    def tick(self) -> None:
        """Take the next step of the task; a pull or a start goes on in a thread of its own."""
        self.wake.wait(pace(1))
        self.wake.clear()
        try:
            self.note_metadata()
        except (OSError, ValueError) as error:  # a container is looked after all the same
            self.say(f"the metadata cannot be read: {error!r}")
        task = self.choose()
        self.is_settled = bool(self.read_attributes)
        if not task or not self.state["startup"]:
            return
        record, state = self.record(task["attempt"]), self.state
        is_ready = state["startup"]["state"] != "running"
        busy = self.doing if self.doing and self.doing[2].is_alive() else None
        status = "missing" if busy else self.inspect(task, record)
        scene = Scene(self.boot, clock(), is_ready, state["preempted_at"])
        step, reason = next_step(task, record, status, scene)
        if busy:
            if busy[:2] != (task["attempt"], step):
                self.cancel.set()
        elif step in ("PULL", "START"):
            self.cancel.clear()
            self.seen = ("", "", {}, 0)
            thread = threading.Thread(target=self.work, args=(step, task, record), daemon=True)
            self.doing = task["attempt"], step, thread
            thread.start()
        elif step != "REST":
            getattr(self, f"do_{step.lower()}")(task, record, reason)

    def choose(self) -> Json | None:
        current = self.state["task"]
        if self.offered:
            known = self.record(current["attempt"]) if current else {}
            task = choose_task(current, known, self.offered)
            if task != current:
                self.update(self.state, task=task)
            current = task
        if current and self.state["worker"] not in current["workers"]:
            return {**current, "action": "release"}
        return current  # type: ignore[no-any-return]

    def inspect(self, task: Json, record: Json) -> str:
        """Return how the container is; docker is asked at most once a second."""
        name, (known, status, _, at) = f"steward-{task['attempt']}", self.seen
        rest = 5 if status == "running" and record["state"] == "RUNNING" else 1
        is_old = time.monotonic() - at > pace(rest) and status != "missing"
        if record["state"] != "EXITED" and (known != name or is_old):
            status, state = look(name)
            self.seen = (name, status, state, time.monotonic())
        return status

    def work(self, step: str, task: Json, record: Json) -> None:
        try:
            (self.pull if step == "PULL" else self.start)(task, record)
        except Exception as error:  # noqa: BLE001 - the attempt says so, unless it runs
            self.say(traceback.format_exc())
            if look(f"steward-{task['attempt']}")[0] in ("missing", "created"):
                self.finish(record, "START_FAILED", repr(error))
        self.seen = ("", "", {}, 0)
        self.wake.set()

    def pull(self, task: Json, record: Json) -> None:
        """Pull until it succeeds, cannot succeed, or takes too long (J14)."""
        image, until = task["container"]["image"], clock() + task["pull_seconds"]
        self.update(
            record, state="PULLING", pull_started_at=record["pull_started_at"] or int(clock())
        )
        for count in itertools.count(1):
            said = "" if "@" in image and find_digest(image) else self.pull_once(image, until)
            if self.cancel.is_set():
                return
            if not said:
                break
            reason = classify_pull(said)
            if clock() >= until or (reason and (reason != "PULL_DENIED" or count > 2)):
                self.finish(record, reason or "PULL_FAILED", said)
                return
            self.update(record, detail=said[:500])
            self.cancel.wait(pace(random.uniform(1, min(60, 2**count))))
        self.update(
            record,
            state="PULLED",
            pulled_at=int(clock()),
            image_digest=find_digest(image),
            detail="",
        )

    def pull_once(self, image: str, until: float) -> str:
        """Return why a pull failed; empty when the image is there."""
        more: Json = {"cancel": self.cancel, "seconds": max(pace(until - clock()), 1)}
        host = find_registry(image)
        try:
            if host:
                more["env"] = {"DOCKER_CONFIG": str(self.home / "docker")}
                words = ("login", "--username", "oauth2accesstoken", "--password-stdin", host)
                code, _, said = docker(*words, text=self.bearer(), **more)
                if code:
                    return said or f"docker login failed with {code}"
            code, _, said = docker("pull", image, **more)
        except OSError as error:
            return str(error)
        return (said or f"docker pull failed with {code}") if code else ""

    def check_storage(self, storage: Json, record: Json) -> str:
        """Return why the storage cannot be used; what is only odd becomes a warning."""
        urls = [(verb, url) for verb in ("read", "write") for url in storage.get(verb, [])]
        for verb, url in urls:
            bucket, _, prefix = url.partition("gs://")[2].partition("/")
            path = f"{self.options.storage}/storage/v1/b/{quote(bucket, safe='')}"
            query = urlencode({"prefix": prefix, "maxResults": 1, "fields": "items(name)"})
            check_path = (
                f"/o?{query}"
                if verb == "read"
                else "/iam/testPermissions?permissions=storage.objects.create"
            )
            denied, warning = judge_storage(verb, url, *self.ask_storage(path + check_path))
            if denied:
                return denied
            location = self.ask_storage(f"{path}?fields=location")[1].get("location", "")
            if not is_near(location, storage.get("region", "")):
                warning = f"{url} is in another region: {location}"
            if warning and warning not in record["warnings"]:
                record["warnings"].append(warning)
        return ""

    def ask_storage(self, url: str) -> tuple[int, Json]:
        status, answer = 0, b""
        for _ in range(3):
            with suppress(OSError):
                status, _, answer = call(url, Authorization=f"Bearer {self.bearer()}")
            if 0 < status < 500:
                break
            self.cancel.wait(pace(2))
        with suppress(ValueError):
            return status, dict(json.loads(answer))
        return status, {}

    def start(self, task: Json, record: Json) -> None:
        """Start the container once nothing is in its way."""
        self.update(record, state="STARTING", detail="")
        devices = find_devices(self.options.devices)
        if not self.clear_way(task, record, devices):
            return
        wanted, name, said = task["container"]["device_access"], f"steward-{task['attempt']}", ""
        for access in ("device", "privileged") if wanted == "auto" else (wanted,):
            if record["access"] == "privileged" and access == "device":
                continue  # it was not enough
            args, env = build_run(task, access, devices, self.state["worker"])
            if self.cancel.is_set():
                return
            if not self.update(record, access=access, _boot=self.boot, _again=False):
                self.finish(record, "DISK_FULL", self.trouble)
                return
            code, _, said = docker(*args, env=env, seconds=300)
            if code == 0 or look(name)[0] not in ("missing", "created"):
                return
            docker("rm", "--force", name)
            if code != 125:
                break
        self.finish(record, "DISK_FULL" if "no space left" in said else "START_FAILED", said)

    def clear_way(self, task: Json, record: Json, devices: list[str]) -> bool:
        """Check the storage, remove old containers, wait for the devices (J5)."""
        denied = self.check_storage(task["storage"], record)
        if denied:
            self.finish(record, "STORAGE_DENIED", denied)
            return False
        until = clock() + task["device_wait_seconds"]
        while not self.cancel.is_set():
            leftover, holder = remove_containers(), find_holder(devices)
            if not leftover and not holder:
                return True
            if clock() >= until:
                reason = "DEVICE_BUSY" if holder else "START_FAILED"
                self.finish(record, reason, holder or leftover)
                break
            self.cancel.wait(pace(1))
        return False

    def do_watch(self, task: Json, record: Json, _: str) -> None:
        if record["state"] != "RUNNING":
            self.update(
                record,
                state="RUNNING",
                started_at=record["started_at"] or int(clock()),
                _boot=self.boot,
            )
        self.follow(task)

    def do_stop(self, task: Json, record: Json, reason: str) -> None:
        """Ask the container to end; kill it after its grace."""
        name = f"steward-{task['attempt']}"
        if "_stop" not in record:
            self.update(
                record,
                state="STOPPING",
                started_at=record["started_at"] or int(clock()),
                _boot=self.boot,
                _stop=reason,
                _stop_at=clock(),
            )
        self.follow(task)
        if not record.get("_asked") and docker("kill", "--signal", "TERM", name)[0] == 0:
            self.update(record, _asked=True)
        if clock() >= record["_stop_at"] + task["stop_grace_seconds"]:
            docker("kill", "--signal", "KILL", name)

    def do_collect(self, task: Json, record: Json, _: str) -> None:
        """Take the rest of the output and note how the container ended."""
        state, now = self.seen[2], int(clock())
        if self.follower:
            self.follower.join(5)
            if self.follower.is_alive() and self.reader:
                self.reader.kill()
        last = threading.Thread(target=self.read_logs, args=(task,), daemon=True)
        last.start()
        last.join(10)
        logs, code, began = (
            self.open_logs(task),
            state.get("ExitCode", -1),
            record["started_at"] or now,
        )
        wanted = task["container"]["device_access"]
        is_stopped = find_end_reason(record, state, self.state["preempted_at"]) != "COMPLETED"
        if not is_stopped and needs_privileges(
            wanted, record["access"], code, now - began, logs.text()
        ):
            warnings = [
                *record["warnings"],
                "the device form was not enough: started again as privileged",
            ]
            self.update(
                record,
                _again=True,
                state="STARTING",
                access="privileged",
                started_at=None,
                warnings=warnings,
            )
            return
        logs.flush(pace(20))
        reason = find_end_reason(record, state, self.state["preempted_at"])
        self.finish(
            record, reason, state.get("Error", ""), exit_code=code, started_at=began, ended_at=now
        )

    def do_finish(self, _: Json, record: Json, reason: str) -> None:
        self.finish(record, reason)

    def do_release(self, task: Json, record: Json, _: str) -> None:
        code, _, said = docker("rm", "--force", f"steward-{task['attempt']}")
        if not code or "no such" in said.lower() or not shutil.which("docker"):
            self.logs = None
            self.update(
                record, _released=True, state="EXITED", reason=record["reason"] or "STOPPED"
            )

    def run_startup_script(self) -> bool:
        """Run the caller's script once in each boot: with bash, or what its first line names."""
        while not self.read_attributes:
            time.sleep(0.05)
        startup, path = self.state["startup"], self.home / "startup-script"
        ended, process = self.home / "startup-exit", None
        if not startup:
            mode = {"run": "running", "record": "recorded"}[self.options.startup_scripts]
            mode = mode if self.script else "none"
            startup = {"state": mode, "exit_code": None}
            with suppress(OSError):
                ended.unlink()
            with suppress(OSError):
                path.write_text(self.script, "utf-8", "replace")
                path.chmod(0o700)
            self.update(self.state, startup=startup)
            if mode == "running":
                words = [
                    "bash",
                    "-c",
                    '"$1"; echo $? >"$0.new"; mv "$0.new" "$0"',
                    str(ended),
                    str(path),
                ]
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        while startup["state"] == "running":
            is_alive = (
                process.poll() is None
                if process
                else any(str(path) in read_command(pid) for pid in list_processes())
            )
            if not is_alive or ended.exists():
                code = ended.read_text().strip() if ended.exists() else ""
                self.update(startup, state="exited", exit_code=int(code) if code else None)
            time.sleep(pace(1))
        return True


def find_digest(image: str) -> str:
    with suppress(ValueError, LookupError, TypeError):
        found = json.loads(docker("image", "inspect", image)[1])[0]
        return str((found.get("RepoDigests") or [found["Id"]])[0].rpartition("@")[2])
    return ""


def remove_containers() -> str:
    """Remove every container of ours; returns why one of them stays."""
    label = ("--filter", "label=steward-attempt", "--format", "{{.Names}}")
    code, out, said = docker("ps", "--all", *label)
    for name in out.split():
        code, _, said = docker("rm", "--force", name)
        if code and "no such" not in said.lower():
            return said
    return said if code else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", action="version", version="1")
    for name in ("home", "metadata", "devices", "logging", "storage"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--startup-scripts", choices=("run", "record"), default="run")
    parser.add_argument("--boot-id-file", default="/proc/sys/kernel/random/boot_id")
    parser.add_argument("--speed", type=float, default=1.0, help="shorten all waits, for tests")
    options = parser.parse_args()
    SPEED[0] = options.speed
    Path(options.home).mkdir(mode=0o700, parents=True, exist_ok=True)
    with (Path(options.home) / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit("another supervisor is running")
        Supervisor(options).run()


if __name__ == "__main__":
    main()
