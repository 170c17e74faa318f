"""Memory and speed of reading a large trace file.

    trace_memory.py [--mb 1024] [--seed 0]

Writes a trace of that size into a temporary folder: records of the kinds and sizes that torch writes (graph dumps,
generated code, guards, timing events, and among them breaks, recompiles and metrics), reads it in a process of its
own, and prints what that took as JSON. ``peak_bytes`` is the most memory that process ever held, ``idle_bytes`` what
one holds that has imported the reader and read nothing. Linux only: the figures are ``VmHWM``, since ``ru_maxrss``
outlives ``exec`` and is never below what the parent held.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src"
MB = 1024 * 1024

READER = """
import json, re, sys, time
from speedproof.trace import read_file
held = lambda: int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
idle, begin, cpu = held(), time.perf_counter(), time.process_time()
log = read_file(sys.argv[1])
print(json.dumps({"idle_bytes": idle, "peak_bytes": held(), "seconds": time.perf_counter() - begin,
    "cpu_seconds": time.process_time() - cpu,
    "found": {k: getattr(log, k) for k in ("frames", "graphs", "ops")} | {"breaks": len(log.breaks)}}))
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--mb", type=int, default=1024)
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dedicated_log_torch_trace_rank_0_bench.log"
        frames = write(file, chosen.mb * MB, random.Random(chosen.seed))
        answer = read(file)
        size = file.stat().st_size
    answer["written"] = {"bytes": size, "frames": frames}
    answer["mb_per_s"] = round(size / MB / answer["seconds"], 1)
    answer["mb_per_cpu_s"] = round(size / MB / answer["cpu_seconds"], 1)  # what a machine without other load would do
    print(json.dumps(answer, indent=1))


def read(file: Path) -> dict[str, Any]:
    """What the reading process has to say; its ``seconds`` are those of reading alone."""
    line = [sys.executable, "-c", READER, str(file)]
    told = subprocess.run(
        line, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True, timeout=600
    )
    return json.loads(told.stdout)


def write(file: Path, size: int, dice: random.Random) -> int:
    """A trace of at least ``size`` bytes; the number of frames in it."""
    dumps = [indented(graph(n)) for n in (20, 200, 1000, 5000)]  # made once: the text itself does not matter
    frame = 0
    with open(file, "w", encoding="utf-8") as out:
        while out.tell() < size:
            out.writelines(compile_of(frame, dice, dumps))
            frame += 1
    return frame


def compile_of(frame: int, dice: random.Random, dumps: list[str]) -> list[str]:
    """All that one compile of one frame writes."""
    ids = {"frame_id": frame, "frame_compile_id": 0, "attempt": 0}
    stack = [{"line": 5, "name": "<module>", "filename": frame % 300}, {"line": 9, "name": "f", "filename": 1}]
    dump = dice.choices(dumps, weights=(40, 40, 15, 5))[0]
    parts = [
        record({"str": [f"/project/file{frame % 300}.py", frame % 300]}),
        record({"dynamo_start": {"stack": stack}, **ids}),
        *(record({"describe_tensor": {"id": i, "size": [64, 64]}, **ids}) for i in range(60)),
        *(record({"chromium_event": {}, **ids}) + indented(EVENT) for _ in range(150)),
    ]
    if frame % 3 == 0:
        parts.append(record({"artifact": {"name": "dynamo_graph_break_reason"}, **ids}) + indented(graph_break(frame)))
    if frame % 4 == 0:
        again = {**ids, "frame_compile_id": 1}
        parts.append(
            record({"artifact": {"name": "recompile_reasons"}, **again}) + indented(f"{frame}/0: size mismatch")
        )
    for kind in ("dynamo_output_graph", "aot_joint_graph", "aot_forward_graph", "aot_backward_graph"):
        parts.append(record({kind: {}, **ids}) + dump)
    parts += [record({"artifact": {"name": name}, **ids}) + dump for name in ("fx_graph_runnable", "graph_cache_key")]
    parts += [record({"inductor_output_code": {}, **ids}) + dump, record({"dynamo_cpp_guards_str": {}, **ids}) + dump]
    parts.append(record({"compilation_metrics": {**METRICS, "co_firstlineno": frame}, **ids}))
    return parts


EVENT = '{\n"name": "backend_compile",\n"ts": 1796299550762620.5,\n"args": {\n"compile_id": "0/0"\n},\n"ph": "B"\n}'
METRICS = {
    "co_name": "f",
    "co_filename": "/project/file1.py",
    "graph_op_count": 7,
    "entire_frame_compile_time_s": 1.5,
    "inductor_config": "x" * 16_000,  # torch writes its whole configuration into each
}


def record(metadata: dict[str, object]) -> str:
    return f"V1203 12:00:00.123456 4711 torch/_dynamo/utils.py:2022] {json.dumps(metadata)}\n"


def indented(payload: str) -> str:
    return "".join(f"\t{line}\n" for line in payload.split("\n"))


def graph(operations: int) -> str:
    lines = ["class GraphModule(torch.nn.Module):", "    def forward(self, x):"]
    for i in range(operations):
        lines.append(f"        # File: /project/file1.py:{i % 90} in f, code: x = self.layer(x) + 1")
        lines.append(f'        add_{i}: "f32[64, 64][64, 1]cuda:0" = torch.ops.aten.add.Tensor(add_{i - 1}, {i})')
    return "\n".join(lines)


def graph_break(frame: int) -> str:
    own = '  File "/venv/torch/_dynamo/symbolic_convert.py", line 1105, in wrapper\n    return inner(self)\n' * 20
    return (
        f"Graph break in user code at /project/file1.py:{frame}\nGraph Break Reason: Data-dependent branching\n"
        "  Explanation: Detected data-dependent branching.\n  Hint: Use `torch.cond`.\n\nUser code traceback:\n"
        f'  File "/project/file1.py", line {frame}, in f\n    if x:\n\nTraceback (most recent call last):\n{own}'
    )


if __name__ == "__main__":
    main()
