"""What torch's own tools say about a script, beside what speedproof says: a Markdown table, a row a script.

    explain_comparison.py --cases DIR [--results DIR] [--python PYTHON] [--timeout 300] [NAME ...]

Each script is run twice, each time in a process of its own with an empty compile cache:

- ``torch._dynamo.explain``: ``torch.compile`` and ``Module.compile`` are replaced by something that remembers the
  target, and explains it with the arguments of its first call. The script goes on in eager mode, so that every target
  is reached.
- the counters: the script as it is; ``torch._dynamo.utils.counters`` are read when it has ended.

The scripts are those that ``expected.json`` in the folder names, or all ``*.py`` where there is no such file. ``NAME``:
only those whose name holds one of these texts. speedproof's columns are read from the verdict files ``SCRIPT.json`` (as
``speedproof run --json`` writes them) in ``--results``.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HEADER = (
    "script",
    "explain: graphs / breaks",
    "explain: reasons",
    "counters: breaks / unimplemented / limit",
    "speedproof: findings above info",
    "speedproof: breaks / recompiles",
    "speedproof: verdict",
)
REASON_LENGTH = 100

# --- in the process of the script ---------------------------------------------------------------------------------


def one_line(error: BaseException) -> str:
    """``TypeError: its first line``."""
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first.strip()}"


def run_script(script: str) -> str | None:
    """Run it as ``python script`` does; what it failed with, or None."""
    sys.argv = [script]
    sys.path[0] = str(Path(script).parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        return None if stop.code in (None, 0) else f"exit code {stop.code}"
    except Exception as error:  # noqa: BLE001 - the script's own failure is a result
        return one_line(error)
    return None


def explained(name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What ``torch._dynamo.explain`` says about one call."""
    import torch._dynamo

    try:
        said = torch._dynamo.explain(target)(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - explain runs the user's code, which may fail in any way
        torch._dynamo.reset()
        return {"target": name, "crash": one_line(error)}
    reasons = [{"text": str(r.reason), "line": _line(r.user_stack)} for r in said.break_reasons]
    return {"target": name, "graphs": said.graph_count, "breaks": said.graph_break_count, "reasons": reasons}


def _line(stack: Any) -> int | None:
    return stack[-1].lineno if stack else None


def explain_first_calls(write: Callable[[dict[str, Any]], None]) -> None:
    """Replace ``torch.compile`` and ``Module.compile``: each target's first call is explained, all calls are eager."""
    import torch
    from torch import nn

    def of_module(module: nn.Module) -> nn.Module:
        def first_call(*args: Any, **kwargs: Any) -> Any:
            module._compiled_call_impl = None
            write(explained(type(module).__name__, module, args, kwargs))
            return module._call_impl(*args, **kwargs)

        module._compiled_call_impl = first_call  # the slot that Module.compile() fills
        return module

    def of_function(function: Callable[..., Any]) -> Callable[..., Any]:
        seen = False

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            if not seen:
                seen = True
                write(explained(getattr(function, "__name__", "?"), function, args, kwargs))
            return function(*args, **kwargs)

        return call

    def compile_(model: Any = None, **_: Any) -> Any:
        if model is None:
            return compile_
        write({"requested": True})
        return of_module(model) if isinstance(model, nn.Module) else of_function(model)

    def compile_in_place(module: nn.Module, *_: Any, **__: Any) -> None:
        compile_(module)

    torch.compile = compile_  # type: ignore[assignment]
    nn.Module.compile = compile_in_place  # type: ignore[method-assign,assignment]


def held_counters() -> dict[str, Any]:
    from torch._dynamo.utils import counters

    breaks, unimplemented = dict(counters["graph_break"]), dict(counters["unimplemented"])
    texts = [*breaks, *unimplemented]
    return {
        "graph_break": sum(breaks.values()),
        "unimplemented": sum(unimplemented.values()),
        "limit": any("recompile limit" in text.lower() for text in texts),
    }


def child(what: str, script: str, out: str) -> None:
    """Write JSON lines to ``out``: what was explained or counted, and last how the script ended."""
    with open(out, "a", encoding="utf-8", buffering=1) as stream:

        def write(entry: dict[str, Any]) -> None:
            stream.write(json.dumps(entry) + "\n")

        if what == "explain":
            explain_first_calls(write)
        crash = run_script(script)
        if what == "count":
            write(held_counters())
        write({"ended": True, "script_crash": crash})
    sys.stdout.flush()
    os._exit(0)  # a script that failed may have left threads and processes behind


# --- in this process ----------------------------------------------------------------------------------------------


def ask(python: str, what: str, script: Path, timeout_s: float) -> list[dict[str, Any]]:
    """The entries that a process wrote; a last one ``stopped`` says why it did not come to its end."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "entries")
        line = [python, str(Path(__file__).resolve()), "--child", what, str(script), str(out)]
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/cache"}
        why = _wait(line, scratch, environment, timeout_s)
        lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    entries = [json.loads(text) for text in lines]
    return entries if entries and entries[-1].get("ended") else [*entries, {"stopped": why}]


def _wait(line: list[str], cwd: str, environment: dict[str, str], timeout_s: float) -> str:
    """Run in a group of its own, which is ended with it."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        line, cwd=cwd, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        return f"process died with code {process.wait(timeout_s)}"
    except subprocess.TimeoutExpired:
        return f"timed out after {timeout_s:.0f} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def how_it_ended(entries: list[dict[str, Any]]) -> Iterator[str]:
    last = entries[-1]
    if last.get("script_crash"):
        yield f"crashes: {shortened(last['script_crash'])}"
    if last.get("stopped"):
        yield last["stopped"]


def shortened(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first if len(first) <= REASON_LENGTH else first[: REASON_LENGTH - 3] + "..."


def explain_cells(entries: list[dict[str, Any]]) -> tuple[str, str]:
    targets = [e for e in entries if "target" in e]
    if not targets:
        asked = any(e.get("requested") for e in entries)
        nothing = "target never called" if asked else "script compiles nothing"
        return nothing, "; ".join(how_it_ended(entries)) or "-"
    counts = [_counts(t, named=len(targets) > 1) for t in targets]
    reasons = [_reason(r) for t in targets for r in t.get("reasons", [])]
    return "; ".join(counts), "; ".join([*reasons, *how_it_ended(entries)]) or "none"


def _counts(target: dict[str, Any], named: bool) -> str:
    before = f"{target['target']} " if named else ""
    if "crash" in target:
        return f"{before}crashes: {shortened(target['crash'])}"
    return f"{before}{target['graphs']} / {target['breaks']}"


def _reason(reason: dict[str, Any]) -> str:
    where = f" @ {reason['line']}" if reason["line"] else ""
    return shortened(reason["text"]) + where


def counter_cell(entries: list[dict[str, Any]]) -> str:
    held = next((e for e in entries if "graph_break" in e), None)
    parts = []
    if held is not None:
        parts.append(f"{held['graph_break']} / {held['unimplemented']} / {'hit' if held['limit'] else 'no'}")
    return "; ".join([*parts, *how_it_ended(entries)])


def speedproof_cells(result: dict[str, Any] | None) -> tuple[str, str, str]:
    if result is None:
        return ("no result", "-", "-")
    found = [f for f in result.get("findings", []) if f["severity"] != "info"]
    findings = dict.fromkeys(f"{f['slug']} @ {(f['where'] or {}).get('line', '?')}" for f in found)
    return "; ".join(findings) or "none", _breaks_and_recompiles(result), result["verdict"]["kind"]


def _breaks_and_recompiles(result: dict[str, Any]) -> str:
    """Of the script's own compile, else of plain torch.compile; ``-`` where a figure is not known."""
    by_id = {v["id"]: v for v in result.get("variants", [])}
    tried = [by_id[i] for i in ("as_written", "default") if i in by_id and by_id[i]["outcome"] != "skipped"]
    if not tried:
        return "-"
    figures = (tried[0]["graph_breaks"], tried[0]["recompiles"])
    return " / ".join("-" if f is None else str(f) for f in figures)


def read_result(folder: Path | None, script: Path) -> dict[str, Any] | None:
    file = folder / f"{script.name}.json" if folder is not None else None
    if file is None or not file.exists():
        return None
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except ValueError:  # being written just now
        return None


def row(script: Path, options: argparse.Namespace) -> str:
    explain = explain_cells(ask(options.python, "explain", script, options.timeout))
    counters = counter_cell(ask(options.python, "count", script, options.timeout))
    return as_row((script.name, *explain, counters, *speedproof_cells(read_result(options.results, script))))


def scripts_of(folder: Path, names: list[str]) -> list[Path]:
    expected = folder / "expected.json"
    listed = json.loads(expected.read_text(encoding="utf-8")) if expected.exists() else None
    scripts = sorted(folder.glob("*.py")) if listed is None else [folder / name for name in listed]
    return [s for s in scripts if not names or any(n in s.name for n in names)]


def as_row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(" ".join(c.split()).replace("|", "\\|") for c in cells) + " |"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has torch")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="for each process")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    print(as_row(HEADER))
    print("|" + "---|" * len(HEADER))
    for script in scripts_of(options.cases.resolve(), options.names):
        print(row(script, options), flush=True)


if __name__ == "__main__":
    main()
