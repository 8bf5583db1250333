"""One file = one rule. `analysis/registry.py` says what a rule holds and how it sees a run."""
