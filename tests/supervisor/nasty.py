"""Texts, names and images that a careless program would take for something else."""

from __future__ import annotations

NASTY = [
    "--privileged",
    "-v=/:/host",
    "--",
    "",
    " ",
    "a b",
    "'",
    '"',
    "\\",
    "$(touch escaped)",
    "`touch escaped`",
    "; touch escaped",
    "| tee escaped",
    "> escaped",
    "a\nb",
    "\r\n",
    "\t",
    "é漢\U0001f600",
    "\u202e\ufeff",
    "%s%n",
    "*",
    "{a,b}",
    "=",
    "A=B",
    "\x7f\x1b[2J",
    "x" * 20_000,
]

VARIABLES = ["PATH", "HOME", "DOCKER_HOST", "LD_LIBRARY_PATH", "IFS"]
"""Variables that change what programs on the way to the container do."""

SHELLS = ["bash", "/bin/bash", "sh", "/bin/sh"]
"""Programs that are here, by name and by path."""

REGISTRIES = [
    "",
    "localhost:5000/",
    "10.0.0.1:65535/",
    "r.example.com/",
    "Reg-1.example.com:443/",
    "us-docker.pkg.dev/",
]
TAGS = ["", ":7", ":latest", ":v1.2_3-rc.4", ":" + "t" * 128]
DIGESTS = ["", "@sha256:" + "0f" * 32]
