"""What to log to decide: the fields that a diagnosis missed, what each would tell, and the line of code that prints it."""

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.findings import Cause
from messages import N_, Text

PRINT = {
    "loss": 'print(f"loss: {loss.item():.4f}")',
    "logits_loss": 'print(f"logits_loss: {logits_loss.item():.4f}")',
    "aux_loss": 'print(f"aux_loss: {aux_loss.item():.4f}")',
    "lr": "print(f\"lr: {optimizer.param_groups[0]['lr']:.8f}\")",
    "grad_norm": 'print(f"grad_norm: {torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0):.4f}")',
    "eval_loss": 'print(f"step: {step}, eval_loss: {eval_loss:.4f}")',
    "epoch": 'print(f"epoch: {step / steps_per_epoch:.4f}")',
    "step_time_seconds": 'print(f"step_time: {time.perf_counter() - start:.4f}s")',
    "timestamp": "logging.basicConfig(format='%(asctime)s %(message)s')",
    "loss_scale": 'print(f"loss_scale: {scaler.get_scale():.0f}")',
    "skipped_iterations": 'print(f"skipped: {skipped}")',
    "batch_size": 'print(f"batch_size: {tokens_per_step}")',
    "vocab_size": 'print(f"vocab_size: {model.config.vocab_size}")',
    "use_moe": 'print(f"use_moe: {config.use_moe}")',
    "memory_bytes": 'print(f"memory: {torch.cuda.max_memory_allocated() / 2**30:.2f}GiB")',
    "memory_total_bytes": 'print(f"memory_total: {torch.cuda.get_device_properties(0).total_memory / 2**30:.2f}GiB")',
    "gpu_utilization_percent": "nvidia-smi --query-gpu=timestamp,utilization.gpu,memory.used --format=csv -l 10",
    "gpu_temperature_celsius": "nvidia-smi --query-gpu=timestamp,temperature.gpu --format=csv -l 10",
    "gpu_power_watts": "nvidia-smi --query-gpu=timestamp,power.draw --format=csv -l 10",
    "data_time_seconds": 'print(f"data_time: {data_time:.4f}s")',
    "tokens_per_second": 'print(f"tokens_per_second: {tokens / elapsed:.0f}")',
    "rank": 'print(f"rank: {dist.get_rank()}, loss: {loss.item():.4f}")',
    "reward": 'print(f"reward: {rewards.mean():.4f}")',
    "kl": 'print(f"kl: {kl.mean():.5f}")',
    "entropy": 'print(f"entropy: {entropy.mean():.4f}")',
    "response_length": 'print(f"response_length: {lengths.float().mean():.1f}")',
    "total_steps": 'print(f"step: {step}/{total_steps}")',
}


@dataclass(frozen=True)
class Wanted:
    """A field that is not in the log: `line` of code that prints it (empty where none is known), the causes that it would
    decide about and the rules that need it, both by name."""

    column: str
    line: str
    causes: tuple[str, ...]
    rules: tuple[str, ...]
    text: Text


def to_log(causes: Iterable[Cause], missing: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[Wanted, ...]:
    """Return the fields worth printing, those that would decide about a cause first.

    causes: of all findings; missing: (rule, columns) for each rule that could not be applied, or only in part.
    """
    decides: dict[str, list[str]] = {}
    for cause in causes:
        for column in cause.unobservable:
            decides.setdefault(column, []).append(cause.name)
    needed: dict[str, list[str]] = {}
    for rule, columns in missing:
        for column in columns:
            needed.setdefault(column, []).append(rule)
    found = []
    for column in sorted(decides.keys() | needed.keys(), key=lambda c: (-len(decides.get(c, ())), -len(needed.get(c, ())), c)):
        names, rules = tuple(dict.fromkeys(decides.get(column, ()))), tuple(dict.fromkeys(needed.get(column, ())))
        found.append(Wanted(column, PRINT.get(column, ""), names, rules, _words(column, names, rules)))
    return tuple(found)


def _words(column: str, causes: tuple[str, ...], rules: tuple[str, ...]) -> Text:
    gaps = {"column": column, "causes": ", ".join(causes), "rules": ", ".join(rules)}
    if causes and rules:
        return Text(N_("Print {column}: it would decide about {causes}, and these rules need it: {rules}"), gaps)
    if causes:
        return Text(N_("Print {column}: it would decide about {causes}"), gaps)
    return Text(N_("Print {column}: without it these rules see nothing: {rules}"), gaps)
