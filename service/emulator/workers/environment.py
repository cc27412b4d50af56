"""The environment that a worker's scripts start in: made from nothing, so nothing of ours leaks."""

from __future__ import annotations

from pathlib import Path

from service.emulator.workers.machine import Worker

# A port where nobody listens: what is refused at once does not leave this machine.
NOWHERE = "http://127.0.0.1:9"


def environment(worker: Worker, directory: Path, address: str, boot: int) -> dict[str, str]:
    """Give what a script of a TPU VM finds, and how its usual programs find the emulator.

    There is no `TPU_…`: a startup script of a real TPU VM has to read its metadata as well.
    """
    proxy = f"http://{address}"
    return {
        "HOME": str(directory),
        "HOSTNAME": worker.name,
        "LANG": "C.UTF-8",
        "LOGNAME": "root",
        "PATH": f"{directory.parent / 'bin'}:/usr/bin:/bin",
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
        "EMULATOR_BOOT": str(boot),
        "EMULATOR_DOCKER": str(directory / "docker"),
        "EMULATOR_FQDN": worker.hostname,
        "EMULATOR_IP": worker.ip,
    }
