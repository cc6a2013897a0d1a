"""Types of arrays: numbers, integers, switching policies."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Policy = NDArray[np.int16]  # (L, S, D): policy[t, s, prev_agent] is the agent in control
