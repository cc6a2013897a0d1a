"""Gymnasium's environments as problems of cede. Needs the extra `gym`."""

from cede.gym.toy_text import from_toy_text as from_toy_text

__all__ = ["from_toy_text"]
