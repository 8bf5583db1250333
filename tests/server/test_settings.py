"""Settings: defaults, file, environment and explicit values, in this order of strength."""

from pathlib import Path

import pytest

from server.settings import Settings, SettingsError, load_settings


def test_defaults_without_file_or_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_settings(environ={}) == Settings()


def test_environment_beats_file_and_explicit_beats_both(tmp_path):
    path = tmp_path / "rv.toml"
    path.write_text('data_dir = "from_file"\nmax_upload_mib = 10\nread_only = true\n')
    environ = {"RUNVITALS_CONFIG": str(path), "RUNVITALS_MAX_UPLOAD_MIB": "20"}
    settings = load_settings(environ=environ, data_dir=tmp_path / "given")
    assert settings == Settings(data_dir=tmp_path / "given", max_upload_mib=20, read_only=True)


@pytest.mark.parametrize(
    ("text", "word"), [("colour = 1", "colour"), ("max_upload_mib = 'x'", "max_upload_mib"), ("=", "TOML")]
)
def test_a_wrong_file_is_named_with_its_fault(tmp_path, text, word):
    path = tmp_path / "rv.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=word):
        load_settings(path, environ={})


def test_a_named_file_that_is_missing_is_an_error():
    with pytest.raises(SettingsError, match="does not exist"):
        load_settings(Path("/nowhere/rv.toml"), environ={})
