"""The verbs of the command line, one file each: `commands/<verb>.py` holds a function of that name under `@verb`."""
