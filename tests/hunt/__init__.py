"""The hunt: what comes from outside is made wrong in every way that we can think of, and nothing may break.

An *area* is a kind of trial; areas.py lists them. Each trial follows from a seed, the area and a number, so whatever is found can
be tried again alone:

    python -m hunt --area calls --seed 1 --only 4711          (in tests/)

values        wrong values for each kind of argument, and the same value in another form
catalogue     every public callable, with valid arguments
calls         one call with one wrong argument; calls in any order; the command line
files         files that are damaged, and files that are forged with a right checksum
kills         processes killed while they save, work or wait; full disks; interrupts; threads
guard         runs trials in a child process, and notices if it crashes or hangs
fuzz          the same forgeries, guided by coverage (atheris)

`make hunt` runs all areas for some minutes and writes what was found to a file; `tests/hunt/test_hunt.py` is the short form.
"""
