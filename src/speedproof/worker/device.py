"""Synchronise, time and weigh: the few things that differ between a CPU and an accelerator."""

from __future__ import annotations

import os
import resource
import sys
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
        }
    elif getattr(torch.backends, "mps", None) is not None and torch.backends.mps.is_available():
        facts["device"] = "mps"
    return facts
