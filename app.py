"""Server and pages in one file: `streamlit run app.py`.

Streamlit imports this file once as module `app`, finds the ASGI application `app` and serves it; the same file then runs
as `__main__` for every browser session and draws the page.
"""

import logging
from pathlib import Path

import streamlit as st

if __name__ == "__main__":
    from ui import shell

    shell.run()
else:
    # What follows runs before Streamlit's server does. It warns of that a dozen times, and nothing is wrong.
    for part in ("caching.cache_data_api", "scriptrunner_utils.script_run_context"):
        logging.getLogger(f"streamlit.runtime.{part}").setLevel(logging.ERROR)

    from starlette.middleware import Middleware

    from server.lifespan import serving
    from server.packed import Packed
    from server.routes import routes
    from server.signpost import Signpost
    from ui import shell

    # Until some session has called st.navigation, Streamlit would run `pages/x.py` without this file for a deep link.
    st.navigation([st.Page(lambda: None, title="-", url_path="-")])
    base_path = st.get_option("server.baseUrlPath")
    app = st.App(
        Path(__file__).resolve(),
        lifespan=serving(shell.address),
        routes=routes(base_path),
        middleware=[
            Middleware(Packed, folder=Path(st.__file__).parent / "static" / "static", base_path=base_path),
            Middleware(Signpost, pages=shell.page_names(), base_path=base_path),
        ],
        on_script_error=shell.on_script_error,
    )
