"""The order of all tests, and the same generated inputs in every run.

A commit that was green stays green: hypothesis makes its inputs from the test itself. New inputs are looked for on purpose,
with `pytest -m hypothesis --hypothesis-profile=fuzz`; what that finds becomes a test of its own.
"""

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, database=None, deadline=None)
settings.register_profile("fuzz", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that wait for a browser begin first, the others fill the time."""
    items.sort(key=lambda item: "browser" not in item.keywords)
