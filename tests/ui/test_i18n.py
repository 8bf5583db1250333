"""No string without its translation: what scripts/i18n --check says, it says here."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_message_is_translated():
    done = subprocess.run([sys.executable, "scripts/i18n", "--check"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run scripts/i18n and translate:\n{done.stdout}\n{done.stderr}"


def test_both_languages_of_the_page_have_a_catalogue_or_are_the_source():
    from ui import text

    assert text.catalogue("en") == {}
    assert len(text.catalogue("zh_CN")) > 100
