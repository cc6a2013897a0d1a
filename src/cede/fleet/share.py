"""Rows that teams share.

A layer of the workspace has rows of two kinds. A team's own rows are unpacked from its stored keys before it plays. Shared rows are
before them in the pool, as at the beginning of the round. After a team has played, its additions to shared rows go to `delta`, and
the rows are restored.
"""

import numpy as np
from numba import types

from cede._base.arrays import Ints
from cede._kernels.bundle import Bundle, Int1
from cede._kernels.compiling import kernel, unit
from cede._kernels.tables import KeyTable, Table, add, add_key
from cede.rows.cost_sums import N_SUMS, add_part, parts_of_sums
from cede.rows.counting import CountsArrays


class Share(Bundle):
    """Which rows of a layer are shared."""

    row: Int1  # (counted,) row of the shared table; -1: not shared
    home: Int1  # (counted,) where a shared row begins in the pool
    has_shared: int  # 1: some rows are shared
    has_own: int  # 1: some rows are each team's own
    known: int  # where counted rows begin in the pool: after known tables
    begin: int  # where a team's own rows begin in the pool: after shared rows
    snapshot: Table  # the shared table when the round began
    delta: Table  # additions of the teams of this shard since then


def new_share(row: Ints, known: int, delta: Table) -> Share:
    """Return the share of a layer in which nothing was counted yet.

    row: (counted,) see `Share`. known: length of the pool, which holds known tables only. delta: an empty table of the shared rows.
    """
    home, has_shared, has_own = np.zeros(len(row), dtype=np.int64), int((row >= 0).any()), int((row < 0).any())
    ends = {"known": known, "begin": known}
    return Share(row=row, home=home, has_shared=has_shared, has_own=has_own, **ends, snapshot=delta, delta=delta)


def own_share(counts: CountsArrays) -> Share:
    """Return the share of a layer whose rows are all each team's own."""
    n, end, nothing = counts.counted, counts.seen.end, Table.empty(0, counts.n_columns)
    ends = {"has_own": int(n > 0), "known": end, "begin": end}
    return Share(row=np.zeros(n, dtype=np.int64) - 1, home=np.zeros(n, dtype=np.int64), **ends, snapshot=nothing, delta=nothing)


def take_over(table: Table, share: Share, snapshot: Table) -> None:
    """Set the shared rows of a table to a snapshot, and empty `delta`. No team is loaded."""
    share.snapshot = snapshot
    share.delta.clear()
    table.lengthen_to(share.known + snapshot.end)
    unpack_shared_rows(table, share)


# ------------------------------------------------------------------------------------------------- a round begins


@kernel
def copy_row(table, share, r):
    """Copy shared row r of a table from the snapshot to its home in the pool."""
    snapshot, q, home = share.snapshot, share.row[r], share.home[r]
    n, start = snapshot.size[q], snapshot.start[q]
    column, weights, from_column, from_weights = table.column, table.weight, snapshot.column, snapshot.weight
    for j in range(n):
        column[home + j] = from_column[start + j]
        weights[home + j] = from_weights[start + j]
    table.start[r] = home
    table.size[r] = n
    table.capacity[r] = snapshot.capacity[q]
    table.total[r] = snapshot.total[q]


@unit(types.none, Table, Share)
def unpack_shared_rows(table, share):
    """Fill the shared rows of a table from the snapshot. No team is loaded; the pool is long enough."""
    to = share.known
    for r in range(share.row.size):
        if share.row[r] >= 0:
            share.home[r] = to
            copy_row(table, share, r)
            to += table.capacity[r]
    share.begin = to
    table.end = to


# ------------------------------------------------------------------------------------------------- a team is loaded


@kernel
def unpack_counts(stored, i, counts, first):
    """Fill a team's own rows of a table, which are empty, with the counts of team i. first: the first place to use."""
    table, n_columns = counts.seen, counts.n_columns
    column, weights, keys, amounts = table.column, table.weight, stored.column, stored.weight
    to, r = first, np.int64(-1)
    for j in range(stored.start[i], stored.start[i] + stored.size[i]):
        row = keys[j] // n_columns
        if row != r:
            r = row
            table.start[r] = to
        column[to] = keys[j] - row * n_columns
        weights[to] = amounts[j]
        table.size[r] += 1
        table.capacity[r] += 1
        table.total[r] += amounts[j]
        to += 1
    table.end = to


