"""The supervisor of one worker: it runs the container that instance metadata asks for.

Docker keeps the container when this program ends; the state on disk says where to go on.
"""

from __future__ import annotations

import copy
import glob
import json
import os
import random
import re
import shutil
import sys
import time
import traceback
from contextlib import suppress
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired, run
from threading import Event, Lock, Thread
from types import SimpleNamespace
from typing import Any
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request

LINE_BYTES, BATCH_BYTES, QUEUE_BYTES, TAIL_BYTES = 200_000, 1 << 20, 32 << 20, 64 << 10
ENTRY_BYTES = 1000
PUTS = (2, 2, 3, 4)  # in 60 s, by weight of a change
WEIGHTS = {"EXITED": 3, "UNAVAILABLE": 3, "PULLING": 1, "STARTING": 1}
NAMES = r"1 (pull|run|stop|release) [a-z0-9-]{1,63} [A-Za-z0-9][\w./:@-]*"
MARKER = re.compile(rb"STEWARD_(?:DONE|(CHECKPOINT|STEP|DEVICES) +(\d{1,15}))\s*")
KEYS = "exit_code pull_started_at pulled_at started_at ended_at checkpoint checkpoint_at step"
KEYS += " step_at devices devices_at done done_at _boot _start_at _stop _stop_at _asked _released"
ATTEMPT: dict[str, Any] = {
    **dict.fromkeys(KEYS.split()),
    **dict.fromkeys(["reason", "detail", "image_digest", "access", "tail"], ""),
    "state": "IDLE",
    "warnings": [],
    "logs": {"shipped": 0, "lines": 0, "dropped": 0, "cut": 0, "error": ""},
    "_sent": {"stdout": ["0", 0], "stderr": ["0", 0]},  # time and number of the last line
}
ATTRIBUTES = "attributes/?recursive=true"
VALUES = dict.fromkeys([ATTRIBUTES, "id?", "preempted?", "maintenance-event?"], ("NONE", ""))
NO_TASK = {"attempt": "", "generation": 0, "workers": [], "report_seconds": 15}
STATE: dict[str, Any] = {"seq": 0, "puts": [], "boot": "", "worker": 0, "task": NO_TASK}
STATE["record"] = {**ATTEMPT, "state": "EXITED", "_released": True}
LIVE: Any = SimpleNamespace(task_error="", sent={}, logs=None, pull=None, pulls=0, pull_at=0)
GIVEN, LOCK, WAKE = SimpleNamespace(speed=1), Lock(), Event()


def parse_task(text, oldest):
    """Return the task; raises ValueError for one that the service did not make, or long ago."""
    if text is None:
        raise ValueError("there is no steward-task")
    try:
        task = json.loads(text)
        container, env = task["container"], task["container"]["env"].values()
        "".join([*container["options"], *container["command"], *container["args"], *env])
        names = f"{task['v']} {task['action']} {task['attempt']} {container['image']}"
        numbers = [task[key] for key in task if key.endswith(("generation", "_seconds"))]
        is_right = re.fullmatch(NAMES, names) and all(0 <= number < 1e12 for number in numbers)
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(repr(error)) from error
    if not is_right or task["generation"] < oldest:
        raise ValueError(f"the task is malformed, or its generation is older than {oldest}")
    return task


def choose_task(current, record, offered):
    """Return the task to act on: a container ends before another attempt begins."""
    if current["attempt"] != offered["attempt"] and record["_boot"] and record["state"] != "EXITED":
        return {**current, "action": "stop"}
    return offered


def find_stop_reason(task, record, preempted_at, now):
    limit, started_at = task["max_duration_seconds"], record["started_at"]
    if record["_stop"] or task["action"] == "stop":
        return record["_stop"] or "STOPPED"
    if preempted_at is not None:
        return "PREEMPTION_NOTICE"
    return "TIMED_OUT" if limit and started_at and now >= started_at + limit else ""


