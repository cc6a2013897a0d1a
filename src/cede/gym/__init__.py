"""The bridge to Gymnasium: its environments as problems for cede, and cede's problems as environments.

Needs the extra `gym`; models of Stable-Baselines3 need the extra `sb3`.

from_toy_text      makes a two-layer problem of an environment that has a table of probabilities (FrozenLake, Taxi ...)
from_minigrid      makes one of a MiniGrid environment, whose states `minigrid_states` finds; needs the extra `worlds`
run, task_for      run a team in any environment with discrete actions, while a learner chooses the agent in control
SwitchingEnv       makes an environment of a two-layer problem, or of a team in another environment, whose action is the agent that
                   gets control; `cede/LaneDriving-v0` and `cede/RiverSwim-v0` are registered
actor, tabulated, agent_from_sb3, ConsoleAgent     make an agent of a table, a function, a model or a person at the keyboard
uniform_bins, quantile_bins, Bins                  make states of numeric observations: the same as in `cede.encode`
"""

from cede.features.encode import Bins, quantile_bins, uniform_bins
from cede.gym.actors import Actor, ConsoleAgent, actor, agent_from_sb3, tabulated
from cede.gym.loop import GymHistory, run, task_for
from cede.gym.minigrid import MiniGridStates, from_minigrid, minigrid_states
from cede.gym.switching_env import SwitchingEnv
from cede.gym.toy_text import from_toy_text

__all__ = [
    "Actor",
    "Bins",
    "ConsoleAgent",
    "GymHistory",
    "MiniGridStates",
    "SwitchingEnv",
    "actor",
    "agent_from_sb3",
    "from_minigrid",
    "from_toy_text",
    "minigrid_states",
    "quantile_bins",
    "run",
    "tabulated",
    "task_for",
    "uniform_bins",
]
