"""The order of all tests: those that wait for a browser begin first, the others fill the time."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: "browser" not in item.keywords)
