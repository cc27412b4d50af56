"""Tests of documents in rows."""

from __future__ import annotations

import subprocess
import sys

LEARNS = """
import sys, threading
from dataclasses import make_dataclass
from service.store.json_columns import loads

sys.setswitchinterval(1e-6)
for number in range(60):
    part = make_dataclass(f"Part{number}", [(f"a{letter}", int) for letter in range(8)])
    whole = make_dataclass(f"Whole{number}", [(f"b{letter}", part) for letter in range(8)])
    document = "{%s}" % ",".join(
        '"b%d":{%s}' % (outer, ",".join('"a%d":%d' % (inner, inner) for inner in range(8)))
        for outer in range(8)
    )
    gate, found = threading.Barrier(8), []

    def read():
        gate.wait()
        found.append(loads(document, whole))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(whole.b7.a7 == 7 for whole in found)
"""


def test_threads_that_meet_a_kind_for_the_first_time_at_once_all_learn_it():
    program = [sys.executable, "-c", LEARNS]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
