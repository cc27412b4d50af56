"""An emulator to hold our adapter against, told what to do over its control routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import requests

from service.cloud.google.channel import open_channel, tpu_client
from service.cloud.google.retries import PATIENT, Allowances
from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace
from service.emulator.app import Emulator


@dataclass(frozen=True)
class Cloud:
    """An emulator over loopback, and the hands to make things happen in it."""

    emulator: Emulator

    def tell(self, path: str, body: Any = None) -> None:
        """Post to a control route."""
        answer = requests.post(
            f"{self.emulator.rest_url}/_emulator/{path}", json=body or {}, timeout=10
        )
        answer.raise_for_status()

    def fault(self, rpc: str, action: str, **more: Any) -> None:
        """Put a fault in force, for one call if nothing else is said."""
        self.tell("faults", {"rpc": rpc, "action": action, **more})

    def set(self, **config: Any) -> None:
        """Change the configuration."""
        url = f"{self.emulator.rest_url}/_emulator/config"
        requests.patch(url, json=config, timeout=10).raise_for_status()

    def settle(self) -> None:
        """All that is pending happens now."""
        self.tell("settle")

    def tpus(self, patience: Allowances = PATIENT) -> GoogleTpus:
        """Our adapter, over a channel of its own."""
        channel = open_channel(self.emulator.grpc_address)
        return GoogleTpus(tpu_client(channel), Pace(lambda: 0.0, burst=1_000), patience)
