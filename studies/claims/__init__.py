"""Decide for each claim, the paper's and our own, whether our tables confirm it; write the table of verdicts.

finding                      a claim with what was measured and its verdict; the words of verdicts
rules                        every threshold, with its reason
statistics                   exponents, slopes, effects paired by seed, and what their intervals decide
paper_river, paper_lane,
paper_theory                 claims of the paper
ours_learners, ours_people,
ours_fleets, ours_speed      claims of our own documents
verdicts                     all claims by table, in the order of the page
pages                        claims.csv and Markdown
"""
