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
    part = make_dataclass(f"Part{number}", [(f"a{one}", int) for one in range(8)])
    whole = make_dataclass(f"Whole{number}", [(f"b{one}", part) for one in range(8)])
    document = "{%s}" % ",".join(
        '"b%d":{%s}' % (one, ",".join('"a%d":%d' % (two, two) for two in range(8)))
        for one in range(8)
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
    assert len(found) == 8 and all(one.b7.a7 == 7 for one in found)
"""


def test_threads_that_meet_a_kind_for_the_first_time_at_once_all_learn_it():
    program = [sys.executable, "-c", LEARNS]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
