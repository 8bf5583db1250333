"""Number inputs whose value is in the URL; empty means: not given."""

from typing import Literal

import streamlit as st


def amount(key: str, label: str, width: int | Literal["stretch"] = "stretch", *, whole: bool = False) -> float | None:
    """Show a field for a number of at least zero and return it, None where it is left empty."""
    if whole:
        count = st.number_input(
            label, value=None, key=key, bind="query-params", width=width, placeholder="–", min_value=0, step=1
        )
        return None if count is None else float(count)
    return st.number_input(
        label, value=None, key=key, bind="query-params", width=width, placeholder="–", min_value=0.0, format="%g"
    )
