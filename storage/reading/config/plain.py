"""Plain blocks of settings: indented `key: value` (YAML, yacs), `key = value`, and `key:value key:value` on one line.

They look like printed records, so a block with a measured name (`loss: 2.3`) is none, unless it has sections of its own.
"""

import re
from collections.abc import Iterable, Iterator

from storage.reading.config.values import Value, flat, literal, value_of

_YAML = re.compile(r"^(\s*)(?:- )?([A-Za-z_][\w./-]{0,80}(?: [\w./()-]{1,30}){0,3}?)\s*:(?:\s+(.*?))?\s*$")
_ASSIGNED = re.compile(r"^\s*([A-Za-z_][\w./-]{0,80})\s*=\s*([^=\s].*?),?\s*$")
_COLONS = re.compile(r"^\s*[A-Za-z_][\w./-]{0,80}:[^\s:/]\S*(?:\s+[A-Za-z_][\w./-]{0,80}[:=]\S+)*\s*$")
_COLON = re.compile(r"([A-Za-z_][\w./-]{0,80})[:=](\S+)")
_STATED = re.compile(r"^(?:Inherited|Using|Overriding|Setting|Set|Override) ([a-z_][\w.]{0,80})\s*=\s*(\S{1,200})")
_HEADING = re.compile(r"config(?:uration)?|arguments|args\b|hyper-?param|h?params\b|settings|options|flags|参数|配置", re.I)
_CODE = re.compile(
    r"^\s*(?:(?:def|class)\s+\w|import\s+\w|from\s+\S+\s+import\b|return\b|raise\b|yield\b|(?:else|try|finally):"
    r"|(?:if|elif|for|while|with|except)\b.*:\s*(?:#.*)?$|self\.|@\w|#|\"\"\"|'''|print\w*\(|[\w.]+\(.*\)\s*$"
    r"|[\w.]+ = \w[\w.]*\(|Traceback \(|File \")"
)
_NO_VALUE = re.compile(
    r"\w\(|\d+it \[|\d%\||\blambda\b|: |\w=|\s#\s|:$|^\\|\b(?:loss|ppl|acc|lr|grad_norm)\b|\bfor\b.*\bin\b|[{}\[]$"
)
_NO_KEY = re.compile(
    r"^(?:warning|info|error|debug|note|usage|hint|todo|fixme|https?|tip|rank|node|file|line|nohup|wandb)s?\b"
    r"|^(?:step|iter|iteration|epoch|batch|update|time|date)\s+[\d\[(#]"
    r"|\d{3,}|^(?:the|this|please|if|see|and|or|for|to|in|it|we)\b",
    re.I,
)
_MEASURED = re.compile(
    r"^(?:(?:train|eval|val|valid|test|avg|mean|running|lm|total|current|last)[_/ -]?)*"
    r"(?:step|iter|iteration|epoch|lr|learning[_ ]rate|grad[_ ]?norm|gnorm|ppl|perplexity|acc|accuracy|rewards?|kl|entropy"
    r"|bpb|mfu|eta|time|elapsed|speed|throughput|tokens?[/_]s(?:ec)?|tok/sec|it/s|memory|mem|score|bleu|f1|auc|dice|m?iou|psnr"
    r"|time[_ ]elapsed|(?:data|batch)[_ ]time|progress|step[_ ]avg)$|loss",
    re.I,
)


_ASSIGNMENT = re.compile(r"([A-Za-z_][\w./-]{0,80})\s?[=:]\s?([^\s,;|]+)")
_ASSIGNMENTS = re.compile(rf"(?:{_ASSIGNMENT.pattern.replace('(', '(?:')}(?:[\s,;|]+|$)){{3,}}")
_NAMED = re.compile(
    r"^\s*(?:\w+ )?(?:config(?:uration)?|arg(?:ument)?s|h(?:yper)?-?_?params?|settings|options)\b\s*[:=]\s*", re.I
)
_USUAL = re.compile(
    r"^(?:lr|learning_rate|min_lr|max_lr|(?:micro_|global_|train_)?batch_size|seed|(?:num_|max_|n_)?epochs|max_(?:steps|iters)"
    r"|total_steps|warmup(?:_steps|_iters|_ratio)?|weight_decay|optimi[sz]er|dropout|d_model|hidden_size|n_?(?:layers?|heads?|embd)"
    r"|num_(?:layers|heads|hidden_layers|attention_heads)|vocab_size|(?:max_)?seq_len(?:gth)?|max_length|block_size|dtype"
    r"|grad(?:ient)?_accum(?:ulation)?_steps|grad_clip|scheduler|model(?:_name)?|dataset)$",
    re.I,
)
_RESULT = re.compile(r"loss|perplexity|^ppl$|grad[_ ]?norm|^acc(?:uracy)?$|^steps?$|^iteration$", re.I)  # never a setting


