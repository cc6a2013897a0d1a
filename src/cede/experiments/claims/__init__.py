"""Decide for each claim, the paper's and our own, whether our tables confirm it; write the table of verdicts.

finding                      a claim with what was measured and its verdict; the words of verdicts
rules                        every threshold, with its reason
statistics                   exponents, slopes, effects paired by seed, and what their intervals decide
paper_river, paper_lane      claims of the paper, by world
ours_learners, ours_people,
ours_fleets, ours_speed      claims of our own documents
verdicts                     all claims by table, in the order of the page
pages                        claims.csv and Markdown
"""

from cede.experiments.claims.finding import BASELINES, FAILS, HOLDS, OPEN, OURS, PAPER, SCALED, Finding, both
from cede.experiments.claims.pages import between, markdown, save_findings, with_verdicts
from cede.experiments.claims.paper_river import action_size, covered
from cede.experiments.claims.statistics import exponent, sign_verdict, slope
from cede.experiments.claims.verdicts import CLAIMS, all_findings, missing_figures, paper_findings

__all__ = [
    "BASELINES",
    "CLAIMS",
    "FAILS",
    "HOLDS",
    "OPEN",
    "OURS",
    "PAPER",
    "SCALED",
    "Finding",
    "action_size",
    "all_findings",
    "between",
    "both",
    "covered",
    "exponent",
    "markdown",
    "missing_figures",
    "paper_findings",
    "save_findings",
    "sign_verdict",
    "slope",
    "with_verdicts",
]
