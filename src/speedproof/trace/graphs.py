"""From which lines of the source the operations of a graph come: the text of ``dynamo_output_graph``."""

from __future__ import annotations

import re
from collections import Counter

from .values import text

MOST_LINES = 30  # the lines with the most operations, for each graph
_MOST_SEEN = 20_000

_ORIGIN = re.compile(r"\s*# File: (.{1,1024}):(\d{1,9}) in ")
_OPERATION = re.compile(r"\s*\w+(?:: \"[^\"]*\")? = (.*)")
_NO_OPERATION = re.compile(r"\w+(?:\.\w+)*(?:;|$)")  # an alias of an input or of a parameter


def operations_by_line(source: str) -> dict[str, int]:
    """Operations by ``file:line``, from a graph printed as Python; each follows a comment with its origin.

    Operations before the first such comment are not counted. Of many lines, the ``MOST_LINES`` busiest are given.
    """
    counts: Counter[str] = Counter()
    origin = ""
    for line in source.splitlines():
        if found := _ORIGIN.match(line):
            origin = f"{text(found[1])}:{int(found[2])}" if len(counts) < _MOST_SEEN else ""
        elif origin and (operation := _OPERATION.match(line)) and not _NO_OPERATION.match(operation[1]):
            counts[origin] += 1
    return dict(counts.most_common(MOST_LINES))
