"""``speedproof report RUN --format ...``: a stored run again, from its raw events, without torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..analyse.conclude import conclude
from ..analyse.source import Sources
from ..errors import SpeedproofError
from ..model import Result
from ..report import FORMATS, render
from ..store import load_events, load_meta, load_result, load_sources, resolve_run

RUN_HELP = "a run directory, such as .speedproof/20261201-153012-train; or a folder of them, or latest: the newest"


def main(argv: Sequence[str]) -> int:
    """``speedproof report``: draw a stored run without measuring again."""
    p = argparse.ArgumentParser(prog="speedproof report", description="Render a stored run again.")
    p.add_argument("run", type=Path, help=RUN_HELP)
    p.add_argument("--format", choices=sorted(FORMATS), default="terminal")
    p.add_argument("--output", type=Path, help="write there instead of to the terminal")
    options = p.parse_args(argv)
    run = resolve_run(options.run)
    result, threshold = result_of(run), load_meta(run).threshold
    text = render(result, options.format, threshold=threshold, sources=Sources(load_sources(run)), run=str(run))
    if options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text)
    return 0


def result_of(run: Path) -> Result:
    """The stored verdict; for a run that was killed before it had one, what its events prove."""
    try:
        return load_result(run)
    except SpeedproofError as error:
        if error.slug != "no-verdict":
            raise
    events = load_events(run)
    meta = load_meta(run)
    last_s = max((e.at_s for e in events), default=meta.started_s)
    return conclude(meta, events, last_s - meta.started_s, interrupted=True, sources=Sources(load_sources(run)))
