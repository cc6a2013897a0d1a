"""The audit: a second opinion on every answer, written from the paper and the documents, on random problems with every feature.

The reference imports nothing of cede. What cede is asked are lines of Python, so whatever is found is a ready-to-run script.

features      what problems are made of, and which features are refused together
generate      makes problem number i of a seed
problems      a problem as plain data, and its source
reference     values and best policies of a model; averages: in the long run; limits: within limits of control
sets          counts, radii, and the least mean within a set; optimism: plans over sets
session       one problem under comparison; compare: what is compared, in known, learned, insight and runs
shrink        makes a problem that shows a difference smaller
coverage      how often intervals hold, by repetition

    python -m audit --minutes 60 --seed 7          (in tests/; `make audit` does this)
    python -m audit --seed 7 --only 4711           one problem again
"""
