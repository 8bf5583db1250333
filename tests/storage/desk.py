"""A store beside a watched folder, and lines of a log to write there."""

from storage.intake.watch import Watcher
from storage.keeping.sources import Watched
from storage.store import Store


def line(step: int) -> str:
    return (
        f"Epoch:[1/1]({step}/100000), loss: {9 - step / 1000:.4f}, logits_loss: 8.1, aux_loss: 0.0022, "
        "lr: 0.00050000, epoch_time: 45.2min\n"
    )


def lines(first: int, last: int) -> str:
    return "".join(line(step) for step in range(first, last + 1))


class Desk:
    """A store, a watched folder, and a watcher that can be started anew."""

    def __init__(self, tmp_path, **watched):
        self.folder = tmp_path / "logs"
        self.folder.mkdir()
        self.data = tmp_path / "data"
        self.watched = Watched(str(self.folder), **watched)
        self.store = Store(self.data)
        self.watcher = Watcher(self.store, [self.watched])

    @property
    def log(self):
        return self.folder / "train.log"

    def write(self, text, name="train.log", mode="a"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as file:
            file.write(text)
        return path

    def poll(self, times=1):
        for _ in range(times):
            while self.watcher.poll():
                pass

    def restart(self):
        self.store.close()
        self.store = Store(self.data)
        self.watcher = Watcher(self.store, [self.watched])

    def run(self):
        (run,) = self.store.runs()
        return run

    def steps(self):
        return self.store.frame(self.run().id, ["step"], kind=None)["step"].to_pylist()

    def problems(self):
        return {problem.code: problem.message.render() for status in self.watcher.status for problem in status.problems}


def up_to(step):
    return list(range(1, step + 1))
