"""Command-line flags as argparse reads them: `--k v`, `--k=v`, `--k_x`, `--x` / `--no-x` (field case E3)."""

from collections.abc import Sequence


def flag_name(word: str) -> str | None:
    """The flag that a word sets, spelling and negation taken off; None for a value."""
    if not word.startswith("--") or len(word) == 2:
        return None
    name = word[2:].partition("=")[0].replace("_", "-")
    return name.removeprefix("no-") or None


def _groups(words: Sequence[str]) -> list[tuple[str | None, tuple[str, ...]]]:
    """(flag, its words) in order; a flag's values are the words up to the next flag."""
    groups: list[tuple[str | None, tuple[str, ...]]] = []
    for word in words:
        name = flag_name(word)
        # A negative number or a short flag is a value or stands alone; it stays with what precedes it.
        if name is None and groups:
            flag, before = groups[-1]
            groups[-1] = (flag, (*before, word))
        else:
            groups.append((name, (word,)))
    return groups


def merge_flags(words: Sequence[str]) -> tuple[str, ...]:
    """Each flag once, the last one said, at the place where it was said last. Order of the rest is kept."""
    groups = _groups(words)
    last = {flag: index for index, (flag, _) in enumerate(groups) if flag is not None}
    return tuple(
        word
        for index, (flag, group) in enumerate(groups)
        if flag is None or last[flag] == index
        for word in group
    )


def flag_value(words: Sequence[str], flag: str) -> str | None:
    """What the last word for that flag says, "" for a switch that is on and "no" for one that is off; None: unsaid."""
    for name, group in reversed(_groups(words)):
        if name == flag:
            head, equals, value = group[0].partition("=")
            if head[2:].replace("_", "-") != flag:
                return "no"
            return value if equals else " ".join(group[1:])
    return None


def flag_names(words: Sequence[str]) -> frozenset[str]:
    """Every flag that the words set."""
    return frozenset(name for word in words if (name := flag_name(word)) is not None)
