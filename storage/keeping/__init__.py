"""How runs are kept: the warehouse, its tiers, the archive, and their care; `storage/store.py` is the door."""