@unit(types.none, KeyTable, types.int64, CountsArrays, Share)
def clear(stored, i, counts, share):
    """Empty the own rows of a table, which hold the counts of team i."""
    table, keys = counts.seen, stored.column
    for j in range(stored.start[i], stored.start[i] + stored.size[i]):
        r = keys[j] // counts.n_columns
        table.size[r] = 0
        table.capacity[r] = 0
        table.total[r] = 0.0
    table.end = share.begin
    if counts.forgetting.factor.size > 0:  # rows that were forgotten since are not among those of team i
        for r in range(counts.counted):
            if share.row[r] < 0:
                table.capacity[r] = 0


@kernel
def load_layer(stored, last, i, counts, share):
    """Replace the counts of team `last` in the own rows of a table by those of team i; -1: there were none."""
    if share.has_own:
        if last >= 0:
            clear(stored, last, counts, share)
        unpack_counts(stored, i, counts, share.begin)


@kernel
def reserve(stored, i, more, most):
    """Make sure that `more` outcomes fit into row i, which has at most `most`; the pool is long enough."""
    n, start, columns, weights = stored.size[i], stored.start[i], stored.column, stored.weight
    wanted = min(n + more, most)
    if wanted > stored.capacity[i]:
        target = stored.end
        stored.capacity[i] = min(2 * wanted, most)
        stored.end = target + stored.capacity[i]
        for j in range(n):
            columns[target + j] = columns[start + j]
            weights[target + j] = weights[start + j]
        stored.start[i] = target


# ------------------------------------------------------------------------------------------------- a team's counts are stored


@unit(types.none, CountsArrays, Share, KeyTable, types.int64)
def pack(counts, share, stored, i):
    """Make the stored counts of team i equal to the own rows of a table, some of which may have faded."""
    table, to, total = counts.seen, stored.start[i], 0.0
    for r in range(counts.counted):
        if share.row[r] < 0:
            for j in range(table.start[r], table.start[r] + table.size[r]):
                stored.column[to] = r * counts.n_columns + table.column[j]
                stored.weight[to] = table.weight[j]
                total += table.weight[j]
                to += 1
    stored.size[i] = to - stored.start[i]
    stored.total[i] = total


@kernel
def restore_row(table, share, r):
    """Restore a shared row from the snapshot if it has changed, which its total shows: a row only grows."""
    snapshot, q = share.snapshot, share.row[r]
    if table.total[r] != snapshot.total[q] or table.size[r] != snapshot.size[q]:
        copy_row(table, share, r)


@kernel
def release_room(table, share):
    """Free the pool entries of moved shared rows, unless a team's own rows lie among them."""
    if not share.has_own:
        table.end = share.begin


@unit(types.none, CountsArrays, Share, KeyTable, types.int64, types.int64[::1])
def store_layer(counts, share, stored, i, keys):
    """Add counted steps to the stored counts of team i, and those in shared rows to delta; restore shared rows.

    keys: row * n_columns + column of each step.
    """
    columns = counts.n_columns
    if share.has_shared:
        for j in range(keys.size):
            r = keys[j] // columns
            if share.row[r] >= 0:
                add(share.delta, share.row[r], keys[j] - r * columns, 1.0)
                restore_row(counts.seen, share, r)
        release_room(counts.seen, share)
    if share.has_own:
        if counts.forgetting.factor.size > 0:
            pack(counts, share, stored, i)
        else:
            for j in range(keys.size):
                if not share.has_shared or share.row[keys[j] // columns] < 0:
                    add_key(stored, i, keys[j], 1.0)


@unit(types.none, CountsArrays, Share, KeyTable, types.int64, types.int64[::1], types.float64[::1])
def store_costs(counts, share, stored, i, rows, parts):
    """Store learned costs, like `store_layer`. rows, parts: of each cost; row -1: it is not counted."""
    fades = counts.forgetting.factor.size > 0
    for j in range(rows.size):
        r = rows[j]
        if r < 0:
            continue
        if share.row[r] >= 0:
            add_part(share.delta, share.row[r], parts[j])
            restore_row(counts.seen, share, r)
        elif not fades:
            coarse, rest, square = parts_of_sums(parts[j])
            amounts = (1.0, coarse, rest, square)
            for column in range(N_SUMS):
                if amounts[column] > 0.0:
                    add_key(stored, i, r * N_SUMS + column, amounts[column])
    release_room(counts.seen, share)
    if fades:
        pack(counts, share, stored, i)
