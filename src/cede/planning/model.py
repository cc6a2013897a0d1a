"""The model that a plan is made from: beliefs of both layers, and the problem."""

from cede._kernels.bundle import Bundle
from cede._kernels.problem import ProblemArrays
from cede._kernels.tables import BeliefArrays


class ModelArrays(Bundle):
    """The input of a plan."""

    agents: BeliefArrays
    environment: BeliefArrays
    problem: ProblemArrays
