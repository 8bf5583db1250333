"""Runs side by side: what differs, whether a comparison is fair, and how large the difference is against the noise.

Pure functions over `Subject`s (see subject.py): config_diff and fairness say what may be said, align and difference say it
in numbers, expected compares with what a change should do, the others are for stages, sweeps, groups and tuning methods.
"""
