"""Compiled code: arrays in, arrays out. Kernels trust their input: everything is checked before it comes here.

bundle           arrays and numbers that are passed by reference
cache            compiled code on disk
compiling        how kernels are compiled, kept on disk and called by one another
tables           sparse rows that grow in place
random_streams   random numbers
minimum          the least mean over an L1 ball (Lemma 4)
intervals        the least mean over intervals
rows             both, for the rows of a belief
model            what a plan is made for
scratch          arrays to work in
backup           the Bellman operator (Theorem 1)
backward         a finite horizon: a loop over it
radii            how far the truth may be from what was seen
layer            one layer of a learner: counting, forgetting, believing
sampling         tables drawn from what was seen
limits           shares of control within limits
baseline         never much worse than a baseline
learner          from counts to plans
episodes         playing under the true tables
teams            many teams in one workspace
"""
