"""Writes the golden spool of a client: `python tests/golden/spool.py SCHEMA`, once, when it is released."""

import sys
from pathlib import Path

import numpy as np

from cede.client.policy import PolicyCopy
from cede.client.spool import Spool

HERE = Path(__file__).parent
URL = "http://localhost:8000"
ABOUT = {
    "version": 3,
    "fallback": 0,
    "horizon": 2,
    "n_states": 2,
    "n_actions": 1,
    "agents": ["a", "b"],
    "start_agent": 0,
    "terminal": [],
}
STEP = {"t": 0, "state": 0, "prev_agent": 0, "agent": 0, "action": 0, "next_state": 1, "at": 1}


def write(path):
    """An episode that ended, one that was cut off, one that was refused, and a policy."""
    one = Spool(path, URL)
    for episode in (1, 2, 3):
        one.put("boat", episode, {"episode": episode, **STEP}, held=True)
    one.end("boat", 1, 1)
    one.refuse(one.batch(2), "report: as an example")
    one.end("boat", 2, 1)
    policy = np.array([[[0, 1], [1, 0]], [[1, 1], [0, 0]]], dtype=np.int16)
    one.store_policy("boat", PolicyCopy(policy, ABOUT, '"1-3-json"', 0.0), time_only=False)
    one.close()


if __name__ == "__main__":
    write(HERE / f"spool-schema-{int(sys.argv[1])}.db")
