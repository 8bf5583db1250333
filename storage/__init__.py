"""Bytes in, frames out: reads logs and keeps them; knows neither Streamlit nor the rules."""
