"""Text of a log on its way to a chat or a mail: shown as it is, it calls nobody, links nowhere and is no markup."""

import re
import unicodedata

_TURNING = {*"\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\ufeff", *map(chr, range(0x202A, 0x202F))}
_TURNING |= {chr(code) for code in range(0x2066, 0x206A)}  # change the direction of what follows, or can't be seen
_HARMLESS = str.maketrans({"@": "＠", "<": "‹", ">": "›", "`": "'"})  # mentions, tags and quotes of every chat


def plain(text: str, most: int) -> str:
    """Return text on one line of at most `most` characters, without what chats or mail programs would act on."""
    seen = "".join(
        " " if unicodedata.category(mark) in ("Cc", "Cs") else mark for mark in text[: 4 * most] if mark not in _TURNING
    )
    line = " ".join(seen.translate(_HARMLESS).split())
    line = re.sub(r"://", ":/ /", line)  # no link
    line = line.replace("](", "] (")
    return line if len(line) <= most else line[: most - 1] + "…"
