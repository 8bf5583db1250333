"""Frames in, findings and numbers out: pure functions that know neither Streamlit nor DuckDB."""
