"""Beliefs: confidence sets or posteriors of rows of probabilities, from their counts. One file for each kind.

kind          what a kind of belief is: formulas, assumptions, permitted uses
registry      all kinds; settings, files, command line and documents read this list
printed       L1 balls with the radius of the paper's Section 3
appendix      L1 balls with the radius of UCRL2, in the paper's appendix
weissman      L1 balls that hold at all times without t
bernstein     an interval around the probability of each outcome
kl            balls of relative entropy, "kl" and "kl-value"
calibrated    balls of relative entropy with measured scales, without a guarantee
posterior     tables drawn from Dirichlet posteriors
frequencies   the observed frequencies themselves
known         rows that are certain: known policies and environments
feature_prior   a posterior whose prior is learned from features of the states; it uses extras, feature_models, trees and
                transition_trees

l1, intervals   the inner minimum of two forms of sets; that of the third is in kl
belief        `Belief` and `CostBelief`, the public classes
truth         the true tables of a problem as beliefs
scale         factors of widths
constants     the constants of an episode
layer         counts in, belief out, for one layer
costs         the same for costs that are learned
"""
