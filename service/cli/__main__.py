"""`python -m service.cli` is `tpu-steward`."""

from __future__ import annotations

from service.cli import main

if __name__ == "__main__":
    main()
