"""Every compiled function: arrays in, arrays out, trusting its input.

compiling    how kernels are compiled and kept
data         the arrays that they work on, in bundles
minimum      the inner minimum of one row
rows         the inner minima of Theorem 1, row by row
passes       Theorem 1: the backward pass over all rows, states and times
episodes     playing and counting
radii        how far the truth may be from what was seen
luck         random numbers
samples      tables drawn from what was seen
promises     shares of control within limits; never much worse than a baseline
minds        a learner: beliefs, plans, runs of episodes
teams        many of them, one after the other
"""

from cede._kernels.data import APPENDIX as APPENDIX
from cede._kernels.data import AT_MOST as AT_MOST
from cede._kernels.data import BERNSTEIN as BERNSTEIN
from cede._kernels.data import BLOCK as BLOCK
from cede._kernels.data import BY_PREV_AGENT as BY_PREV_AGENT
from cede._kernels.data import BY_TIME as BY_TIME
from cede._kernels.data import CHOOSE as CHOOSE
from cede._kernels.data import CHUNK as CHUNK
from cede._kernels.data import CONSTANT as CONSTANT
from cede._kernels.data import DECIDED as DECIDED
from cede._kernels.data import DEVIATE as DEVIATE
from cede._kernels.data import DOUBLING as DOUBLING
from cede._kernels.data import EXPLORED as EXPLORED
from cede._kernels.data import FOLLOW as FOLLOW
from cede._kernels.data import KEEP_TO as KEEP_TO
from cede._kernels.data import KEPT_TO as KEPT_TO
from cede._kernels.data import NEVER as NEVER
from cede._kernels.data import NO_RADIUS as NO_RADIUS
from cede._kernels.data import PRINTED as PRINTED
from cede._kernels.data import PROVEN as PROVEN
from cede._kernels.data import RAISE as RAISE
from cede._kernels.data import RECORD as RECORD
from cede._kernels.data import Bench as Bench
from cede._kernels.data import Caution as Caution
from cede._kernels.data import Fading as Fading
from cede._kernels.data import Hands as Hands
from cede._kernels.data import Keep as Keep
from cede._kernels.data import Layer as Layer
from cede._kernels.data import Leads as Leads
from cede._kernels.data import Ledger as Ledger
from cede._kernels.data import Limits as Limits
from cede._kernels.data import Log as Log
from cede._kernels.data import Mind as Mind
from cede._kernels.data import Places as Places
from cede._kernels.data import Pool as Pool
from cede._kernels.data import Problem as Problem
from cede._kernels.data import Radii as Radii
from cede._kernels.data import Room as Room
from cede._kernels.data import Sizes as Sizes
from cede._kernels.data import Steps as Steps
from cede._kernels.data import World as World
from cede._kernels.data import hands_to_work as hands_to_work
from cede._kernels.data import room_to_work as room_to_work
from cede._kernels.episodes import add_sums as add_sums
from cede._kernels.episodes import count_steps as count_steps
from cede._kernels.episodes import fade_both as fade_both
from cede._kernels.episodes import first_outside as first_outside
from cede._kernels.episodes import keys_of_steps as keys_of_steps
from cede._kernels.episodes import outcome_of as outcome_of
from cede._kernels.episodes import roll as roll
from cede._kernels.episodes import start_mean as start_mean
from cede._kernels.episodes import sums_wanted as sums_wanted
from cede._kernels.luck import draw_uniform as draw_uniform
from cede._kernels.luck import next_log_gamma as next_log_gamma
from cede._kernels.luck import stream_at as stream_at
from cede._kernels.minds import believe as believe
from cede._kernels.minds import decide as decide
from cede._kernels.minds import is_due as is_due
from cede._kernels.minds import note_visits as note_visits
from cede._kernels.minds import tie_seed as tie_seed
from cede._kernels.minds import visit_once as visit_once
from cede._kernels.minimum import FEW as FEW
from cede._kernels.minimum import least_in_intervals as least_in_intervals
from cede._kernels.minimum import least_sum as least_sum
from cede._kernels.minimum import rank as rank
from cede._kernels.passes import backward as backward
from cede._kernels.passes import begin as begin
from cede._kernels.promises import deviation as deviation
from cede._kernels.promises import note_episode as note_episode
from cede._kernels.promises import set_prices as set_prices
from cede._kernels.promises import step_costs as step_costs
from cede._kernels.promises import update_prices as update_prices
from cede._kernels.radii import appendix_constant as appendix_constant
from cede._kernels.radii import bernstein_constant as bernstein_constant
from cede._kernels.radii import constants_ahead as constants_ahead
from cede._kernels.radii import cost_constant as cost_constant
from cede._kernels.radii import printed_constant as printed_constant
from cede._kernels.radii import radii as radii
from cede._kernels.radii import steps_before as steps_before
from cede._kernels.teams import come_to_work as come_to_work
from cede._kernels.teams import find_optima as find_optima
from cede._kernels.teams import growth as growth
from cede._kernels.teams import places_wanted as places_wanted
from cede._kernels.teams import play_teams as play_teams
from cede._kernels.teams import restore as restore
