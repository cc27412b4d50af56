"""`docker run`: creates and starts a container, and waits for its end unless detached."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from service.emulator.workers.docker.clock import now
from service.emulator.workers.docker.containers import (
    LOOK_SECONDS,
    Container,
    ContainerRefused,
    State,
    Store,
    write_state,
)
from service.emulator.workers.docker.images import Images, fetch_image, image_of
from service.emulator.workers.docker.listing import View, follow_log
from service.emulator.workers.docker.log import bounds_of
from service.emulator.workers.docker.play import SIGNALS
from service.emulator.workers.docker.shown import check_options
from service.emulator.workers.options import (
    Misuse,
    Options,
    declare_options,
    is_set,
    last_value,
    log_options,
    parse_options,
    require_argument,
)
from service.emulator.workers.path_shims import python_command

DAEMON_ERROR = 125
OPTIONS = declare_options(
    "detach disable-content-trust init interactive no-healthcheck oom-kill-disable privileged"
    " publish-all quiet read-only rm sig-proxy tty",
    "add-host annotation attach blkio-weight cap-add cap-drop cgroup-parent cgroupns cidfile"
    " cpu-period cpu-quota cpu-shares cpus cpuset-cpus cpuset-mems detach-keys device"
    " device-cgroup-rule dns dns-option dns-search domainname entrypoint env env-file expose gpus"
    " group-add health-cmd health-interval health-retries health-start-period health-timeout"
    " hostname ip ip6 ipc isolation kernel-memory label label-file link log-driver log-opt"
    " mac-address memory memory-reservation memory-swap memory-swappiness mount name net"
    " net-alias network network-alias oom-score-adj pid pids-limit platform publish pull restart"
    " runtime security-opt shm-size stop-signal stop-timeout storage-opt sysctl tmpfs ulimit user"
    " userns uts volume volume-driver volumes-from workdir",
    "d=detach i=interactive t=tty P=publish-all q=quiet a=attach c=cpu-shares e=env h=hostname"
    " l=label m=memory p=publish u=user v=volume w=workdir",
    leading=True,
)
ADJECTIVES = ("brave", "calm", "eager", "keen", "lucid", "modest", "proud", "quiet", "serene")
NAMES = ("curie", "darwin", "euler", "fermi", "gauss", "hopper", "kepler", "noether", "pascal")


def run_container(store: Store, args: list[str]) -> int:
    """Carry out `docker run`, and return the container's exit code, or 125 without a container."""
    try:
        options, rest = parse_options(args, OPTIONS)
        require_argument(rest, "run")
        container = _make_container(store, options, rest)
        _get_image(store.root, container, quiet=is_set(options, "quiet"))
        store.add(container)
    except Misuse as error:
        sys.stderr.write(f"{error}\nSee 'docker run --help'.\n")
        return DAEMON_ERROR
    except (ContainerRefused, OSError, ValueError) as error:
        text = str(error)
        # Docker itself checks references and files; all other errors are the daemon's.
        if not text.startswith(("invalid reference", "open ")):
            text = f"Error response from daemon: {text}"
        sys.stderr.write(f"docker: {text}.\nSee 'docker run --help'.\n")
        return DAEMON_ERROR
    if "restart" in options and last_value(options, "restart") != "no":
        sys.stderr.write("docker: the emulator's stand-in restarts no container\n")
    if cidfile := last_value(options, "cidfile"):
        Path(cidfile).write_text(container.id)
    # Signals are blocked until they can be forwarded, because they end this process otherwise.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    state = _start_container(store, container)
    if container.detached:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        sys.stdout.write(f"{container.id}\n")
    if state.error:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        sys.stderr.write(f"docker: Error response from daemon: {state.error}\n")
        return state.exit_code
    return 0 if container.detached else _attend_container(store, container)


def _make_container(store: Store, options: Options, rest: list[str]) -> Container:
    image, *command = rest
    check_options(options)
    bounds_of(log_options(options))
    if entrypoint := last_value(options, "entrypoint"):
        command = [entrypoint, *command]

    # The files of the environment come first, so that `--env` wins.
    lines = list(options.get("env", []))
    for file in reversed(options.get("env-file", [])):
        try:
            text = Path(file).read_text()
        except OSError as error:
            raise ContainerRefused(f"open {file}: {str(error.strerror).lower()}") from None
        lines = [line for line in text.splitlines() if line and not line.startswith("#")] + lines
    env: dict[str, str] = {}
    for line in lines:
        key, given, value = line.partition("=")
        if not key or "\0" in line:
            raise ContainerRefused(f"invalid environment variable: {line}")
        if given:
            env[key] = value
        elif key in store.caller:
            # A bare name takes the caller's value.
            env[key] = store.caller[key]

    labels = (label.partition("=") for label in options.get("label", []))
    number = os.urandom(32)
    chosen = f"{ADJECTIVES[number[0] % len(ADJECTIVES)]}_{NAMES[number[1] % len(NAMES)]}"
    return Container(
        id=number.hex(),
        name=last_value(options, "name", f"{chosen}_{number.hex()[:4]}"),
        image=image,
        command=command,
        env=env,
        labels={key: value for key, _, value in labels},
        created=now(),
        boot=store.boot,
        auto_remove=is_set(options, "rm"),
        detached=is_set(options, "detach"),
        options=options,
    )


def _get_image(root: Path, container: Container, *, quiet: bool) -> None:
    images = Images(root)
    image = image_of(container.image)
    if images.has_image(image):
        return
    sys.stderr.write(f"Unable to find image '{image.reference}' locally\n")
    lines = fetch_image(images, image, {**os.environ, **container.env})
    if not quiet:
        sys.stderr.write("".join(f"{line}\n" for line in lines))


def _start_container(store: Store, container: Container) -> State:
    """Start a container, and return its state after the start or its failure."""
    directory = store.directory_of(container)
    null = os.open(os.devnull, os.O_RDWR)
    command = [*python_command("docker.shim"), str(directory)]
    pid = os.posix_spawn(
        command[0],
        command,
        {key: os.environ.get(key, "") for key in ("GCE_METADATA_HOST", "EMULATOR_DEVICES")},
        file_actions=[(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)],
        setsigmask=SIGNALS,
        setsigdef=SIGNALS,
    )
    os.close(null)
    while (state := store.read_state(container)).status == "created" and not state.error:
        if os.waitpid(pid, os.WNOHANG)[0] == pid and not store.read_state(container).is_over:
            write_state(directory, State(exit_code=128, error="the container's shim was killed"))
        time.sleep(LOOK_SECONDS / 4)
    return state


def _attend_container(store: Store, container: Container) -> int:
    """Write a container's output until its exit, forward signals, and return its exit code."""

    def forward_signal(number: int, _: FrameType | None) -> None:
        state = store.read_state(container)
        if state.is_running:
            with suppress(ProcessLookupError):
                os.kill(state.pid, number)

    before = {number: signal.signal(number, forward_signal) for number in SIGNALS}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    follow_log(store, container, View(), forever=True)
    code = store.wait_for_exit(container)
    for number, handler in before.items():
        signal.signal(number, handler)
    if container.auto_remove:
        store.remove(container)
    return code
