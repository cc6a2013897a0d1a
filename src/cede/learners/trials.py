"""Trial episodes: when they are, and whose."""

import numpy as np

from cede._kernels.compiling import kernel


@kernel
def scheduled_trial(since, episode):
    """Return the member, of n, whose trial episode k = 1, 2, ... is by the schedule; -1: it is none.

    since: (n,) how many episodes were over when each member joined. Trial episodes of m members who joined together after episode
    j, one after the other, start at episodes j + 1, j + 8 m + 1, j + 64 m + 1, ... Where two are due, the last to join has its own.
    """
    result, latest = np.int64(-1), np.int64(-1)
    for i in range(since.size):
        m, place = 0, 0
        for j in range(since.size):
            if since[j] == since[i]:
                m += 1
                if j < i:
                    place += 1
        k, begin = episode - since[i], np.int64(0)
        while begin < k:
            if k == begin + place + 1 and since[i] > latest:
                result, latest = np.int64(i), since[i]
            begin = 8 * max(begin, m)
    return result
