"""The environment that a worker's scripts start in: made from nothing, so nothing of ours leaks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from service.emulator import catalog
from service.emulator.nodes.worker import Worker
from service.emulator.workers import path_shims

# A port where nobody listens: what is refused at once does not leave this machine.
NOWHERE = "http://127.0.0.1:9"


# What the scripts of a worker are allowed to run: all of them, or our own alone.
RUN, RECORD = "run", "record"


@dataclass(frozen=True)
class Files:
    """Where a worker keeps what its scripts use; all of it goes with the node."""

    directory: Path

    @property
    def home(self) -> Path:
        """A private directory that survives reboots."""
        return self.directory / "home"

    @property
    def devices(self) -> Path:
        """What stands for `/dev`."""
        return self.directory / "devices"

    @property
    def boot_id(self) -> Path:
        """What stands for `/proc/sys/kernel/random/boot_id`."""
        return self.directory / "boot_id"

    @property
    def units(self) -> Path:
        return self.directory / "units"

    @property
    def proc(self) -> Path:
        """What stands for `/proc`."""
        return self.directory / "proc"

    @property
    def docker(self) -> Path:
        """Where the stand-in for docker keeps its containers."""
        return self.directory / "docker"

    @property
    def programs(self) -> Path:
        """The programs of this worker alone; it comes first on the path."""
        return self.directory / "bin"

    def prepare(self, worker: Worker, address: str, boot: int) -> None:
        """Make them as they are after a boot."""
        for each in (self.directory, self.home, self.units, self.programs, self.docker):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in device_names(worker):
            path = self.devices / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        self.boot_id.write_text(f"{uuid4()}\n")
        settings = {
            "EMULATOR_BOOT": str(boot),
            "EMULATOR_DEVICES": str(self.devices),
            "EMULATOR_DOCKER": str(self.docker),
            "GCE_METADATA_HOST": address,
        }
        path_shims.install_docker(self.programs / "docker", settings)


def device_names(worker: Worker) -> list[str]:
    """Name the files of a host's chips below `/dev`; vfio has one more, for all of them."""
    if worker.record.accelerator.generation in catalog.OLD:
        return [f"accel{number}" for number in range(worker.chips)]
    return [f"vfio/{number}" for number in range(worker.chips)] + ["vfio/vfio"]


def environment(
    worker: Worker, directory: Path, address: str, scripts: str = RUN, speed: float = 1.0
) -> dict[str, str]:
    """Give what a script of a TPU VM finds, and how its usual programs find the emulator.

    `speed` is that of our meter. There is no `TPU_…`: a startup script of a real TPU VM has to
    read its metadata as well.
    """
    files = Files(directory)
    proxy = f"http://{address}"
    return {
        "HOME": str(directory),
        "HOSTNAME": worker.name,
        "LANG": "C.UTF-8",
        "LOGNAME": "root",
        "PATH": f"{files.programs}:{directory.parent / 'bin'}:/usr/bin:/bin",
        "SHELL": "/bin/bash",
        "TMPDIR": str(directory / "tmp"),
        "USER": "root",
        # Google's libraries look here for their metadata server.
        "GCE_METADATA_HOST": address,
        "GCE_METADATA_IP": address,
        "GCE_METADATA_ROOT": address,
        # Who asks for `http://metadata.google.internal` asks this proxy, which is the metadata
        # server; it refuses what lies elsewhere.
        "http_proxy": proxy,
        "https_proxy": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "ftp_proxy": NOWHERE,
        "no_proxy": "127.0.0.1,localhost,::1",
        # For the stand-ins on the path.
        "EMULATOR_UNITS": str(files.units),
        "EMULATOR_FQDN": worker.hostname,
        "EMULATOR_IP": worker.ip,
        # For programs of a TPU VM that would look elsewhere: at this machine, or at Google.
        "EMULATOR_BOOT_ID_FILE": str(files.boot_id),
        "EMULATOR_DEVICES": str(files.devices),
        "EMULATOR_HOME": str(files.home),
        "EMULATOR_LOGGING": proxy,
        "EMULATOR_PROC": str(files.proc),
        "EMULATOR_SPEED": f"{speed:g}",
        "EMULATOR_STARTUP_SCRIPTS": scripts,
        "EMULATOR_STORAGE": proxy,
    }
