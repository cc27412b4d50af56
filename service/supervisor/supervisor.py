"""The supervisor of one worker: it runs the container that instance metadata asks for.

Python 3.8 and its standard library alone. Docker keeps the container when this program ends;
systemd starts it again, and the state on disk says where to go on.
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
PULL_FAILURES = {
    "credential": "",  # a helper that is not ready yet
    "no space left": "DISK_FULL",
    "manifest.* (unknown|not found)|name unknown|no matching manifest": "IMAGE_NOT_FOUND",
    "invalid reference format|repository .* not found|/.*: not found": "IMAGE_NOT_FOUND",
    "denied|unauthorized|forbidden|no basic auth": "PULL_DENIED",
}
FLAGS = "--network host --ulimit memlock=-1:-1 --log-driver json-file --log-opt max-size=50m"
# Docker itself would obey these names: their values go with the arguments.
OWN = re.compile("PATH|HOME|XDG_.*|DOCKER_.*|LD_.*|GO.*|SSL_.*|.*_proxy", re.IGNORECASE)
NUMBERS: Json = {"generation": 0, "first_worker": 0, "stop_grace_seconds": 25, "pull_seconds": 1800}
NUMBERS.update(max_duration_seconds=0, device_wait_seconds=120, report_seconds=15)
KEYS = "exit_code pull_started_at pulled_at started_at ended_at done_at checkpoint checkpoint_at"
# What a report says of an attempt. A record on disk adds keys with `_`.
ATTEMPT: Json = dict.fromkeys([*KEYS.split(), "step", "step_at", "devices"])
ATTEMPT.update(state="IDLE", reason="", detail="", image_digest="", access="", warnings=[], tail="")
ATTEMPT["logs"] = {"shipped": 0, "dropped": 0, "cut": 0, "error": ""}

GIVEN = argparse.Namespace(speed=1.0)
STATE: Json = {"seq": 0, "puts": [], "records": {}, "task": None, "instance": "", "worker": 0}
VALUES: Json = {}  # ETag and text of what is watched in the metadata
LIVE: Json = {
    "read": "",
    "script": "",
    "offered": None,
    "task_error": "",
    "trouble": "",
    "sent": {},
}
LIVE.update(token=(0.0, ""), logs=None, thread=None, doing=None, settled=False)
LOCK, WAKE = threading.RLock(), threading.Event()
CHANGED, CANCEL = threading.Event(), threading.Event()


def check(is_right: object, problem: str) -> None:
    if not is_right:
        raise ValueError(problem)


def parse_task(text: str) -> Json:
    """Return the task with its defaults; raises ValueError that says what is wrong."""
    try:
        task = {**NUMBERS, "workers": [], "log": {}, "storage": {}, **json.loads(text)}
        check(task["v"] == 1, "v is not 1")
        check(re.fullmatch("[a-z0-9-]{1,63}", task["attempt"]), "attempt is no id")
        check(task["action"] in ("pull", "run", "stop", "release"), "action is unknown")
        for key in NUMBERS:
            check(0 <= task[key] < 1e12, f"{key} is out of range")
        if task["action"] in ("pull", "run"):
            task["container"] = parse_container(task["container"])
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(repr(error)) from error
    return task


def parse_container(given: Json) -> Json:
    container: Json = {"command": [], "args": [], "env": {}, "mounts": [], "shm_size": "", **given}
    access = container.setdefault("device_access", "auto")
    check(re.fullmatch(r"[A-Za-z0-9][\w./:@-]*", container["image"]), "image is no reference")
    words = [*container["command"], *container["args"], *container["env"].values()]
    check(all(isinstance(word, str) for word in words), "command, args and env hold texts")
    check(access in ("auto", "device", "privileged"), "device_access is unknown")
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
    """What decides besides task and record; `is_ready` once the startup script has ended."""

    boot: str
    now: float
    is_ready: bool
    preempted_at: float | None


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
    """Return the next step, and the reason of the end that it leads to.

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
    if scene.is_ready and record["pulled_at"] is None:
        return "PULL", ""
    return ("START" if scene.is_ready and task["action"] == "run" else "REST"), ""


