"""Lines out, lines in: events appended to one file, wishes of the driver read from another.

Every event is one ``write`` to a file opened for appending, so that nothing said is lost when the process is
killed, and several processes of one session may speak.
"""

from __future__ import annotations

import os

from .. import codec
from ..model import Control, Event


class Channel:
    """The two files between worker and driver: events out, control in."""

    def __init__(self, events_path: str, control_path: str) -> None:
        self._fd = os.open(events_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._control_path = control_path
        self._read = 0

    def say(self, event: Event) -> None:
        os.write(self._fd, codec.encode_line(event).encode() + b"\n")

    def wishes(self) -> list[Control]:
        """What the driver has written since the last call. Costs one ``stat`` when there is nothing."""
        try:
            if os.stat(self._control_path).st_size <= self._read:
                return []
        except FileNotFoundError:
            return []
        with open(self._control_path, "rb") as control:
            control.seek(self._read)
            whole = control.read().rpartition(b"\n")[0]
        self._read += len(whole) + 1 if whole else 0
        return [codec.loads(Control, line) for line in whole.decode().splitlines()]
