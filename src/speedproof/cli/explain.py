"""``speedproof explain RUN [SLUG]``: findings with their source, and the page of one of them."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..analyse.findings import page_of, pages, slugs_of
from ..analyse.from_trace import findings_of, ledger_of
from ..analyse.places import user_files
from ..analyse.source import Sources
from ..errors import SpeedproofError
from ..model import CompileLog
from ..report.explain import Subject, render, render_json
from ..store import is_run, load_sources, read_sources, resolve_run
from ..trace import read_folder, read_ranks
from .report import RUN_HELP, result_of


def main(argv: Sequence[str]) -> int:
    """``speedproof explain``: tell what was found in a stored run."""
    p = argparse.ArgumentParser(prog="speedproof explain", description=__doc__)
    p.add_argument("run", type=Path, metavar="RUN", help=f"{RUN_HELP}; or a file or folder of TORCH_TRACE logs")
    p.add_argument("slug", nargs="?", metavar="SLUG", help="only this finding, and the page that explains it")
    p.add_argument("--json", action="store_true", help="one JSON object a line, one for each finding")
    options = p.parse_args(argv)
    subjects = _subjects(options.run)
    if options.slug is not None:
        _check(options.slug, subjects)
    if options.json:
        print(render_json(subjects, options.slug), end="")
    else:
        print(render(subjects, options.slug, color=sys.stdout.isatty()), end="")
    return 0


def _subjects(path: Path) -> list[Subject]:
    """A run, or each rank of a trace; what is neither is refused as no run."""
    run = resolve_run(path)
    logs = {} if is_run(run) else _traces(path)
    ranks = [_rank(str(path) if rank == path.name else f"{path}, {rank}", log) for rank, log in logs.items()]
    return ranks or [_run(run)]


def _traces(path: Path) -> dict[str, CompileLog]:
    if not path.exists():
        return {}
    try:
        return read_folder(path) if path.is_dir() else read_ranks(path)
    except OSError as error:
        raise SpeedproofError(
            "unreadable-trace", f"{path}: {error}.", "Name a folder or a file of its logs."
        ) from error


def _rank(name: str, log: CompileLog) -> Subject:
    """What a trace tells, with source where the files are on this machine too."""
    ledger = ledger_of(log)
    sources = Sources(read_sources(user_files(ledger)))
    return Subject(name, findings_of(ledger, sources), sources)


def _run(run: Path) -> Subject:
    result = result_of(run)
    step_ms = result.baseline.step_ms.mean if result.baseline.step_ms else None
    return Subject(str(run), result.findings, Sources(load_sources(run)), step_ms)


def _check(slug: str, subjects: Iterable[Subject]) -> None:
    """Raises ``SpeedproofError`` for a slug that no finding has, naming those that look like it."""
    if page_of(slug) is not None:
        return
    found = {f.slug for subject in subjects for f in subject.findings}
    if slug in found:  # by a later version, or an earlier one: there is no page, but the finding tells enough
        return
    known = sorted(found.union(*map(slugs_of, pages())))
    near = difflib.get_close_matches(slug, known, n=5, cutoff=0.5) or [k for k in known if slug in k][:5]
    hint = f"Did you mean: {', '.join(near)}?" if near else "Leave it out, and all findings of the run are listed."
    raise SpeedproofError("unknown-finding", f"There is no finding called {slug!r}.", hint)
