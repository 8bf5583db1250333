"""The service: what it keeps in order by itself."""

from analysis import edition as of
from server.service import Service
from server.settings import Settings
from tests.pages.helpers import canonical, take


def test_uploads_that_a_crash_cut_off_are_swept_when_the_store_opens(tmp_path):
    left = tmp_path / "spool" / "0123abcd"
    left.parent.mkdir()
    left.write_bytes(b"Epoch:[1/1](1/10), loss: 3.0\n")
    Service.open(Settings(data_dir=tmp_path, read_only=False)).close()
    assert not left.exists()


def test_a_diagnosis_of_other_rules_is_made_anew_after_an_update(tmp_path, monkeypatch):
    def opened():
        return Service.open(Settings(data_dir=tmp_path, read_only=False))

    service = opened()
    run = take(service, canonical(200), "a.log")
    version, said = service.store.version(run), service.diagnosis(run)
    service.store.save_diagnosis(run, "robust", version, said.to_dict() | {"verdict": "failed"})
    service.close()
    service = opened()
    assert service.store.judged() == {run: version}, "the same rules: nothing is done twice"
    service.close()
    monkeypatch.setattr("server.service.edition", lambda: "other rules")
    service = opened()
    assert service.store.judged()[run] != version
    assert service.diagnosis(run).verdict == said.verdict
    assert service.store.judged() == {run: version}
    service.close()


def test_the_edition_is_that_of_every_file_of_the_rules(tmp_path, monkeypatch):
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.py").write_text("x = 1")
    monkeypatch.setattr(of, "__file__", str(tmp_path / "edition.py"))
    seen = [of.edition.__wrapped__()]
    for name, text in (("rules/a.py", "x = 2"), ("rules/b.py", ""), ("causes.toml", "[a]")):
        (tmp_path / name).write_text(text)
        seen.append(of.edition.__wrapped__())
    assert len(set(seen)) == len(seen)