def belongs(text: str) -> bool:
    """Return whether a line may be part of a plain block."""
    return bool(_parsed(text)) or bool(_COLONS.match(text))


def is_heading(text: str) -> bool:
    """Return whether a line announces settings."""
    return bool(_HEADING.search(text))


def is_code(text: str) -> bool:
    """Return whether a line looks like source code or a traceback: what follows is no configuration."""
    return bool(_CODE.match(text))


def single(text: str) -> Iterator[tuple[str, Value]]:
    """Yield the setting of a line such as `Using max_len=128`."""
    if found := _STATED.match(text):
        yield found[1], value_of(found[2])


def on_one_line(text: str) -> Iterator[tuple[str, Value]]:
    """Yield the settings of a line that holds nothing else: `lr=3e-4 batch_size=8 seed=1`, or one JSON object.

    A line without a word such as `config` before them must name two settings that every training has.
    """
    named = _NAMED.match(text)
    rest = text[named.end() :] if named else text
    if rest.lstrip().startswith("{"):
        data = literal(rest.strip())
        found = list(flat(data)) if isinstance(data, dict) else []
    else:
        whole = _ASSIGNMENTS.fullmatch(rest.strip())
        found = [(key, value_of(value)) for key, value in _ASSIGNMENT.findall(rest)] if whole else []
    usual = sum(bool(_USUAL.search(key.rsplit("/", 1)[-1])) for key, _ in found)
    if len(found) >= 3 and usual >= (1 if named else 2) and not any(_measured(key, value, _RESULT) for key, value in found):
        yield from found


def settings(body: Iterable[str], *, headed: bool) -> Iterator[tuple[str, Value]]:
    """Yield (key, value) of a block, keys of sections joined with `/`; nothing where the block looks like a record."""
    rows = [row for line in body if (row := _parsed(line))]
    sectioned = any(not value for _, _, value in rows) and len(rows) >= 5
    joined = list(_joined(rows))
    measured = any(_measured(key.rsplit("/", 1)[-1], value, _RESULT if headed else _MEASURED) for key, value in joined)
    if (sectioned or not measured) and (headed or sectioned or len(joined) >= 6):
        yield from joined
    for line in body:
        if _COLONS.match(line) and not _parsed(line):
            given = [(key, value_of(value)) for key, value in _COLON.findall(line)]
            if not any(_measured(key, value, _MEASURED) or _NO_KEY.search(key) for key, value in given):
                yield from given


def _measured(key: str, value: Value, names: re.Pattern[str]) -> bool:
    return not isinstance(value, str | bool) and bool(names.search(key))


def _parsed(line: str) -> tuple[int, str, str] | None:
    """Return (indentation, key, value) of a line with one setting, an empty value opens a section; None for anything else."""
    assigned = _ASSIGNED.match(line)
    found = None if assigned else _YAML.match(line)
    if assigned is None and found is None:
        return None
    indent = len(line) - len(line.lstrip())
    key, value = (assigned[1], assigned[2]) if assigned else (found[2], found[3] or "")  # type: ignore[index]
    return None if _NO_KEY.search(key) or _NO_VALUE.search(value) else (indent, key, value)


def _joined(rows: Iterable[tuple[int, str, str]]) -> Iterator[tuple[str, Value]]:
    """Yield (key, value), keys below a section joined to its name with `/`."""
    sections: list[tuple[int, str]] = []
    for indent, key, value in rows:
        while sections and sections[-1][0] >= indent:
            sections.pop()
        if value:
            yield "/".join([*(name for _, name in sections), key]), value_of(value)
        elif len(sections) < 12:
            sections.append((indent, key))
