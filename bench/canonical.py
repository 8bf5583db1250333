"""Write a canonical log of any size: `python bench/canonical.py 1000000 FILE [--spike STEP] [--nan STEP]`."""

import argparse
from pathlib import Path

import numpy as np

LINES_PER_BLOCK = 100_000


def block(first: int, last: int, total: int, random: np.random.Generator, spike: int, nan: int) -> str:
    """Return the lines of steps first…last-1 of a run of `total` steps in two epochs."""
    step = np.arange(first, last)
    per_epoch = total // 2
    loss = (2.0 + 6.7 * (1 + step / (total / 500)) ** -0.42) * np.exp(0.03 * random.standard_normal(len(step)))
    aux = 0.002 * np.exp(0.1 * random.standard_normal(len(step)))
    lr = 5e-4 * (0.1 + 0.45 * (1 + np.cos(np.pi * step / total)))
    loss = np.where(step == spike, loss * 10, np.where(step == nan, np.nan, loss))
    epoch, within = np.divmod(step - 1, per_epoch)
    left = (60 * (1 - (within + 1) / per_epoch)).astype(int)
    rows = zip(epoch + 1, within + 1, loss + aux, loss, aux, lr, left, strict=True)
    line = f"Epoch:[%d/2](%d/{per_epoch}), loss: %.4f, logits_loss: %.4f, aux_loss: %.4f, lr: %.8f, epoch_time: %d.0min\n"
    return "".join([line % row for row in rows])


def write(path: Path, lines: int, *, spike: int = 0, nan: int = 0) -> None:
    """Write `lines` canonical lines; steps `spike` and `nan` (1-based, 0 = none) hold a ten-fold loss and a NaN."""
    random = np.random.default_rng(1)
    with path.open("w") as out:
        for first in range(1, lines + 1, LINES_PER_BLOCK):
            out.write(block(first, min(first + LINES_PER_BLOCK, lines + 1), lines, random, spike, nan))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lines", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--spike", type=int, default=0)
    parser.add_argument("--nan", type=int, default=0)
    given = parser.parse_args()
    write(given.file, given.lines, spike=given.spike, nan=given.nan)
