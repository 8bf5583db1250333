"""Bytes of a log in, canonical rows, events and an exact account of every line out; `storage/reader.py` is the door."""
