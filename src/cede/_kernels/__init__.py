"""Basics of compiled code. Kernels trust their input: all checks are done before they are called.

bundle           arrays and numbers that are passed by reference
compiling        how kernels are compiled, cached on disk and called by each other
backend          which of the next two is used
numba_private    kernels made with private names of Numba
numba_plain      the same kernels without them, slower to compile
vectors          sums in vector registers, in a fixed order
tables           sparse rows that grow in place
random_streams   random numbers
scratch          arrays to work in
problem          costs, rows of agents, terminal states and time
limits           shares of control within limits
account          the cost of a step and the definition of a hand-over, for kernels and for NumPy

Other compiled code lives with its subject: counting in `rows`, sets in `beliefs`, the Bellman operator in `planning`, from counts
to plans in `learners/compiled.py`, runs in `fleet/teams.py`.
"""
