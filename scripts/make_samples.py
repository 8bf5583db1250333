"""Write the bundled sample logs in samples/: a healthy run, and one whose learning rate jumps and whose loss stays high."""

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "samples"
STEPS_PER_EPOCH, EPOCHS, INTERVAL, PEAK_LR = 6000, 2, 10, 5e-4
MINUTES_PER_EPOCH = 48.0


def learning_rate(progress: np.ndarray) -> np.ndarray:
    """Cosine from PEAK_LR to a tenth of it after 2 % linear warm-up; `progress` 0…1."""
    cosine = PEAK_LR * (0.1 + 0.45 * (1 + np.cos(np.pi * progress)))
    return np.where(progress < 0.02, PEAK_LR * progress / 0.02, cosine)


def lines(seed: int, *, sick: bool) -> list[str]:
    """Return the canonical lines of one run; a sick one multiplies its learning rate by 10 at 55 % and jumps."""
    random = np.random.default_rng(seed)
    step = np.arange(INTERVAL, EPOCHS * STEPS_PER_EPOCH + 1, INTERVAL)
    progress = step / (EPOCHS * STEPS_PER_EPOCH)
    lr = learning_rate(progress)
    loss = 2.05 + 6.7 * (1 + step / 60) ** -0.42 - 0.12 * progress
    loss *= np.exp(0.03 * random.standard_t(8, len(step)))
    if sick:
        after = progress > 0.55
        lr = np.where(after, lr * 10, lr)
        loss = np.where(after, loss * 1.9 + 0.4 * (1 - np.exp(-(progress - 0.55) * 40)), loss)
    return ["Model Params: 25.83M", *map(_line, step, loss, lr)]


def _line(step: int, loss: float, lr: float) -> str:
    epoch, within = divmod(int(step) - 1, STEPS_PER_EPOCH)
    left = int(MINUTES_PER_EPOCH * (1 - (within + 1) / STEPS_PER_EPOCH))
    return (
        f"Epoch:[{epoch + 1}/{EPOCHS}]({within + 1}/{STEPS_PER_EPOCH}), loss: {loss:.4f}, logits_loss: {loss:.4f}, "
        f"aux_loss: 0.0000, lr: {lr:.8f}, epoch_time: {left}.0min"
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "healthy-pretrain.log").write_text("\n".join(lines(7, sick=False)) + "\n")
    (FOLDER / "lr-jump-pretrain.log").write_text("\n".join(lines(11, sick=True)) + "\n")
