"""The language of compiled code. Kernels trust their input: everything is checked before it comes here.

bundle           arrays and numbers that are passed by reference
compiling        how kernels are compiled, kept on disk and called by one another
backend          which of the next two is used
numba_private    kernels with names that Numba keeps private
numba_plain      the same kernels without them, slower to compile
vectors          sums in vector registers, in a fixed order
tables           sparse rows that grow in place
random_streams   random numbers
scratch          arrays to work in
problem          costs, where the rows of agents are, where and when an episode ends
limits           shares of control within limits
account          what a step costs and what a hand-over is, for kernels and for NumPy

Other compiled code lives with its subject: counting in `rows`, sets in `beliefs`, the Bellman operator in `planning`, from counts
to plans in `learners/compiled.py`, runs in `fleet/teams.py`.
"""
