"""Short links: the same view has the same link, and none leads away from this server."""

from server import links, service


def test_a_view_is_kept_once_and_found(tmp_path, monkeypatch):
    monkeypatch.setenv("RUNVITALS_DATA_DIR", str(tmp_path / "data"))
    service.stop()
    store = service.get().store
    try:
        query = {"run": "ab12", "lang": "zh_CN", "q": "is:sick lr=5e-4 & <b>"}
        link = links.keep(store, "health", query)
        assert links.keep(store, "health", dict(reversed(query.items()))) == link
        assert len(store.kept(links.KIND)) == 1
        assert links.target(store, link) == "health?lang=zh_CN&q=is%3Asick+lr%3D5e-4+%26+%3Cb%3E&run=ab12"
        assert links.target(store, "nothere") == links.UNKNOWN
        for page in ("//evil.example", "http://evil.example/", "..", "a/b", ""):
            store.keep(links.KIND, "bad", {"page": page, "query": {}})
            assert links.target(store, "bad") == links.UNKNOWN
        store.keep(links.KIND, "odd", ["not", "a", "view"])
        assert links.target(store, "odd") == links.UNKNOWN
    finally:
        service.stop()
