"""What kernels do with tables (table.py): count, take back, add sums. The first argument is a Table or a KeyTable."""

from cede._kernels.compiling import kernel


@kernel
def find(table, r, column):
    """Return the place in the pool where `column` stands in row r, or would stand."""
    columns = table.column
    lo = table.start[r]
    hi = lo + table.size[r]
    while lo < hi:
        middle = (lo + hi) // 2
        if columns[middle] < column:
            lo = middle + 1
        else:
            hi = middle
    return lo


@kernel
def add(table, r, column, amount):
    """Add to the weight of `column` in row r, keeping the row sorted. The caller has made the pool long enough."""
    columns, weights, sizes = table.column, table.weight, table.size
    start, n = table.start[r], sizes[r]
    lo = find(table, r, column)
    table.total[r] += amount
    if lo < start + n and columns[lo] == column:
        weights[lo] += amount
        return
    if n == table.capacity[r]:  # move the row to the end of the pool, with twice the room
        target = table.end
        table.capacity[r] = 2 * n + 2
        table.end = target + 2 * n + 2
        for j in range(n):
            columns[target + j] = columns[start + j]
            weights[target + j] = weights[start + j]
        table.start[r] = target
        lo += target - start
        start = target
    for j in range(start + n, lo, -1):
        columns[j] = columns[j - 1]
        weights[j] = weights[j - 1]
    columns[lo] = column
    weights[lo] = amount
    sizes[r] = n + 1


@kernel
def take(table, r, column):
    """Undo that one `column` was counted in row r."""
    columns, weights = table.column, table.weight
    lo, last = find(table, r, column), table.start[r] + table.size[r] - 1
    table.total[r] -= 1.0
    weights[lo] -= 1.0
    if weights[lo] == 0.0:
        for j in range(lo, last):
            columns[j] = columns[j + 1]
            weights[j] = weights[j + 1]
        table.size[r] -= 1


@kernel
def places_for_sums(table, rows):
    """Return how many places the pool lacks to take more outcomes. rows: (n,) ascending, the row of each outcome.

    A row that grows by m outcomes needs at most 4 (size + m) + 8 places, each time it moves to twice its room.
    """
    wanted, i = 0, 0
    while i < rows.size:
        j = i
        while j < rows.size and rows[j] == rows[i]:
            j += 1
        wanted += 4 * (table.size[rows[i]] + j - i) + 8
        i = j
    return wanted - (table.column.size - table.end)


@kernel
def add_sums(table, rows, columns, amounts):
    """Add sparse sums: amounts[i] to the weight of columns[i] in rows[i]."""
    for i in range(rows.size):
        add(table, rows[i], columns[i], amounts[i])


@kernel
def restore(table, snapshot):
    """Make a table equal to a snapshot of it. The pool is long enough."""
    for r in range(table.start.size):
        table.start[r] = snapshot.start[r]
        table.size[r] = snapshot.size[r]
        table.capacity[r] = snapshot.capacity[r]
        table.total[r] = snapshot.total[r]
    columns, weights, from_columns, from_weights = table.column, table.weight, snapshot.column, snapshot.weight
    for j in range(snapshot.end):
        columns[j] = from_columns[j]
        weights[j] = from_weights[j]
    table.end = snapshot.end


@kernel
def growth(entries, rows, columns, steps):
    """Return so many places as are enough for all rows that some steps change, each time a row moves to twice its room: by the
    outcomes that there are now, and by those that there can be.
    """
    return min(4 * (entries + steps) + 8 * min(rows, steps), rows * (4 * columns + 8))
