"""Synchronise, time and weigh: the few things that differ between a CPU and an accelerator."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from typing import Any

import torch


class Device:
    """The kind of device the loop's networks live on: ``cpu``, ``cuda``, ``mps``, ``xpu``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.asynchronous = kind != "cpu"
        self._module: Any = getattr(torch, kind, None) if self.asynchronous else None

    def synchronize(self) -> None:
        """Wait until the device has done what it was told; nothing to wait for on a CPU."""
        if self._module is not None:
            self._module.synchronize()

    def mark(self) -> Any:
        """A timing event in the device's stream, or ``None`` where there is none."""
        if self.kind != "cuda":
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @staticmethod
    def between_ns(start: Any, end: Any) -> int | None:
        """Device time between two marks; both must have been reached (synchronise first)."""
        if start is None or end is None:
            return None
        return int(start.elapsed_time(end) * 1e6)

    def forget_peak(self) -> None:
        """Start a new peak-memory measurement."""
        if self.kind == "cuda":
            torch.cuda.reset_peak_memory_stats()
        elif sys.platform == "linux":
            try:
                with open("/proc/self/clear_refs", "w") as clear:
                    clear.write("5")  # proc(5): resets the peak resident set size
            except OSError:
                pass

    def peak_bytes(self) -> int | None:
        """Peak since ``forget_peak``: allocated device memory, or resident memory of this process on a CPU."""
        if self.kind == "cuda":
            return int(torch.cuda.max_memory_allocated())
        if sys.platform == "linux":
            return _status_bytes("VmHWM:")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return int(peak) if sys.platform == "darwin" else int(peak) * 1024

    def release_cached(self) -> None:
        """Give cached blocks back, so that one arm's cache does not starve the next."""
        if self.kind == "cuda":
            torch.cuda.empty_cache()


def _status_bytes(key: str) -> int | None:
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith(key):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cores() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _cxx() -> str:
    """The C++ compiler that Inductor would find, by name."""
    import shutil

    names = [os.environ.get("CXX", ""), "g++", "clang++", "c++", "cl"]
    return next((os.path.basename(n) for n in names if n and shutil.which(n)), "none")


_HELD_DOWN = ("sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown")


def card_facts(ask: Callable[[str], str]) -> dict[str, str]:
    """Whether others use the card, and whether its clocks are held down; what cannot be asked is left out.

    ``ask(query)`` is the answer of ``nvidia-smi`` to ``--query-QUERY``, as comma separated values.
    """
    facts = {}
    processes = [line for line in ask("compute-apps=pid").splitlines() if line.strip().isdigit()]
    others = [pid for pid in processes if int(pid) != os.getpid()]
    if processes or others:
        facts["device_processes"] = str(len(others))
    held = ask("gpu=" + ",".join(f"clocks_throttle_reasons.{name}" for name in _HELD_DOWN)).splitlines()
    states = [cell.strip() for cell in held[0].split(",")] if held else []
    active = [name for name, state in zip(_HELD_DOWN, states) if state == "Active"]
    if active:
        facts["device_throttled"] = ", ".join(active)
    return facts


def _ask_nvidia_smi(query: str) -> str:
    import subprocess

    try:
        line = ["nvidia-smi", f"--query-{query}", "--format=csv,noheader"]
        return subprocess.run(line, capture_output=True, text=True, timeout=5).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def environment_facts() -> dict[str, str]:
    """The allow-list of facts about this process that a report may show. Never paths, names or secrets."""
    import platform

    facts = {
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "machine": platform.machine(),
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
        "cores": str(_cores()),
        "cxx": _cxx(),
        "device": "cpu",
    }
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        facts |= {
            "device": f"cuda: {properties.name}",
            "devices": str(torch.cuda.device_count()),
            "capability": f"{properties.major}.{properties.minor}",
            "device_memory": f"{properties.total_memory / 2**30:.1f} GiB",
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
            **card_facts(_ask_nvidia_smi),
        }
    elif getattr(torch.backends, "mps", None) is not None and torch.backends.mps.is_available():
        facts["device"] = "mps"
    return facts