def next_step(task, record, container, boot, reason, is_ready):  # noqa: C901, PLR0911 - a table
    """Return the next step, or why the attempt has ended; `container` is what `look` says."""
    if task["action"] == "release":
        return "REST" if record["_released"] else "RELEASE"
    if record["state"] == "EXITED":
        return "REST"
    if record["_boot"] not in (None, boot):
        return "REBOOTED"
    if container == "unknown" and (reason or record["_boot"]):
        return "REST"
    if container == "running":
        return "STOP" if reason else "WATCH"
    if container == "exited":
        return "COLLECT"
    if record["state"] in ("RUNNING", "STOPPING"):
        return "LOST"
    if reason:
        return reason
    if is_ready and record["pulled_at"] is None:
        return "PULL"
    return "START" if is_ready and task["action"] == "run" else "REST"


def find_end_reason(record, state, preempted_at):
    if record["_stop"] or preempted_at is not None:
        return record["_stop"] or "PREEMPTION_NOTICE"
    return "OOM_KILLED" if state.get("OOMKilled") and state["ExitCode"] else "COMPLETED"


def needs_privileges(task, access, exit_code, seconds, output):
    is_early = access != task["container"]["forms"][-1] and exit_code != 0 and seconds < 30
    return is_early and re.search(task["no_device"], output) is not None


def weigh_change(sent, report):
    """Return 0 for no change, 1 for a detail, 2 for a state, 3 for an end or a preemption."""
    if report["preempted_at"] != sent.get("preempted_at"):
        return 3
    if any(report[key] != sent.get(key) for key in ("state", "attempt", "generation")):
        return WEIGHTS.get(report["state"], 2)
    return int(sent != report)


def may_put(puts, now, weight, least):
    recent = [at for at in puts if now - 60 < at <= now]
    pause = (60, least, 0, 0)[weight]
    return len(recent) < PUTS[weight] and (not recent or now >= recent[-1] + pause)


def encode_report(report):
    body = json.dumps(report, ensure_ascii=False).encode(errors="replace")
    if len(body) <= 100_000 or not report["tail"]:
        return body
    return encode_report({**report, "tail": report["tail"][10_000:]})


def classify_pull(failures, output):
    return next((reason for pattern, reason in failures if re.search(pattern, output)), "")


def build_run(task, access, devices, worker):
    """Return docker's arguments, so that it does not obey a variable such as DOCKER_HOST itself."""
    container, devices = task["container"], [f"--device={device}" for device in devices]
    return [
        "run",
        *container["options"],
        *(["--privileged"] if access == "privileged" else devices),
        f"--env=STEWARD_WORKER={task['first_worker'] + worker}",
        *(f"--env={key}={value}" for key, value in container["env"].items()),
        *(f"--entrypoint={word}" for word in container["command"]),
        container["image"],
        *container["args"],
    ]


def parse_marker(stamp, text):
    found = MARKER.fullmatch(text)
    if not found:
        return {}
    name = (found[1] or b"DONE").decode().lower()
    at = int(datetime.fromisoformat(f"{stamp[:19]}+00:00").timestamp())
    return {name: int(found[2] or 1), f"{name}_at": at}


def split_line(raw):
    """Return time and text. Docker repeats the time before each 16 kB of a long line."""
    found = re.match(rb"\d{4}-\d\d-\d\dT[\d:.]+Z ", raw)
    stamp = found[0] if found else b""
    text = raw[len(stamp) :].rstrip(b"\n")
    return stamp.decode().strip(), text.replace(stamp, b"") if len(text) > 16384 else text


def build_entries(task, worker, lines):
    """Return what is sent; a line has the same insertId each time."""
    number = str(task["first_worker"] + worker)
    entries = [
        {
            "insertId": f"{task['attempt']}-{number}-{stamp}-{stream}-{index:06}",
            "timestamp": stamp,
            "labels": {"worker": number, "stream": stream},
            "textPayload": text.decode(errors="replace"),
        }
        for stream, (stamp, index), text in lines
    ]
    return {**task["log"]["write"], "entries": entries}


