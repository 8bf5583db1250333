"""Small logs and what a page says: shared by the page tests and the browser tests."""

from streamlit.testing.v1 import AppTest


def take(shop, text: str, name: str) -> str:
    """Bring a log in and return the id of its run."""
    return shop.ingest_upload(name, [text.encode()]).run_id


def canonical(
    rows: int = 300, *, nan: int | None = None, spike: int | None = None, start: int = 1, plan: int | None = None
) -> str:
    """Return a small canonical log of two epochs; a NaN or a jump of the loss at a row.

    plan: steps of an epoch (default: as many as there are), which takes half an hour; `epoch_time` is what is left of it.
    """
    lines, plan = [], plan or rows * 5
    for row in range(rows):
        loss = 2 + 6 * 0.985**row + 0.02 * ((row * 7919) % 13 - 6) / 6
        loss = float("nan") if row == nan else loss * 3 if spike is not None and row >= spike else loss
        epoch, step = divmod(row, rows // 2)
        done = (step + start) * 10
        line = f"Epoch:[{epoch + 1}/2]({done}/{plan}), loss: {loss:.4f}, logits_loss: {loss:.4f}, "
        left = 30 * max(plan - done, 0) // plan
        lines.append(line + f"aux_loss: 0.0000, lr: {5e-4 * (1 - row / rows / 2):.8f}, epoch_time: {left}.0min")
    return "\n".join(lines) + "\n"


def words(test: AppTest) -> str:
    """Return all text of a page: markdown, captions and HTML."""
    parts = [element.value for kind in (test.markdown, test.caption, test.error, test.warning) for element in kind]
    parts += [element.proto.body for element in test.get("html")]
    return "\n".join(map(str, parts))