def find_end_reason(record: Json, state: Json, preempted_at: float | None) -> str:
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
    """Return the seconds until a report of that weight may be PUT."""
    recent = sorted(at for at in puts if now - 60 < at <= now)
    delay = recent[-PUTS[weight]] + 60 - now if len(recent) >= PUTS[weight] else 0.0
    if weight < 2 and recent:
        delay = max(delay, recent[-1] + (max(least, 15) if weight else 60) - now)
    return max(delay, 0.0)


def encode_report(report: Json) -> bytes:
    while True:
        body = json.dumps(report, ensure_ascii=False).encode("utf-8", "replace")
        if len(body) <= 100_000 or not report["tail"]:
            return body
        report = {**report, "tail": report["tail"][len(report["tail"]) // 4 + 1 :]}


def classify_pull(output: str) -> str:
    """Return the reason of a failed pull; empty if a retry may help."""
    found = (
        PULL_FAILURES[text] for text in PULL_FAILURES if re.search(text, output, re.IGNORECASE)
    )
    return next(found, "")


def find_registry(image: str) -> str:
    """Return the host to log in to with the worker's token; empty for other registries."""
    host = image.partition("/")[0]
    return host if f".{host}".endswith((".gcr.io", ".pkg.dev")) else ""


def build_run(task: Json, access: str, devices: list[str], worker: int) -> tuple[list[str], Json]:
    """Return the arguments of `docker run`, and the environment that `--env NAME` reads."""
    name, container = task["attempt"], task["container"]
    args = ["run", "--detach", "--name", f"steward-{name}", "--label", f"steward-attempt={name}"]
    args += [*FLAGS.split(), "--log-opt", "max-file=2"]
    if access == "privileged":
        args.append("--privileged")
    else:
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


def judge_storage(verb: str, url: str, status: int, answer: Any) -> tuple[str, str]:
    """Return why a job cannot use a gs:// address, or a warning, or two empty texts.

    A condition may grant a prefix what the check of the whole bucket does not show.
    """
    said = f"{url}: storage answered {status} to a check of {verb} access"
    is_refused = status in (401, 403) or (status == 200 and verb == "write" and not answer)
    if is_refused and verb == "write" and url[5:].partition("/")[2]:
        return "", said
    if is_refused or status == 404:
        return said, ""
    return "", said if status != 200 else "" if answer else f"{url} holds nothing"


def is_near(location: str, region: str) -> bool:
    """Whether a bucket's location (`US-WEST4`, `EU`) is or holds the region."""
    place = {"eu": "europe"}.get(location.lower(), location.lower())
    return not place or not region or f"{region}-".startswith(f"{place}-")


def parse_seconds(stamp: bytes) -> int | None:
    with suppress(ValueError):
        return calendar.timegm(time.strptime(stamp[:19].decode(), "%Y-%m-%dT%H:%M:%S"))
    return None


def parse_markers(output: bytes) -> Json:
    """Return what stamped lines `STEWARD_...` say; the last of a kind counts."""
    found: Json = {}
    for stamp, done, kind, value in re.findall(MARKER, output):
        name = "done" if done else kind.decode().lower()
        found.update({name: int(value)} if kind else {})
        found.update({} if name == "devices" else {f"{name}_at": parse_seconds(stamp)})
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

    def __init__(self, task: Json, record: Json) -> None:
        self.task, self.record, self.lock = task, record, threading.RLock()
        self.queue: collections.deque[tuple[str, str, int, bytes]] = collections.deque()
        self.queued, self.failures, self.tail, self.hurry = 0, 0, b"", threading.Event()
        self.counts, log = record["logs"], task["log"]
        self.budget = log.get("budget_bytes", 1 << 30) if log.get("project") else 0
        self.counts["error"] = "" if log.get("project") else "the task names no log"
        self.after = record.setdefault("_after", {})
        self.taken = {stream: tuple(place) for stream, place in self.after.items()}
        self.thread = threading.Thread()

    def follow(self) -> threading.Thread:
        """Return the thread that reads the output, to its end if the container has ended."""
        if not self.thread.is_alive():
            self.thread = threading.Thread(target=self.read_all, daemon=True)
            self.thread.start()
        return self.thread

    def read_all(self) -> None:
        since = [f"--since={min(self.taken.values())[0]}"] if len(self.taken) == 2 else []
        words = [shutil.which("docker") or "docker", "logs", "--timestamps", "--follow", *since]
        words.append(f"steward-{self.task['attempt']}")
        pipe = subprocess.PIPE
        with suppress(OSError), subprocess.Popen(words, stdout=pipe, stderr=pipe) as process:
            other = threading.Thread(target=self.read, args=("stderr", process.stderr))
            other.start()
            self.read("stdout", process.stdout)
            other.join()
        WAKE.set()

    def read(self, stream: str, pipe: Any) -> None:
        place, rest, data = ("", 0), b"", b"-"
        while data:
            data = os.read(pipe.fileno(), 1 << 16)
            lines, rest = cut_lines(rest, data)
            with self.lock:
                new = []
                if lines and self.queued + 200 * len(self.queue) > QUEUE_BYTES:
                    self.counts["dropped"] += sum(map(len, lines)) - 31 * len(lines)
                    place = self.taken[stream] = (split_line(lines[-1])[0], sys.maxsize)
                    new, lines = lines, []
                for line in lines:
                    at, text = split_line(line)
                    place = (at, place[1] + 1 if at == place[0] else 0)
                    if place > self.taken.get(stream, ("", -1)):  # else read once more
                        self.taken[stream] = place
                        self.put((stream, *place), text)
                        new.append(line)
                block = b"\n".join([*new, b""])
                self.tail = (self.tail + block)[-2 * TAIL_BYTES :]
                self.record.update(parse_markers(block) if b"STEWARD_" in block else {})

    def put(self, place: tuple[str, str, int], text: bytes) -> None:
        size = len(text[:LINE_BYTES])
        self.counts["cut"] += size < len(text)
        if self.counts["shipped"] + self.queued + size > self.budget:
            self.counts["dropped"] += size
        else:
            self.queue.append((*place, text[:LINE_BYTES]))
            self.queued += size

    def ship(self) -> None:
        if self.failures or len(self.queue) < 1000:
            self.hurry.wait(pace(min(60, 2 ** min(self.failures + 1, 6))))
        with self.lock:
            sizes = itertools.accumulate(len(line[3]) + 500 for line in self.queue)
            count = 1 + sum(size < BATCH_BYTES for size in itertools.islice(sizes, 1, 1000))
            lines = list(itertools.islice(self.queue, count))
        if not lines:
            return
        error = send(build_entries(self.task, STATE["worker"], lines))
        self.counts["error"], self.failures = error, self.failures + 1 if error else 0
        if error and not error.startswith(("400", "413")):
            time.sleep(pace(1))
            return
        with self.lock:
            for line in lines if self.queue else ():
                self.queue.popleft()
                self.queued -= len(line[3])
                self.counts["dropped" if error else "shipped"] += len(line[3])
                self.after[line[0]] = line[1:3]
        update(STATE)

    def flush(self) -> None:
        """Wait until everything is sent, at most 20 s; count the rest as dropped."""
        self.hurry.set()
        until = time.monotonic() + max(pace(20), 2)
        while self.queue and time.monotonic() < until and self.counts["error"][:2] != "40":
            time.sleep(0.05)
        with self.lock:
            self.counts["dropped"] += self.queued
            self.queue.clear()
            self.queued = 0

    def text(self) -> str:
        with self.lock:
            return STAMP.sub(b"", self.tail).strip()[-TAIL_BYTES:].decode("utf-8", "replace")


def open_logs(task: Json, record: Json) -> Logs:
    if not LIVE["logs"] or LIVE["logs"].record is not record:
        LIVE["logs"] = Logs(task, record)
    found: Logs = LIVE["logs"]
    return found


def ship() -> None:
    logs = LIVE["logs"]
    if logs and logs.queue:
        logs.ship()
    else:
        time.sleep(pace(1))


def send(body: Json) -> str:
    """Write log entries; returns why that failed."""
    try:
        url, data = f"{GIVEN.logging}/v2/entries:write", json.dumps(body).encode()
        headers = {"Content_Type": "application/json", "Authorization": find_bearer()}
        status, _, answer = call(url, data, "POST", **headers)
    except OSError as error:
        return f"no answer: {error}"[:300]
    return "" if status == 200 else f"{status} {answer.decode('utf-8', 'replace')}"[:300]


def find_holder(devices: list[str]) -> str:
    roots = tuple(f"{device}/" for device in devices)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            for link in (process / "fd").iterdir():
                with suppress(OSError):
                    device = os.readlink(link)
                    if f"{device}/".startswith(roots):
                        command = (process / "cmdline").read_text("utf-8", "replace")
                        command = command.replace("\0", " ")[:200].strip()
                        return f"process {process.name} ({command}) holds {device}"
    return ""


def pace(seconds: float) -> float:
    return float(seconds / GIVEN.speed)


def clock() -> float:
    """UTC seconds; faster with --speed, and the same after a restart."""
    return float(EPOCH + (time.time() - EPOCH) * GIVEN.speed)


WEB = urllib.request.OpenerDirector()  # no proxies, no redirects, no exception for a status
WEB.add_handler(urllib.request.HTTPHandler())
WEB.add_handler(urllib.request.HTTPSHandler())


def call(url: str, body: bytes | None = None, method: str = "GET", **names: str) -> Any:
    """Return status, ETag and body; raises OSError when there is no answer."""
    headers = {key.replace("_", "-"): value for key, value in names.items()}
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with WEB.open(request, timeout=90 if "wait_for_change" in url else 20) as reply:
            return reply.status, reply.headers.get("ETag", ""), reply.read(1 << 22)
    except http.client.HTTPException as error:
        raise OSError(f"{url}: {error!r}") from error


def metadata(path: str, body: bytes | None = None) -> Any:
    url = f"{GIVEN.metadata}/computeMetadata/v1/instance/{path}"
    return call(url, body, "PUT" if body else "GET", Metadata_Flavor="Google")


def find_bearer() -> str:
    if time.monotonic() > LIVE["token"][0]:
        status, _, body = metadata("service-accounts/default/token")
        if status != 200:
            raise OSError(f"no token of the service account: {status}")
        found = json.loads(body)
        LIVE["token"] = time.monotonic() + found["expires_in"] - 60, found["access_token"]
    return f"Bearer {LIVE['token'][1]}"


def docker(
    *args: str, text: str = "", seconds: float = 60, env: Json | None = None
) -> tuple[int, str, str]:
    """Return exit code, output and errors; negative where docker is missing or was ended."""
    words, pipe = [shutil.which("docker") or "docker", *args], subprocess.PIPE
    data: bytes | None = text.encode()
    until, env = time.monotonic() + seconds, {**os.environ, **(env or {})}
    try:
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=env)
    except (OSError, ValueError) as error:
        return -1, "", f"docker cannot be run: {error}"
    while True:
        with suppress(subprocess.TimeoutExpired):
            out, err = process.communicate(data, 0.5)
            return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")
        data = None
        if time.monotonic() > until or (args[0] == "pull" and CANCEL.is_set()):
            process.kill()


def look(name: str) -> tuple[str, Json]:
    """Return how a container is (see `next_step`), and docker's state of it."""
    code, out, err = docker("inspect", name)
    if code:
        return ("missing" if "no such" in err.lower() else "unknown"), {}
    state = json.loads(out)[0]["State"]
    status = "running" if state.get("Running") else state["Status"]
    return (status if status in ("running", "created") else "exited"), state


def update(record: Json, **fields: Any) -> None:
    """Change the state and save it at once or not at all; `LIVE["trouble"]` says why not."""
    with LOCK:
        record.update(fields)
        path, LIVE["trouble"] = Path(GIVEN.home, "state.new"), ""
        try:
            with path.open("w") as file:
                file.write(json.dumps(STATE))
                file.flush()
                os.fsync(file.fileno())
            path.replace(path.with_suffix(".json"))
        except OSError as error:
            LIVE["trouble"] = f"the state cannot be saved: {error}"
    CHANGED.set()
    if fields:
        WAKE.set()


def find_record(attempt: str) -> Json:
    with LOCK:
        records: Json = STATE["records"]
        found: Json = records.setdefault(attempt, json.loads(json.dumps(ATTEMPT)))
        for old in list(records)[:-20]:
            del records[old]
        return found


def finish(record: Json, reason: str, detail: str = "", **fields: Any) -> None:
    fields = {"ended_at": int(clock()), **fields, "detail": detail.strip()[:500]}
    update(record, state="EXITED", reason=reason, **fields)


def watch(path: str) -> None:
    """Wait for a change of one value; its ETag is that of the same response."""
    last = VALUES.get(path, ("NONE",))[0]
    mark = "&" if "?" in path else "?"
    status, etag, body = metadata(
        f"{path}{mark}wait_for_change=true&timeout_sec=60&last_etag={last}"
    )
    if status != 200:
        raise OSError(f"the metadata server answered {status} to {path}")
    VALUES[path] = etag, body.decode("utf-8", "replace").strip()
    CHANGED.set()
    WAKE.set()
    if etag == last:
        time.sleep(pace(1))


WATCHED = ("attributes/?recursive=true", "preempted", "maintenance-event")


def note_metadata() -> None:
    """Take what has changed; a task of an older generation is a stale copy."""
    body, preempted, _ = (VALUES.get(path, ("", ""))[1] for path in WATCHED)
    if body != LIVE["read"]:
        attributes, instance = json.loads(body), metadata("id")[2].decode()
        if STATE["instance"] not in ("", instance):  # the disk of another machine
            STATE.update(records={}, task=None)
        number = int(attributes.get("agent-worker-number") or 0)
        update(STATE, instance=instance, worker=number)
        LIVE.update(task_error="", script=attributes.get("steward-startup-script", ""))
        try:
            check("steward-task" in attributes, "there is no steward-task")
            task = parse_task(attributes["steward-task"])
            known = (STATE["task"] or task)["generation"]
            check(task["generation"] >= known, f"its generation is older than {known}")
            LIVE["offered"] = task
        except ValueError as error:
            LIVE["task_error"] = str(error)[:500]
        LIVE["read"] = body
    if preempted == "TRUE" and STATE["preempted_at"] is None:
        update(STATE, preempted_at=int(clock()))


def choose() -> Json | None:
    current: Json | None = STATE["task"]
    if LIVE["offered"]:
        record = find_record(current["attempt"]) if current else {}
        task = choose_task(current, record, LIVE["offered"])
        if task != current:
            update(STATE, task=task)
        current = task
    if current and STATE["worker"] not in current["workers"]:
        return {**current, "action": "release"}
    return current


def build_report() -> Json:
    task = STATE["task"] or {"attempt": "", "generation": 0}
    record = find_record(task["attempt"]) if task["attempt"] else {}
    record = {} if record.get("_released") else record
    report: Json = {key: record.get(key, ATTEMPT[key]) for key in ATTEMPT}
    logs = LIVE["logs"]
    if logs and logs.record is record and logs.counts["error"]:
        report["tail"] = logs.text()
    report["warnings"] = [*report["warnings"], *filter(None, [LIVE["trouble"]])]
    startup = STATE["startup"]
    is_idle = report["state"] in ("IDLE", "PULLING", "PULLED", "STARTING")
    if is_idle and startup["state"] != "running" and not shutil.which("docker"):
        report.update(state="UNAVAILABLE", reason="NO_DOCKER")
    for key in ("boot", "boot_at", "instance", "preempted_at", "worker"):
        report[key] = STATE[key]
    event = VALUES.get("maintenance-event", ("", ""))[1]
    report.update(v=1, supervisor=LIVE["digest"], task_error=LIVE["task_error"])
    report.update(generation=task["generation"], attempt=task["attempt"])
    report["maintenance"] = "" if event == "NONE" else event
    report["startup_script"] = {key: startup[key] for key in ("state", "exit_code")}
    return json.loads(json.dumps(report))  # type: ignore[no-any-return]


def report() -> None:
    """PUT the newest report when it may go; a report that fails counts as well."""
    CHANGED.clear()
    if not STATE["startup"] or not LIVE["settled"]:
        CHANGED.wait(pace(1))
        return
    content, least = build_report(), (STATE["task"] or NUMBERS)["report_seconds"]
    delay = find_put_delay(STATE["puts"], clock(), weigh_change(LIVE["sent"], content), least)
    if delay:
        CHANGED.wait(pace(delay))
        return
    # The time, so that seq grows even where the disk forgot the last one.
    seq = max(STATE["seq"] + 1, int(time.time()))
    update(STATE, seq=seq, puts=[*STATE["puts"], clock()][-4:])
    body = encode_report({**content, "seq": seq, "at": int(clock())})
    status = metadata("guest-attributes/steward/report", body)[0]
    if status != 200:
        raise OSError(f"the report was refused with {status}")
    LIVE["sent"] = content


def tick() -> None:  # noqa: C901, PLR0915 - one step of each kind
    WAKE.wait(pace(1))
    WAKE.clear()
    try:
        note_metadata()
    except (OSError, ValueError) as error:  # a container is looked after all the same
        say(f"the metadata cannot be read: {error!r}")
    task = choose()
    LIVE["settled"] = bool(LIVE["read"])
    if not task or not STATE["startup"]:
        return
    record, is_ready = find_record(task["attempt"]), STATE["startup"]["state"] != "running"
    is_busy = LIVE["thread"] and LIVE["thread"].is_alive()
    status, state = "missing", STATE
    if not is_busy and record["state"] != "EXITED":
        status, state = look(f"steward-{task['attempt']}")
    scene = Scene(STATE["boot"], clock(), is_ready, STATE["preempted_at"])
    step, reason = next_step(task, record, status, scene)
    doing = task["attempt"], step
    if is_busy:
        if doing != LIVE["doing"]:
            CANCEL.set()
    elif step in ("PULL", "START"):
        CANCEL.clear()
        thread = threading.Thread(target=work, args=(step, task, record), daemon=True)
        LIVE.update(doing=doing, thread=thread)
        thread.start()
    elif step == "FINISH":
        finish(record, reason)
    elif step == "COLLECT":
        collect(task, record, state)
    elif step == "RELEASE":
        release(task, record)
    elif step != "REST":
        attend(task, record, reason)


def work(step: str, task: Json, record: Json) -> None:
    try:
        (pull if step == "PULL" else start)(task, record)
    except Exception as error:  # noqa: BLE001 - the attempt says so, unless it runs
        say(traceback.format_exc())
        if not CANCEL.is_set() and look(f"steward-{task['attempt']}")[0] in ("missing", "created"):
            finish(record, "START_FAILED", repr(error))
    WAKE.set()


def rest(seconds: float) -> None:
    """Sleep; raises ValueError when the step is not wanted any more."""
    check(not CANCEL.wait(pace(seconds)), "not wanted any more")


def find_digest(image: str) -> str:
    with suppress(ValueError, LookupError, TypeError):
        found = json.loads(docker("image", "inspect", image)[1])[0]
        return str((found.get("RepoDigests") or [found["Id"]])[0].rpartition("@")[2])
    return ""


def pull(task: Json, record: Json) -> None:
    image, until = task["container"]["image"], clock() + task["pull_seconds"]
    began = record["pull_started_at"] or int(clock())
    update(record, state="PULLING", pull_started_at=began)
    for count in itertools.count(1):
        said = "" if "@" in image and find_digest(image) else pull_once(image, until)
        rest(0)
        if not said:
            break
        reason = classify_pull(said)
        if clock() >= until or (reason and (reason != "PULL_DENIED" or count > 2)):
            finish(record, reason or "PULL_FAILED", said)
            return
        update(record, detail=said[:500])
        rest(random.uniform(1, min(60, 2**count)))
    fields = {"image_digest": find_digest(image), "detail": ""}
    update(record, state="PULLED", pulled_at=int(clock()), **fields)


def pull_once(image: str, until: float) -> str:
    host, env = find_registry(image), {}
    try:
        if host:
            env["DOCKER_CONFIG"] = f"{GIVEN.home}/docker"
            words = ("login", "--username", "oauth2accesstoken", "--password-stdin", host)
            code, _, said = docker(*words, text=find_bearer()[7:], env=env)
            if code:
                return said or f"docker login failed with {code}"
        code, _, said = docker("pull", image, env=env, seconds=max(pace(until - clock()), 1))
    except OSError as error:
        return str(error)
    return (said or f"docker pull failed with {code}") if code else ""


def check_storage(storage: Json, record: Json) -> str:
    urls = [(verb, url) for verb in ("read", "write") for url in storage.get(verb, [])]
    for verb, url in urls:
        bucket, _, prefix = url[5:].partition("/")
        path = f"{GIVEN.storage}/storage/v1/b/{quote(bucket, safe='')}"
        query = "/iam/testPermissions?permissions=storage.objects.create"
        if verb == "read":
            query = "/o?" + urlencode({"prefix": prefix, "maxResults": 1, "fields": "items(name)"})
        status, answer = ask_storage(path + query)
        found = answer.get("items" if verb == "read" else "permissions")
        denied, warning = judge_storage(verb, url, status, found)
        if denied:
            return denied
        location = ask_storage(f"{path}?fields=location")[1].get("location", "")
        if not is_near(location, storage.get("region", "")):
            warning = f"{url} is in another region: {location}"
        if warning and warning not in record["warnings"]:
            record["warnings"].append(warning)
    return ""


def ask_storage(url: str) -> tuple[int, Json]:
    status, answer = 0, b""
    for _ in range(3):
        with suppress(OSError):
            status, _, answer = call(url, Authorization=find_bearer())
        if 0 < status < 500:
            break
        rest(2)
    with suppress(ValueError):
        return status, dict(json.loads(answer))
    return status, {}


def start(task: Json, record: Json) -> None:
    update(record, state="STARTING", detail="")
    devices = sorted(
        str(path)
        for glob in ("vfio/*", "accel*")
        for path in Path(GIVEN.devices).resolve().glob(glob)
    )
    denied = check_storage(task["storage"], record)
    if denied:
        finish(record, "STORAGE_DENIED", denied)
        return
    until = clock() + task["device_wait_seconds"]
    while True:
        leftover, holder = remove_containers(), find_holder(devices)
        if not leftover and not holder:
            break
        if clock() >= until:
            finish(record, "DEVICE_BUSY" if holder else "START_FAILED", holder or leftover)
            return
        rest(1)
    run(task, record, devices)


def run(task: Json, record: Json, devices: list[str]) -> None:
    """Run the container; in the privileged form where docker refuses the devices."""
    wanted, name, said = task["container"]["device_access"], f"steward-{task['attempt']}", ""
    forms = ["device", "privileged"] if wanted == "auto" else [wanted]
    for access in forms[record["access"] == "privileged" :] or forms:
        args, env = build_run(task, access, devices, STATE["worker"])
        rest(0)
        update(record, access=access, _boot=STATE["boot"], _again=False)
        if LIVE["trouble"]:
            finish(record, "DISK_FULL", LIVE["trouble"])
            return
        code, _, said = docker(*args, env=env, seconds=300)
        if code == 0 or look(name)[0] not in ("missing", "created"):
            return
        docker("rm", "--force", name)
        if code != 125:
            break
    finish(record, "DISK_FULL" if "no space left" in said else "START_FAILED", said)


def remove_containers() -> str:
    label = ("--filter", "label=steward-attempt", "--format", "{{.Names}}")
    code, out, said = docker("ps", "--all", *label)
    for name in out.split():
        code, _, said = docker("rm", "--force", name)
        if code and "no such" not in said.lower():
            return said
    return said if code else ""


def attend(task: Json, record: Json, reason: str) -> None:
    """Read the output of a container that runs; with a reason, end it: TERM, grace, KILL."""
    name, began = f"steward-{task['attempt']}", record["started_at"] or int(clock())
    if reason and "_stop" not in record:
        record.update(_stop=reason, _stop_at=clock())
    state = "STOPPING" if reason else "RUNNING"
    if record["state"] != state:
        update(record, state=state, started_at=began, _boot=STATE["boot"])
    open_logs(task, record).follow()
    if reason and not record.get("_asked") and docker("kill", "--signal", "TERM", name)[0] == 0:
        update(record, _asked=True)
    if reason and clock() >= record["_stop_at"] + task["stop_grace_seconds"]:
        docker("kill", "--signal", "KILL", name)


def collect(task: Json, record: Json, state: Json) -> None:
    """Take the rest of the output and note how the container ended."""
    now, code, logs = int(clock()), state.get("ExitCode", -1), open_logs(task, record)
    for _ in range(2):  # the second reads what the first may have missed
        logs.follow().join(10)
    began, reason = (
        record["started_at"] or now,
        find_end_reason(record, state, STATE["preempted_at"]),
    )
    wanted = task.get("container", {}).get("device_access", "auto")
    is_refused = needs_privileges(wanted, record["access"], code, now - began, logs.text())
    if is_refused and reason == "COMPLETED":
        warning = "the device form was not enough: started again as privileged"
        record["warnings"].append(warning)
        update(record, state="STARTING", started_at=None, _again=True, access="privileged")
        return
    logs.flush()
    tail = logs.text() if logs.counts["error"] else ""
    fields = {"exit_code": code, "started_at": began, "ended_at": now, "tail": tail}
    finish(record, reason, state.get("Error", ""), **fields)


def release(task: Json, record: Json) -> None:
    code, _, said = docker("rm", "--force", f"steward-{task['attempt']}")
    if not code or "no such" in said.lower():
        reason = record["reason"] or "STOPPED"
        update(record, _released=True, state="EXITED", reason=reason)


def run_startup_script() -> bool:
    """Run the caller's script once in each boot: with bash, or what its first line names."""
    while not LIVE["read"]:
        time.sleep(0.05)
    path, ended = Path(GIVEN.home, "startup-script"), Path(GIVEN.home, "startup-exit")
    if not STATE["startup"]:
        mode = {"run": "running", "record": "recorded"}[GIVEN.startup_scripts]
        startup = {"state": mode if LIVE["script"] else "none", "exit_code": None}
        with suppress(OSError):
            ended.unlink()
        with suppress(OSError):
            path.write_text(LIVE["script"], "utf-8", "replace")
            path.chmod(0o700)
        update(STATE, startup=startup)
        if startup["state"] == "running":
            words = [
                "bash",
                "-c",
                'echo pid $$ >"$0"; "$1"; echo $? >"$0.n"; mv "$0.n" "$0"',
                str(ended),
                str(path),
            ]
            null = subprocess.DEVNULL
            subprocess.run(words, stdin=null, stderr=1, start_new_session=True, check=False)
    startup = STATE["startup"]
    if startup["state"] == "running":
        said = ["pid"]
        while said[0] == "pid":
            said = (ended.read_text().split() if ended.exists() else []) or [""]
            if said[0] == "pid" and not Path("/proc", said[1]).exists():
                break
            time.sleep(pace(1))
        code = int(said[0]) if said[0].isdigit() else None
        update(startup, state="exited", exit_code=code)
    return True


def say(text: str) -> None:
    with suppress(OSError):
        os.write(1, f"tpu-steward: {text}\n".encode("utf-8", "replace"))


def forever(loop: Any, *args: Any) -> None:
    """Call a loop's body until it returns True; an error costs a pause, nothing else."""
    while True:
        try:
            if loop(*args):
                return
        except Exception as error:  # noqa: BLE001 - a dead supervisor helps nobody
            say(repr(error) if isinstance(error, OSError) else traceback.format_exc())
            time.sleep(pace(random.uniform(2, 5)))


def load_state() -> None:
    with suppress(OSError, ValueError):
        STATE.update(json.loads(Path(GIVEN.home, "state.json").read_text()))
    boot = Path(GIVEN.boot_id_file).read_text().strip()
    if STATE.get("boot") != boot:
        STATE.update(boot=boot, boot_at=int(clock()), preempted_at=None, startup={})
    LIVE["digest"] = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", action="version", version="1")
    for name in ("home", "metadata", "devices", "logging", "storage"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--startup-scripts", choices=("run", "record"), default="run")
    parser.add_argument("--boot-id-file", default="/proc/sys/kernel/random/boot_id")
    parser.add_argument("--speed", type=float, default=1.0, help="shorten all waits, for tests")
    parser.parse_args(namespace=GIVEN)
    Path(GIVEN.home).mkdir(mode=0o700, parents=True, exist_ok=True)
    with Path(GIVEN.home, "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit("another supervisor is running")
        load_state()
        for loop in [
            *((watch, path) for path in WATCHED),
            (run_startup_script,),
            (report,),
            (ship,),
        ]:
            threading.Thread(target=forever, args=loop, daemon=True).start()
        forever(tick)


if __name__ == "__main__":
    main()