class Logs:
    """The output of one container on its way to Cloud Logging, in bounded memory."""

    def __init__(self, task, record):
        self.task, self.record, self.counts = task, record, record["logs"]
        self.room = task["log"]["budget_bytes"] - self.counts["shipped"]
        self.taken, self.lock = dict(record["_sent"]), Lock()
        self.queue, self.queued, self.tail = [], 0, bytearray()
        self.failures, self.thread = 0, Thread()

    def follow(self):
        if not self.thread.is_alive():
            self.thread = Thread(target=self.run, daemon=True)
            self.thread.start()
        return self.thread

    def run(self):
        words = ["docker", "logs", "--timestamps", "--follow"]
        words += [f"--since={min(self.taken.values())[0]}", self.task["name"]]
        with Popen(words, stdout=PIPE, stderr=PIPE) as process:
            readers = [Thread(target=self.read, args=(process, name)) for name in self.taken]
            for reader in readers:
                reader.start()
            while readers[0].is_alive():
                if self.failures or self.queued < BATCH_BYTES:
                    readers[0].join(pace(2 ** min(self.failures + 1, 6)))
                self.ship()
            readers[1].join()
        self.failures = 0
        while self.queue and self.failures < 4:
            self.ship()
            time.sleep(pace(2 * self.failures))
        self.forget(len(self.queue), "dropped")

    def read(self, process, stream):
        place: Any = ["", 0]
        for raw in iter(lambda: getattr(process, stream).readline(LINE_BYTES + 1000), b""):
            stamp, text = split_line(raw)
            if stamp:  # else the rest of a line that is too long, or a complaint of docker
                place = [stamp, place[1] + 1 if stamp == place[0] else 0]
                with self.lock:
                    self.take(stream, place, text)

    def take(self, stream, place, text):
        if place <= self.taken[stream]:
            return
        self.taken[stream], size = place, min(len(text), LINE_BYTES)
        self.record.update(parse_marker(place[0], text))
        self.counts["cut"] += size < len(text)
        if size > self.room or self.queued > QUEUE_BYTES:
            self.counts["dropped"] += size
        else:
            self.queue.append((stream, place, text[:size]))
            self.queued += size + ENTRY_BYTES
            self.room -= size
        self.tail += text + b"\n"
        if len(self.tail) > 4 * TAIL_BYTES:
            del self.tail[:-TAIL_BYTES]

    def ship(self):
        sizes = accumulate(len(line[2]) + ENTRY_BYTES for line in self.queue)
        lines = [line for line, size in zip(self.queue, sizes) if size < BATCH_BYTES]
        if lines:
            body = json.dumps(build_entries(self.task, STATE["worker"], lines)).encode()
            status, said = ask_google(f"{GIVEN.logging}/v2/entries:write", body)
            self.counts["error"] = "" if status == 200 else f"{status} {said}"[:300]
            self.failures = 0 if status == 200 else self.failures + 1
            if status in (200, 400, 413):
                self.forget(len(lines), "shipped" if status == 200 else "dropped")

    def forget(self, count, fate):
        with self.lock:
            for stream, place, text in self.queue[:count]:
                self.queued -= len(text) + ENTRY_BYTES
                self.counts[fate] += len(text)
                self.counts["lines"] += fate == "shipped"
                self.record["_sent"][stream] = place
            del self.queue[:count]
        update()

    def text(self):
        return self.tail[-TAIL_BYTES:].strip().decode(errors="replace")


def find_holder(devices):
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        with suppress(OSError):  # the process has ended
            device, process = os.readlink(link), link.split("/")[2]
            if device.startswith(tuple(devices)):
                command = Path(f"/proc/{process}/cmdline").read_text(errors="replace")[:200]
                command = " ".join(command.split("\0")).strip()
                return f"process {process} ({command}) holds {device}"
    return ""


def pace(seconds):
    return seconds / float(GIVEN.speed)


def clock():
    """UTC seconds; faster with --speed, and the same after a restart."""
    return time.time() * float(GIVEN.speed)


