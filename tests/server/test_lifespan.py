"""What the server does once at its start and end."""

import subprocess
import sys

from tests.serving import ROOT

CODE = """
import gc
import anyio
from server.lifespan import serving

async def life():
    async with serving(lambda: "http://127.0.0.1:1")(None):
        print(gc.get_freeze_count())

anyio.run(life)
"""


def test_the_objects_of_the_imports_are_never_walked_again(tmp_path):
    environment = {"RUNVITALS_DATA_DIR": str(tmp_path), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50_000
