"""The environment of a worker's scripts, which has nothing of the emulator's own environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from service.emulator import catalog
from service.emulator.nodes.worker import Worker
from service.emulator.workers import path_shims

# A closed port: a request is refused at once and does not leave this machine.
NOWHERE = "http://127.0.0.1:9"

# Which scripts of a worker may run: all of them, or only our own.
RUN, RECORD = "run", "record"


@dataclass(frozen=True)
class Files:
    """The files of a worker's scripts, which are removed with the node."""

    directory: Path

    @property
    def home(self) -> Path:
        """A private directory that survives reboots."""
        return self.directory / "home"

    @property
    def devices(self) -> Path:
        """The directory that stands for `/dev`."""
        return self.directory / "devices"

    @property
    def boot_id(self) -> Path:
        """The file that stands for `/proc/sys/kernel/random/boot_id`."""
        return self.directory / "boot_id"

    @property
    def units(self) -> Path:
        return self.directory / "units"

    @property
    def proc(self) -> Path:
        """The directory that stands for `/proc`."""
        return self.directory / "proc"

    @property
    def docker(self) -> Path:
        """The containers of the stand-in for docker."""
        return self.directory / "docker"

    @property
    def programs(self) -> Path:
        """The programs of this worker alone, first on the path."""
        return self.directory / "bin"

    def prepare_boot(self, worker: Worker, address: str, boot: int) -> None:
        """Create the files as they are after a boot."""
        for folder in (self.directory, self.home, self.units, self.programs, self.docker):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
    """Return the files of a host's chips below `/dev`; vfio has one more, for all chips."""
    if worker.record.accelerator.generation in catalog.OLD:
        return [f"accel{number}" for number in range(worker.chips)]
    return [f"vfio/{number}" for number in range(worker.chips)] + ["vfio/vfio"]


def build_environment(
    worker: Worker, directory: Path, address: str, scripts: str = RUN, speed: float = 1.0
) -> dict[str, str]:
    """Return the environment of a TPU VM's script, with the emulator's addresses.

    `speed` is the speed of our meter. There is no `TPU_…` variable: a startup script on a real
    TPU VM reads its metadata, too.
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
        # Google's libraries read their metadata server from here.
        "GCE_METADATA_HOST": address,
        "GCE_METADATA_IP": address,
        "GCE_METADATA_ROOT": address,
        # A request for `http://metadata.google.internal` goes to this proxy, the metadata server,
        # which refuses all other hosts.
        "http_proxy": proxy,
        "https_proxy": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "ftp_proxy": NOWHERE,
        "no_proxy": "127.0.0.1,localhost,::1",
        # For the stand-ins on the path.
        "EMULATOR_UNITS": str(files.units),
        "EMULATOR_FQDN": worker.hostname,
        "EMULATOR_IP": worker.ip,
        # For programs of a TPU VM that otherwise use this machine, or Google.
        "EMULATOR_BOOT_ID_FILE": str(files.boot_id),
        "EMULATOR_DEVICES": str(files.devices),
        "EMULATOR_HOME": str(files.home),
        "EMULATOR_LOGGING": proxy,
        "EMULATOR_PROC": str(files.proc),
        "EMULATOR_SPEED": f"{speed:g}",
        "EMULATOR_STARTUP_SCRIPTS": scripts,
        "EMULATOR_STORAGE": proxy,
    }