WEB = OpenerDirector()  # no proxies, no redirects
WEB.add_handler(HTTPHandler())
WEB.add_handler(HTTPSHandler())


def call(url, headers, body=None, method=None):
    request = Request(url, body, headers, method=method)
    with WEB.open(request, timeout=75) as reply:
        text = reply.read(1 << 22).decode(errors="replace")
        return reply.status, reply.headers.get("ETag", ""), text.strip()


def metadata(path, body=None):
    url = f"{GIVEN.metadata}/computeMetadata/v1/instance/{path}"
    status, *found = call(url, {"Metadata-Flavor": "Google"}, body, "PUT" if body else "GET")
    if status != 200:
        raise OSError(f"{path}: status {status}")
    return found


def find_token():
    return json.loads(metadata("service-accounts/default/token")[1])["access_token"]


def ask_google(url, body=None):
    try:
        headers = {"Authorization": f"Bearer {find_token()}", "Content-Type": "application/json"}
        status, _, text = call(url, headers, body)
    except OSError as error:
        return 0, str(error)
    return status, text


def docker(*args, text="", seconds=60):
    try:
        done = run(
            ["docker", *args], input=text, capture_output=True, errors="replace", timeout=seconds
        )
    except (OSError, ValueError, TimeoutExpired) as error:
        return -1, "", str(error)
    return done.returncode, done.stdout, done.stderr


def look(name):
    code, out, err = docker("inspect", name)
    if code:
        return ("missing" if "no such" in err.lower() else "unknown"), {}
    state = json.loads(out)[0]["State"]
    ended = "missing" if state["Status"] == "created" else "exited"
    return "running" if state["Running"] else ended, state


def remove(name):
    code, _, said = docker("rm", "--force", name)
    return said if code and "no such" not in said.lower() else ""


def update(**fields):
    """Change the record and save the state; returns why that failed."""
    WAKE.set()
    with LOCK:
        STATE["record"].update(fields)
        path = Path(GIVEN.home, "state.new")
        try:
            with path.open("w") as file:
                json.dump(STATE, file)
                file.flush()
                os.fsync(file.fileno())
            path.replace(path.with_suffix(".json"))
        except OSError as error:
            return str(error)
    return ""


def finish(reason, detail="", at=0):
    at, detail = at or int(clock()), detail.strip()[:500]
    update(state="EXITED", reason=reason, ended_at=at, detail=detail)


def watch(path):
    last = VALUES[path]
    VALUES[path] = metadata(f"{path}&wait_for_change=true&timeout_sec=60&last_etag={last[0]}")
    WAKE.set()
    time.sleep(pace(1) if VALUES[path] == last else 0)


def take_task():
    task = STATE["task"]
    try:
        attributes, LIVE.task_error = json.loads(VALUES[ATTRIBUTES][1]), ""
        STATE["worker"] = int(attributes.get("agent-worker-number") or 0)
        offered = parse_task(attributes.get("steward-task"), task["generation"])
        offered = choose_task(task, STATE["record"], offered)
        if offered["attempt"] != task["attempt"]:
            STATE["record"], LIVE.logs = copy.deepcopy(ATTEMPT), None
        if offered != task:
            task = STATE["task"] = offered
            update()
    except ValueError as error:
        LIVE.task_error = str(error)[:500]
    return task if STATE["worker"] in task["workers"] else {**task, "action": "release"}


