"""``speedproof run [options] SCRIPT.py [args...]`` or ``-m MODULE [args...]``: the main job."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from .. import __version__
from ..config import Options, options_of
from ..engine import Engine, Surroundings
from ..errors import SpeedproofError
from ..execute.environment import TRACKERS_OFF
from ..execute.local import LocalExecutor, run_plain
from ..model import SCHEMA_VERSION, Command, Result, RunMeta
from ..plan.arms import named_arms, standard_arms
from ..store import RunStore
from .board import Board, Lines, Silence


def parser() -> argparse.ArgumentParser:
    """Options of the main job. All defaults are ``None``: the environment and pyproject.toml come next."""
    p = argparse.ArgumentParser(
        prog="speedproof run",
        usage="speedproof run [options] SCRIPT.py [args...]\n       speedproof run [options] -m MODULE [args...]",
        description="Measure an unchanged PyTorch script, try torch.compile on its live loop, and decide.",
        epilog="Options stand before the script; everything after it belongs to the script.",
    )
    p.add_argument("--budget", metavar="TIME", help="wall time to spend, such as 90s or 10m (default 10m)")
    p.add_argument("--steps", metavar="N", help="planned length of the real job, for the break-even")
    p.add_argument("--threshold", metavar="SHARE", help="the gain that makes compile worth it (default 5%%)")
    p.add_argument("--variants", metavar="LIST", help="comma list (default,reduce-overhead,...) or a .json file")
    p.add_argument("--python", metavar="PATH", help="the interpreter of the project (default: this one)")
    p.add_argument("--out", metavar="DIR", help="run directory (default: a new one under .speedproof/)")
    p.add_argument("--json", metavar="FILE", help="write the verdict file there too")
    p.add_argument("--html", metavar="FILE", help="write the report as one HTML page")
    p.add_argument("--seed", metavar="N", help="seed of the order of the arms (default 0)")
    p.add_argument("--quiet", action="store_const", const="true", help="print the verdict only")
    p.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    return p


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our options, and the script's words: from the first word that is no option of ours on."""
    takes_value = {
        f"--{n}" for n in ("budget", "steps", "threshold", "variants", "python", "out", "json", "html", "seed")
    }
    i = 0
    while i < len(argv):
        word = argv[i]
        if word == "-m":
            return list(argv[: i + 2]), list(argv[i + 2 :])
        if word == "--":
            return list(argv[:i]), list(argv[i + 1 :])
        if not word.startswith("-"):
            break
        i += 2 if word in takes_value else 1
    return list(argv[:i]), list(argv[i:])


def main(argv: Sequence[str]) -> int:
    """``speedproof run``: returns the exit code of the verdict."""
    ours, theirs = split(argv)
    given = vars(parser().parse_args(ours))
    module = given.pop("module")
    command = command_of(module, theirs)
    return measure(command, options_of(given, os.environ, Path.cwd()))


def command_of(module: str | None, words: list[str]) -> Command:
    """The user's command line. Raises ``SpeedproofError`` when there is no script to run."""
    if module is not None:
        return Command(None, module, tuple(words))
    if not words:
        raise SpeedproofError("no-script", "no script was named", "speedproof run train.py [args]; see --help")
    if not os.path.exists(words[0]):
        raise SpeedproofError("no-such-script", f"{words[0]}: no such file", "options of speedproof stand before it")
    return Command(words[0], None, tuple(words[1:]))


def measure(command: Command, options: Options, environment: dict[str, str] | None = None) -> int:
    """Run the main job and say what came out; returns the exit code."""
    _check_targets(options)
    base = Path(".speedproof")
    meta = _meta(command, options)
    store = RunStore.create(base, meta, Path(options.out) if options.out else None)
    view = _view(options)
    child_environment = dict(os.environ if environment is None else environment)
    executor = LocalExecutor(store.path, options.python, os.getcwd(), child_environment)

    def plain_run(timeout_s: float, terminal: bool) -> int | None:
        log = store.path / ("plain-in-terminal.log" if terminal else "plain.log")
        silenced = {**child_environment, **TRACKERS_OFF}
        words = list(command.words())
        return run_plain(options.python, words, os.getcwd(), silenced, timeout_s, log, terminal)[0]

    world = Surroundings(
        executor=executor,
        clock=time.time,
        plain_run=plain_run,
        view=view,
        worker_environment=TRACKERS_OFF,
        explicit_arms=options.variants is not None,
    )
    with executor, view:
        result = Engine(meta, store, world).run()
    _publish(result, options, store)
    return result.exit_code


def _check_targets(options: Options) -> None:
    """Fail before the first process starts, not after ten minutes."""
    for target in (options.json, options.html):
        if target is not None and not Path(target).absolute().parent.is_dir():
            raise SpeedproofError("no-such-folder", f"{target}: its folder does not exist", "make it, or name another")


def _meta(command: Command, options: Options) -> RunMeta:
    arms = standard_arms() if options.variants is None else named_arms(options.variants)
    return RunMeta(
        schema_version=SCHEMA_VERSION,
        version=__version__,
        command=command,
        cwd=os.getcwd(),
        python=options.python,
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        started_s=time.time(),
        budget_s=options.budget_s,
        threshold=options.threshold,
        planned_steps=options.planned_steps,
        seed=options.seed,
        arms=arms,
        environment={"speedproof": __version__, "cpus": str(os.cpu_count())},
    )


def _view(options: Options) -> Board | Lines | Silence:
    if options.quiet:
        return Silence()
    return Board(options.budget_s) if sys.stderr.isatty() else Lines(options.budget_s)


def _publish(result: Result, options: Options, store: RunStore) -> None:
    from ..analyse.source import Sources
    from ..report import render
    from ..report.words import verdict_words
    from ..store import load_sources

    sources = Sources(load_sources(store.path))
    if options.json is not None:
        Path(options.json).write_text(render(result, "json"))
    if options.html is not None:
        Path(options.html).write_text(render(result, "html", threshold=options.threshold, sources=sources))
    if options.quiet:
        print(verdict_words(result.verdict))
        return
    from ..report import terminal

    run = os.path.relpath(store.path)
    print(f"run: {run}")
    print(terminal.render(result, color=sys.stdout.isatty(), sources=sources, run=run), end="")
