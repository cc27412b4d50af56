"""An example for each command. Its help ends with it."""

from __future__ import annotations

from typing import Any

EXAMPLES = {
    "nodes list": "--team vision --sort-by -cost",
    "nodes top": "",
    "nodes create": "--accelerator-type v6e-8 --ttl 4h --dry-run",
    "nodes show": "trainer",
    "nodes set": "trainer --team vision --ttl 8h",
    "nodes connect": "trainer",
    "nodes delete": "trainer helper --wait",
    "nodes stop": "trainer",
    "nodes start": "trainer --wait",
    "nodes reimage": "trainer --framework tensorflow=2.15",
    "nodes idle": "trainer --watch",
    "nodes policy": "trainer",
    "nodes keep": "trainer --for 4h --reason 'a demo on Friday'",
    "nodes unkeep": "trainer",
    "nodes heartbeat": "trainer",
    "nodes heartbeat-token": "trainer",
    "nodes events": "trainer",
    "nodes cost": "trainer",
    "nodes ledger": "trainer -o csv",
    "nodes explain": "trainer 3",
    "jobs submit": "--image lab/train:7 --node trainer",
    "jobs list": "--state running",
    "jobs show": "JOB",
    "jobs attempts": "JOB",
    "jobs logs": "JOB -f",
    "jobs cancel": "JOB",
    "plan": "--chips 16 --for 8h",
    "estimate": "--accelerator-type v5litepod-16 --for 8h --team vision",
    "runtimes resolve": "--accelerator-type v5litepod-16 --framework jax=0.4.30",
    "runtimes list": "--generation v5e",
    "catalog accelerators": "--generation v5e",
    "catalog zones": "--generation v6e -o name",
    "catalog capacity": "--generation v6e --window 24h",
    "catalog quotas": "--region us-west4",
    "catalog forget-quota": "ID",
    "costs": "--window mtd --by team --step all",
    "costs export": "--window mtd > month.csv",
    "costs forecast": "",
    "costs reconcile": "bill.csv",
    "costs reconciliations": "",
    "costs statement": "2026-11 -o csv",
    "budgets list": "",
    "budgets show": "vision",
    "budgets create": "vision --amount 5000 --scope team=vision --threshold 80",
    "budgets edit": "vision --amount 8000",
    "budgets delete": "vision",
    "prices list": "--generation v5e --region us-west4",
    "prices add": "--generation v5e --provisioning-model on_demand --region us-west4 --usd 1.20",
    "prices discount list": "",
    "prices discount add": "12.5 --generation v5e",
    "prices discount end": "ID",
    "reservations list": "",
    "reservations add": (
        "winter --zone us-west4-a --generation v5e --chips 64 --start 2026-12-01 --end 2027-01-01"
    ),
    "reservations show": "winter",
    "reservations withdraw": "winter --reason 'the wrong zone'",
    "reservations ledger": "winter",
    "commitments recommended": "",
    "commitments list": "",
    "commitments add": (
        "base --region us-west4 --generation v5e --chips 64 --term 1y --start 2026-12-01"
    ),
    "commitments show": "base",
    "commitments withdraw": "base --reason 'the wrong region'",
    "commitments usage": "",
    "cleanup status": "",
    "cleanup plan": "",
    "cleanup apply": "PLAN",
    "cleanup pause": "--reason 'a demo on Friday'",
    "cleanup resume": "",
    "cleanup coverage": "",
    "cleanup history": "--sort-by -per-hour",
    "cleanup policies": "",
    "cleanup policies show": "team:vision",
    "cleanup policies set": "team:vision --idle-after 2h --action delete",
    "cleanup policies delete": "team:vision",
    "orphans list": "",
    "orphans adopt": "run-1",
    "orphans delete": "run-1",
    "dev": "",
    "demo": "",
    "serve": "",
    "daemon": "",
    "emulator": "",
    "migrate": "",
}
"""The arguments of an example for each command."""


_LONGEST_SENTENCE = 1_000
"""Characters of a first sentence. A longer one would be cut."""


def add_examples(command: Any, path: str) -> None:
    """Add its example to the help of a command, and to that of each command below it.

    A list of commands has the whole first sentence of each help, wrapped, at every width.
    """
    command.short_help = command.get_short_help_str(_LONGEST_SENTENCE)
    if path in EXAMPLES:
        # The first line keeps the example in one line, to be copied.
        command.epilog = f"\b\nExample: tpu-steward {path} {EXAMPLES[path]}".rstrip()
    for name, below in getattr(command, "commands", {}).items():
        add_examples(below, f"{path} {name}")