def report(can_run):
    task, now = STATE["task"], clock()
    record = ATTEMPT if STATE["record"]["_released"] else STATE["record"]
    report = {
        **record,
        **{key: STATE[key] for key in ("boot", "boot_at", "preempted_at", "worker")},
        **{key: task[key] for key in ("generation", "attempt")},
        "v": 1,
        "supervisor": GIVEN.digest,
        "instance": VALUES["id?"][1],
        "task_error": LIVE.task_error,
        "startup_script": LIVE.startup,
        "maintenance": VALUES["maintenance-event?"][1].replace("NONE", ""),
    }
    if LIVE.logs and record["logs"]["error"]:
        report["tail"] = LIVE.logs.text()
    if not can_run:
        report.update(state="UNAVAILABLE", reason="NO_DOCKER")
    if may_put(STATE["puts"], now, weigh_change(LIVE.sent, report), task["report_seconds"]):
        # The time, as the disk may have forgotten the last seq.
        STATE.update(seq=max(STATE["seq"] + 1, int(now)), puts=[*STATE["puts"], now][-4:])
        update()
        body = encode_report({**report, "seq": STATE["seq"], "at": int(now)})
        metadata("guest-attributes/steward/report", body)
        LIVE.sent = copy.deepcopy(report)


def tick():
    WAKE.wait(pace(1))
    WAKE.clear()
    if VALUES["preempted?"][1] == "TRUE" and STATE["preempted_at"] is None:
        STATE["preempted_at"] = int(clock())
        update()
    LIVE.startup = json.loads(Path(GIVEN.home, "startup.json").read_text())
    task = take_task()
    is_ready, has_docker = LIVE.startup["state"] != "running", shutil.which("docker")
    if has_docker:
        act(task, STATE["record"], is_ready)
    if VALUES[ATTRIBUTES][1] and VALUES["id?"][1]:
        report(has_docker or not is_ready)


def act(task, record, is_ready):  # noqa: C901 - a table
    if record["state"] == "EXITED" and (record["_released"] or task["action"] != "release"):
        return
    container, state = look(task["name"])
    reason = find_stop_reason(task, record, STATE["preempted_at"], clock())
    step = next_step(task, record, container, STATE["boot"], reason, is_ready)
    if LIVE.pull and (step != "PULL" or record["state"] != "PULLING"):
        LIVE.pull.kill()
        LIVE.pull = None
    if not LIVE.logs:
        LIVE.logs = Logs(task, record)
    if step in ("WATCH", "STOP"):
        attend(task, record, reason)
    elif step == "COLLECT":
        collect(task, record, state)
    elif step == "RELEASE":
        if not remove(task["name"]):
            update(_released=True, state="EXITED", reason=record["reason"] or "STOPPED")
    elif step in ("PULL", "START"):
        (pull if step == "PULL" else start)(task, record)
    elif step != "REST":
        finish(step)


def pull(task, record):
    now = clock()
    if record["state"] != "PULLING":
        update(state="PULLING", pull_started_at=int(now))
        LIVE.pulls, LIVE.pull_at = 0, 0
    until = record["pull_started_at"] + task["pull_seconds"]
    if not LIVE.pull and now >= LIVE.pull_at:
        log_in(task["container"]["login"])
        LIVE.pull = Popen(
            ["docker", "pull", task["container"]["image"]], stdout=PIPE, stderr=STDOUT
        )
    if not LIVE.pull or (LIVE.pull.poll() is None and now < until):
        return
    LIVE.pull.kill()
    said = LIVE.pull.communicate()[0].decode(errors="replace")
    code, LIVE.pull, LIVE.pulls = LIVE.pull.returncode, None, LIVE.pulls + 1
    reason = classify_pull(task["pull_failures"], said)
    if code == 0:
        digest = "".join(re.findall(r"(?m)^Digest: (\S+)$", said))
        update(state="PULLED", pulled_at=int(now), image_digest=digest, detail="")
    elif now >= until or (reason and (reason != "PULL_DENIED" or LIVE.pulls > 2)):
        finish(reason or "PULL_FAILED", said)
    else:
        LIVE.pull_at = now + random.uniform(1, min(60, 2**LIVE.pulls))
        update(detail=said[:500])


def log_in(registry):
    os.environ.pop("DOCKER_CONFIG", None)
    if registry:
        os.environ["DOCKER_CONFIG"] = f"{GIVEN.home}/docker"
        user = "--username=oauth2accesstoken"
        with suppress(OSError):
            docker("login", user, "--password-stdin", registry, text=find_token())


