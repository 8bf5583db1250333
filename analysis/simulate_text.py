"""Prints simulated runs as the logs that training scripts print, so that they come back through the real reader."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np

from analysis.simulate_time import Launch, TimedRun

START = datetime(2024, 5, 6, 21, 30, tzinfo=UTC)  # late in the evening: runs pass midnight
TOKENS_A_STEP = 65_536


def printed(run: TimedRun, style: str, *, log_every: int = 10) -> str:
    """Return the log of a run in one of STYLES; each launch prints every `log_every` steps and its last one."""
    return "".join(line for launch in run.launches for line in STYLES[style](run, launch, _rows(launch, log_every)))


def _rows(launch: Launch, log_every: int) -> np.ndarray:
    rows = np.flatnonzero(launch.steps % log_every == 0)
    return rows if len(rows) and rows[-1] == len(launch.steps) - 1 else np.append(rows, len(launch.steps) - 1)


def _elapsed(launch: Launch, rows: np.ndarray) -> np.ndarray:
    return launch.ends[rows] - launch.start


def _left(run: TimedRun, launch: Launch, rows: np.ndarray) -> np.ndarray:
    """What a script says is left: mean pace of this launch times the steps left."""
    done = launch.steps[rows] - launch.steps[0] + 1
    return _elapsed(launch, rows) / done * (run.plan - launch.steps[rows])


def _stamp(seconds: float) -> datetime:
    return START + timedelta(seconds=float(seconds))


def _minimind(run: TimedRun, launch: Launch, rows: np.ndarray) -> Iterator[str]:
    for row, spent, left in zip(rows, _elapsed(launch, rows), _left(run, launch, rows), strict=True):
        step = launch.steps[row]
        loss, lr = run.loss[step - 1], run.lr[step - 1]
        minutes = (spent + left) // 60 - spent // 60  # by two floors, as MiniMind does it
        yield (
            f"Epoch:[1/1]({step}/{run.plan}), loss: {loss:.4f}, logits_loss: {loss:.4f}, aux_loss: 0.0000, "
            f"lr: {lr:.8f}, epoch_time: {minutes:.1f}min\n"
        )


def _hf(run: TimedRun, launch: Launch, rows: np.ndarray) -> Iterator[str]:
    for row, spent, left in zip(rows, _elapsed(launch, rows), _left(run, launch, rows), strict=True):
        step = launch.steps[row]
        share = int(100 * step / run.plan)
        yield f"{share:3d}%|###       | {step}/{run.plan} [{_clock(spent)}<{_clock(left)}, {launch.step_s[row]:.2f}s/it]\n"
        yield (
            f"{{'loss': {run.loss[step - 1]:.4f}, 'grad_norm': {run.grad_norm[step - 1]:.6f}, "
            f"'learning_rate': {run.lr[step - 1]:.6g}, 'epoch': {step / run.plan:.2f}}}\n"
        )


def _clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60:02d}:{rest % 60:02d}"


def _means(launch: Launch, rows: np.ndarray) -> Iterator[float]:
    """Yield for each printed row the mean of the seconds a step since the row printed before."""
    for first, row in zip(np.r_[0, rows[:-1] + 1], rows, strict=True):
        yield float(launch.step_s[first : row + 1].mean())


def _megatron(run: TimedRun, launch: Launch, rows: np.ndarray) -> Iterator[str]:
    for row, mean in zip(rows, _means(launch, rows), strict=True):
        step = launch.steps[row]
        stamp = _stamp(launch.ends[row]).strftime("%Y-%m-%d %H:%M:%S")
        yield (
            f" [{stamp}] iteration {step:8d}/{run.plan:8d} | consumed samples: {step * 32:12d} | "
            f"elapsed time per iteration (ms): {1000 * mean:.1f} | learning rate: {run.lr[step - 1]:.6E} | "
            f"global batch size:    32 | lm loss: {run.loss[step - 1]:.6E} | loss scale: 1.0 | "
            f"grad norm: {run.grad_norm[step - 1]:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )
        if step in launch.saved:
            yield f"  successfully saved checkpoint at iteration {step:8d} to checkpoints\n"


def _jsonl(run: TimedRun, launch: Launch, rows: np.ndarray) -> Iterator[str]:
    for row in rows:
        step = launch.steps[row]
        stamp = _stamp(launch.ends[row]).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        yield (
            f'{{"timestamp": "{stamp}", "step": {step}, "total_steps": {run.plan}, "loss": {run.loss[step - 1]:.4f}, '
            f'"lr": {run.lr[step - 1]:.6g}, "tokens_seen": {step * TOKENS_A_STEP}}}\n'
        )


def _llama_factory(run: TimedRun, launch: Launch, rows: np.ndarray) -> Iterator[str]:
    for row, spent, left in zip(rows, _elapsed(launch, rows), _left(run, launch, rows), strict=True):
        step = launch.steps[row]
        yield (
            f'{{"current_steps": {step}, "total_steps": {run.plan}, "loss": {run.loss[step - 1]:.4f}, '
            f'"lr": {run.lr[step - 1]:.6g}, "epoch": {step / run.plan:.4f}, "percentage": {100 * step / run.plan:.2f}, '
            f'"elapsed_time": "{timedelta(seconds=int(spent))}", "remaining_time": "{timedelta(seconds=int(left))}"}}\n'
        )


def _modded(run: TimedRun, launch: Launch, rows: np.ndarray) -> Iterator[str]:
    for row, spent in zip(rows, _elapsed(launch, rows), strict=True):
        step = launch.steps[row]
        done = step - launch.steps[0] + 1
        yield (
            f"step:{step}/{run.plan} train_loss:{run.loss[step - 1]:.4f} "
            f"train_time:{1000 * spent:.0f}ms step_avg:{1000 * spent / done:.2f}ms\n"
        )


def _mmengine(run: TimedRun, launch: Launch, rows: np.ndarray) -> Iterator[str]:
    for row, left, mean in zip(rows, _left(run, launch, rows), _means(launch, rows), strict=True):
        step = launch.steps[row]
        stamp = _stamp(launch.ends[row]).strftime("%Y/%m/%d %H:%M:%S")
        yield (
            f"{stamp} - mmengine - INFO - Iter(train) [{step:6d}/{run.plan}]  lr: {run.lr[step - 1]:.4e}  "
            f"eta: {timedelta(seconds=int(left))}  time: {mean:.4f}  data_time: 0.0101  memory: 5012  "
            f"loss: {run.loss[step - 1]:.4f}\n"
        )


def _csv(run: TimedRun, launch: Launch, rows: np.ndarray) -> Iterator[str]:
    if launch.start == 0:
        yield "step,total_steps,loss,lr,grad_norm,step_time\n"
    for row in rows:
        step = launch.steps[row]
        cells = (run.loss[step - 1], run.lr[step - 1], run.grad_norm[step - 1], launch.step_s[row])
        yield f"{step},{run.plan}," + ",".join(f"{cell:.6g}" for cell in cells) + "\n"


Printer = Callable[[TimedRun, Launch, np.ndarray], Iterator[str]]
STYLES: dict[str, Printer] = {
    "minimind": _minimind,
    "hf_dict": _hf,
    "megatron": _megatron,
    "jsonl": _jsonl,
    "llama_factory": _llama_factory,
    "modded_nanogpt": _modded,
    "mmengine": _mmengine,
    "csv": _csv,
}
