"""The process around the pages: settings, lifespan, HTTP routes, and the monitor that diagnoses a run when rows arrive."""
