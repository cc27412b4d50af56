"""`python -m service.emulator` is `tpu-steward emulator`, with the same options."""

from __future__ import annotations

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "emulator")
    # By its name: no module of the emulator imports the command line.
    runpy.run_module("service.cli", run_name="__main__")