def start(task, record):
    if record["state"] != "STARTING":
        update(state="STARTING", detail="", _start_at=clock())
    root = Path(GIVEN.devices).resolve()
    devices = sorted(map(str, [*root.glob("vfio/*"), *root.glob("accel*")]))
    code, out, said = docker("ps", "--all", "--filter=label=steward-attempt", "--format={{.Names}}")
    leftover, holder = said if code else "".join(map(remove, out.split())), find_holder(devices)
    if not leftover and not holder:
        denied = check_storage(task["storage"], record)
        finish("STORAGE_DENIED", denied) if denied else launch(task, record, devices)
    elif clock() >= record["_start_at"] + task["device_wait_seconds"]:
        finish("DEVICE_BUSY" if holder else "START_FAILED", holder or leftover)


def check_storage(checks, record):
    for check in checks:
        status, text = ask_google(f"{GIVEN.storage}/storage/v1/b/{check['ask']}")
        found = json.loads(text).get(check["field"], "nothing") if status == 200 else status
        said = f"{check['says']}: {found}"
        if re.fullmatch(check["denies"], str(found)):
            return said
        if not re.fullmatch(check["fine"], str(found)):
            record["warnings"].append(said)
    return ""


def launch(task, record, devices):
    forms, said = task["container"]["forms"], ""
    for access in forms[-1:] if record["access"] == forms[-1] else forms:
        said = update(access=access, _boot=STATE["boot"])
        if said:  # after a restart, the container would be started twice
            break
        args = build_run(task, access, devices, STATE["worker"])
        code, _, said = docker(*args, seconds=300)
        if code == 0 or look(task["name"])[0] != "missing":
            return
        remove(task["name"])
        if code != 125:
            break
    finish("DISK_FULL" if "no space left" in said.lower() else "START_FAILED", said)


def attend(task, record, reason):
    """Read the output; with a reason, end the container: TERM, grace, KILL."""
    name, state = task["name"], "STOPPING" if reason else "RUNNING"
    if reason and not record["_stop"]:
        record.update(_stop=reason, _stop_at=clock())
    if record["state"] != state:
        update(started_at=record["started_at"] or int(clock()), state=state, _boot=STATE["boot"])
    LIVE.logs.follow()
    if not reason:
        return
    if not record["_asked"] and docker("kill", "--signal=TERM", name)[0] == 0:
        update(_asked=True)
    if clock() >= record["_stop_at"] + task["stop_grace_seconds"]:
        docker("kill", "--signal=KILL", name)


def collect(task, record, state):
    now, code = int(clock()), state["ExitCode"]
    for _ in range(2):  # the second reads what the first may have missed
        LIVE.logs.follow().join(60)
    began, tail = record["started_at"] or now, LIVE.logs.text()
    reason = find_end_reason(record, state, STATE["preempted_at"])
    if reason == "COMPLETED" and needs_privileges(task, record["access"], code, now - began, tail):
        record["warnings"].append("started again as privileged")
        update(state="PULLED", started_at=None, access="privileged")
        remove(task["name"])
        return
    update(exit_code=code, started_at=began, tail=tail if record["logs"]["error"] else "")
    finish(reason, state.get("Error", ""), now)


def forever(loop, *args):
    while True:
        try:
            loop(*args)
        except Exception:  # noqa: BLE001 - a dead supervisor helps nobody
            traceback.print_exc()
            time.sleep(pace(3))


def main():
    for option, value in zip(sys.argv[1::2], sys.argv[2::2]):
        setattr(GIVEN, option[2:], value)
    with suppress(OSError, ValueError):
        STATE.update(json.loads(Path(GIVEN.home, "state.json").read_text()))
    if STATE["boot"] != GIVEN.boot:
        STATE.update(boot=GIVEN.boot, boot_at=int(clock()), preempted_at=None)
    for path in VALUES:
        Thread(target=forever, args=(watch, path), daemon=True).start()
    forever(tick)


if __name__ == "__main__":
    main()
