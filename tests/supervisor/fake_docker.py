"""A stand-in for docker that keeps its state in files and runs containers as real processes.

`FAKE_DOCKER` names the folder of its state. Files there change what it does: `pull` holds what a
pull complains about, `refuse-devices` refuses `--device`, `down` is a daemon that does not answer.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(os.environ["FAKE_DOCKER"])
VALUED = {
    *("--name", "--label", "--network", "--log-driver", "--log-opt", "--ulimit", "--device"),
    *("--shm-size", "--mount", "--env", "--entrypoint"),
}


def fail(code, text):
    sys.stderr.write(f"{text}\n")
    return code


def stamp():
    seconds, rest = divmod(time.time_ns(), 10**9)
    clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{clock}.{rest:09}Z"


def write(path, state):
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(state))
    part.replace(path)


def state_of(folder):
    state = json.loads((folder / "state").read_text())
    if state["Running"] and (not has_shim(folder) or state["Boot"] != boot()):
        state = json.loads((folder / "state").read_text())
        if state["Running"]:
            gone = {"Running": False, "Status": "exited", "ExitCode": 137, "Error": "shim is gone"}
            state.update(gone)
    return state


def has_shim(folder):
    """Whether the process that waits for the end of the container lives: it holds a lock."""
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def boot():
    file = ROOT / "boot"
    return file.read_text() if file.exists() else ""


def run(args):
    options: dict[str, list[str]] = {}
    flags = []
    while args and args[0].startswith("-"):
        word, is_given, value = args.pop(0).partition("=")
        if word in VALUED:
            options.setdefault(word, []).append(value if is_given else args.pop(0))
        else:
            flags.append(word)
    image, *command = args
    given = {"options": options, "flags": flags, "image": image, "command": command}
    with (ROOT / "runs").open("a") as file:
        file.write(json.dumps(given) + "\n")
    if (ROOT / "refuse-devices").exists() and "--privileged" not in flags:
        return fail(125, "docker: Error response from daemon: error gathering device information")
    env = {"PATH": os.environ["PATH"], "FAKE_ROOT": str(ROOT)}
    for entry in options.get("--env", []):
        key, is_given, value = entry.partition("=")
        if is_given or key in os.environ:
            env[key] = value if is_given else os.environ[key]
    name = options["--name"][0]
    folder = ROOT / "containers" / name
    folder.mkdir(parents=True)
    words = [*options.get("--entrypoint", []), *command] or ["true"]
    env["ACCESS"] = "privileged" if "--privileged" in flags else "device"
    state = {"Running": True, "Status": "running", "ExitCode": 0, "OOMKilled": False}
    write(folder / "state", {**state, "Boot": boot(), "Error": ""})
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the shim has the same file open, and so the lock
        subprocess.Popen(
            [sys.executable, "-S", "-E", __file__, "shim", str(folder), json.dumps([words, env])],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, pass_fds=[lock.fileno()],
        )  # fmt: skip
    while not (folder / "pid").exists() and has_shim(folder):
        time.sleep(0.005)
    sys.stdout.write(f"{name}\n")
    return 0


def shim(args):
    folder, (words, env) = Path(args[0]), json.loads(args[1])
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, env=env, stdout=pipe, stderr=pipe, start_new_session=True)
    (folder / "pid").write_text(str(process.pid))
    pumps = [
        threading.Thread(target=copy, args=(source, folder / name))
        for source, name in ((process.stdout, "stdout"), (process.stderr, "stderr"))
    ]
    for pump in pumps:
        pump.start()
    code = process.wait()
    for pump in pumps:
        pump.join()
    state = json.loads((folder / "state").read_text())
    code = 128 - code if code < 0 else code
    write(folder / "state", {**state, "Running": False, "Status": "exited", "ExitCode": code})
    return 0


def copy(source, path):
    """Append what a process writes, each line with a timestamp before it."""
    fresh = True
    with path.open("ab", buffering=0) as file:
        while data := os.read(source.fileno(), 1 << 16):
            mark = stamp().encode() + b" "
            ends = data.endswith(b"\n")
            body = (data[:-1] if ends else data).replace(b"\n", b"\n" + mark)
            file.write((mark if fresh else b"") + body + (b"\n" if ends else b""))
            fresh = ends


def logs(args):
    since = next((word[8:] for word in args if word.startswith("--since=")), "")
    folder = ROOT / "containers" / args[-1]
    if not folder.exists():
        return fail(1, f"Error response from daemon: No such container: {args[-1]}")
    pumps = [
        threading.Thread(target=show, args=(folder, name, since.encode(), "--follow" in args, out))
        for name, out in (("stdout", 1), ("stderr", 2))
    ]
    for pump in pumps:
        pump.start()
    for pump in pumps:
        pump.join()
    return 0


def show(folder, name, since, follow, out):
    place = 0
    with suppress(OSError):
        while True:
            over = not follow or not folder.exists() or not state_of(folder)["Running"]
            path = folder / name
            if path.exists():
                with path.open("rb") as file:
                    file.seek(place)
                    while data := file.read(1 << 20):
                        place += len(data)
                        if since > b"0":
                            lines = data.splitlines(keepends=True)
                            data = b"".join(line for line in lines if line[:30] >= since)
                        while data:
                            data = data[os.write(out, data) :]
            if over:
                return
            time.sleep(0.01)


def kill(args):
    folder = ROOT / "containers" / args[-1]
    if not folder.exists() or not state_of(folder)["Running"]:
        return fail(1, f"Error response from daemon: container {args[-1]} is not running")
    number = getattr(signal, "SIG" + args[0].partition("=")[2])
    with suppress(OSError):
        end = os.killpg if number == signal.SIGKILL else os.kill
        end(int((folder / "pid").read_text()), number)
    return 0


def remove(args):
    folder = ROOT / "containers" / args[-1]
    if not folder.exists():
        return fail(1, f"Error response from daemon: No such container: {args[-1]}")
    if state_of(folder)["Running"]:
        with suppress(OSError):
            os.killpg(int((folder / "pid").read_text()), signal.SIGKILL)
        time.sleep(0.05)
    shutil.rmtree(folder)
    return 0


def inspect(args):
    folder = ROOT / "containers" / args[-1]
    if not folder.exists():
        return fail(1, f"Error: No such object: {args[-1]}")
    sys.stdout.write(json.dumps([{"State": state_of(folder)}]))
    return 0


def pull(args):
    with (ROOT / "pulls").open("a") as file:
        file.write(args[0] + "\n")
    problem = ROOT / "pull"
    if problem.exists():
        text = problem.read_text()
        if text.startswith("once "):
            problem.unlink()
        return fail(1, text)
    sys.stdout.write(f"1: Pulling from p/r/i\nDigest: sha256:{'ab' * 32}\nStatus: Downloaded\n")
    return 0


def login(args):
    with (ROOT / "logins").open("a") as file:
        file.write(json.dumps([*args, sys.stdin.read()]) + "\n")
    return 0


def list_containers(_):
    with suppress(FileNotFoundError):
        sys.stdout.writelines(f"{path.name}\n" for path in (ROOT / "containers").iterdir())
    return 0


COMMANDS = {
    "run": run,
    "shim": shim,
    "logs": logs,
    "kill": kill,
    "rm": remove,
    "inspect": inspect,
    "pull": pull,
    "login": login,
    "ps": list_containers,
}

if __name__ == "__main__":
    if (ROOT / "down").exists():
        sys.exit(fail(1, "Cannot connect to the Docker daemon. Is the docker daemon running?"))
    sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
