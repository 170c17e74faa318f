"""Do no harm: checkpoints go to a scratch folder, trackers are off, what stood in a file before is kept.

One audit hook sees every file that Python opens for writing, removes or renames. Before an existing file is
touched, a copy of it is made and noted in ``kept.jsonl``; when the session is over the guard puts it back.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import tempfile
import time
from types import ModuleType
from typing import Any

from ..model import FileTouched
from .channel import Channel

LARGEST_COPY_BYTES = 2 << 30
_WATCHED = frozenset({"open", "os.remove", "os.rename", "os.truncate", "shutil.rmtree", "os.rmdir"})
_CACHES = ("__pycache__", "/torchinductor_", "/.triton/")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC


class Keeper:
    """Notes what the script writes, and keeps what it writes over."""

    def __init__(self, channel: Channel, scratch_dir: str, cache_dir: str) -> None:
        self._channel = channel
        self._kept_dir = os.path.join(scratch_dir, "kept")
        self._manifest = os.path.join(scratch_dir, "kept.jsonl")
        self._ours = tuple(os.path.realpath(p) + os.sep for p in (os.path.dirname(scratch_dir), cache_dir))
        self._temporary = os.path.realpath(tempfile.gettempdir()) + os.sep
        self._since = time.time()
        self._seen: set[str] = set()
        self._busy = False
        self._diverted: dict[str, str] = {}
        self._scratch = scratch_dir

    def install(self) -> None:
        def audit(event: str, args: tuple[Any, ...]) -> None:
            if event in _WATCHED and not self._busy:
                self._busy = True
                try:
                    self._touched(event, args)
                except (OSError, ValueError, TypeError):
                    pass  # an observer must not make the script's own call fail
                finally:
                    self._busy = False

        sys.addaudithook(audit)

    def _touched(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITES)
            if not writes or isinstance(path, int):
                return
            self._keep(path, "changed")
        elif event == "shutil.rmtree":
            for folder, _, files in os.walk(args[0]):
                for name in files:
                    self._keep(os.path.join(folder, name), "removed")
        elif event == "os.rename":
            self._keep(args[0], "removed")
            self._keep(args[1], "changed")
        elif event != "os.rmdir":
            self._keep(args[0], "removed" if event == "os.remove" else "changed")

    def _keep(self, path: Any, how: Any) -> None:
        real = os.path.realpath(os.fsdecode(path))
        if real in self._seen or real.startswith((*self._ours, "/dev/", "/proc/", "/sys/")):
            return
        if any(part in real for part in _CACHES) or len(self._seen) > 10_000 or os.path.isdir(real):
            return
        self._seen.add(real)
        kept = self._copy(real) if os.path.isfile(real) and os.stat(real).st_ctime < self._since else None
        if kept is None and os.path.isfile(real) and os.stat(real).st_ctime >= self._since:
            return  # made in this session, by a compiler or another child of the script
        if kept is None and (how == "removed" or real.startswith(self._temporary)):
            return
        self._channel.say(FileTouched(time.time(), real, how if os.path.lexists(real) else "created", kept))

    def _copy(self, real: str) -> str | None:
        if os.path.getsize(real) > LARGEST_COPY_BYTES:
            return None
        os.makedirs(self._kept_dir, exist_ok=True)
        kept = os.path.join(self._kept_dir, f"{os.getpid()}-{len(self._seen)}-{os.path.basename(real)[:80]}")
        shutil.copy2(real, kept)
        self._note({"path": real, "kept": kept})
        return kept

    def _note(self, entry: dict[str, str | None]) -> None:
        with open(self._manifest, "a") as manifest:
            manifest.write(json.dumps(entry) + "\n")

    # --- diversions ------------------------------------------------------------------------------------

    def divert_saves(self, torch: Any) -> None:
        """``torch.save`` to a path goes to the scratch folder; ``torch.load`` of that path comes from there."""
        save, load = torch.save, torch.load

        @functools.wraps(save)
        def save_elsewhere(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            return save(obj, self._elsewhere(f), *args, **kwargs)

        @functools.wraps(load)
        def load_from_there(f: Any, *args: Any, **kwargs: Any) -> Any:
            return load(self._diverted.get(_path(f) or "", f), *args, **kwargs)

        torch.save, torch.load = save_elsewhere, load_from_there

    def _show(self, path: str, scratch: str) -> None:
        """Put a link to the diverted file where the script expects it: scripts copy and rename their checkpoints.

        The guard takes the link away, or puts back what stood there.
        """
        try:
            if os.path.lexists(path):
                self._keep(path, "changed")
                os.unlink(path)
            else:
                self._note({"path": path, "kept": None, "link": scratch})
            os.symlink(scratch, path)
        except OSError:
            pass  # a file system without links: torch.load still finds it

    def _elsewhere(self, f: Any) -> Any:
        path = _path(f)
        if path is None or path.startswith(self._ours):
            return f
        if not os.path.isdir(os.path.dirname(path)):
            return f  # torch.save's own error is the right answer
        if path not in self._diverted:
            folder = os.path.join(self._scratch, "saved", str(len(self._diverted)))
            os.makedirs(folder, exist_ok=True)
            self._diverted[path] = os.path.join(folder, os.path.basename(path))
            self._busy = True
            try:
                self._show(path, self._diverted[path])
            finally:
                self._busy = False
            self._channel.say(FileTouched(time.time(), path, "diverted", None))
        return self._diverted[path]

    def divert_summary_writer(self, module: ModuleType) -> None:
        """TensorBoard has no switch in the environment: its files go to the scratch folder."""
        writer: Any = module.SummaryWriter
        start = writer.__init__

        @functools.wraps(start)
        def start_elsewhere(this: Any, *args: Any, **kwargs: Any) -> None:
            for name in ("log_dir", "logdir"):
                kwargs.pop(name, None)
            folder = os.path.join(self._scratch, "tensorboard", str(time.time_ns()))
            start(this, folder, *args[1:], **kwargs)

        writer.__init__ = start_elsewhere


def _path(f: Any) -> str | None:
    return os.path.realpath(os.fsdecode(f)) if isinstance(f, (str, bytes, os.PathLike)) else None
