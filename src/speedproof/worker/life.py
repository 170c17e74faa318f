"""The life of a worker process: get ready, run the user's program, say how it ended."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from types import TracebackType
from typing import Any

from .. import codec
from ..model import ScriptEnded, SessionSpec, SessionStarted, StepsSeen, TorchLoaded
from .arrival import Arrivals
from .channel import Channel
from .launch import run_command
from .places import LIBRARIES, place_of_error
from .safety import Keeper


class Worker:
    """What this process holds: the channel from the start, the session once torch has been imported."""

    def __init__(self, spec: SessionSpec, spec_path: str, is_child: bool) -> None:
        self.spec, self.spec_path, self.is_child = spec, spec_path, is_child
        self.channel = Channel(spec.events_path, spec.control_path)
        self.keeper = Keeper(self.channel, spec.scratch_dir, spec.cache_dir)
        self.session: Any = None
        self.discovery: Any = None

    def prepare(self) -> None:
        self.keeper.install()
        Arrivals(
            {
                "torch": self._torch_arrived,
                "torch.utils.tensorboard.writer": self.keeper.divert_summary_writer,
                "tensorboardX.writer": self.keeper.divert_summary_writer,
            }
        ).install()
        _follow_spawned(self.spec_path)

    def _torch_arrived(self, torch: Any) -> None:
        from .device import environment_facts
        from .discovery import Discovery
        from .observe import Observer
        from .session import Session
        from .sites import Sites
        from .switch import Switchboard
        from .watch import Watch

        self.keeper.divert_saves(torch)
        watch = Watch(lambda notice: self.discovery.noticed(notice), lambda: self.session.tick())
        sites = Sites(called=lambda site: watch.notice("site", site.index))
        watch.site_stack = sites.stack
        sites.unwatched = watch.unwatched
        self.session = Session(self.spec, self.channel, watch, Switchboard(watch, sites))
        self.session.is_child = self.is_child
        self.discovery = Discovery(
            self.session,
            watch,
            sites,
            self.spec.anatomy,
            self.spec.schedule.patience_s,
            self._claim,
            self.spec.schedule.training_ahead,
        )
        watch.install()
        sites.install()
        if self.spec.purpose == "observe" and self.spec.anatomy is not None:
            self.session.observer = Observer(watch, sites, self.channel.say, self.spec.anatomy)
            self.session.observer.install(self._begin_at_first_call)
        else:
            watch.surprised = self.session.training_found
        os.register_at_fork(after_in_child=self._forked)
        if not self.is_child:
            self.channel.say(TorchLoaded(time.time(), environment_facts(), LIBRARIES))

    def _begin_at_first_call(self) -> None:
        """The diagnosis pass begins with the first compiled call: nothing of discovery may be there by then."""
        if not self.session.started and not self.session.silent:
            self.discovery.begin_known()

    def _claim(self) -> bool:
        """Only one process of a session is measured: the first whose loop has been understood."""
        try:
            os.close(os.open(self.spec.events_path + ".owner", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return True
        except FileExistsError:
            self.session.watch.be_silent()
            return False

    def _forked(self) -> None:
        """A forked child may be the one that trains, unless its parent already is (design, fact 23)."""
        self.is_child = self.session.is_child = True
        if self.session.started:
            self.session.watch.be_silent()
            self.session.silence()

    def ended(self, code: int, error: BaseException | None) -> None:
        """The program came to its own end."""
        steps = self.session.steps if self.session is not None else 0
        if self.session is not None and self.session.silent:
            return
        if self.discovery is not None:
            anatomy = self.discovery.at_the_end()
            if anatomy is not None:
                self.discovery.say_partial(anatomy)
                steps = max(steps, self.discovery.steps_on_tape(anatomy))
        if self.session is not None:
            self.session.say_unfinished()
        self.channel.say(
            ScriptEnded(
                at_s=time.time(),
                code=code,
                error=type(error).__name__ if error is not None else "",
                message=str(error)[:2000] if error is not None else "",
                traceback=_own_traceback(error)[-12000:] if error is not None else "",
                where=place_of_error(error),
                steps=steps,
                arm=self.session.arm if self.session is not None else None,
            )
        )


def run(spec_path: str) -> None:
    """Run the session that ``spec_path`` describes in this process, and leave as the program would."""
    with open(spec_path) as file:
        spec = codec.loads(SessionSpec, file.read())
    worker = Worker(spec, spec_path, is_child=False)
    worker.channel.say(SessionStarted(time.time(), spec.session, os.getpid(), sys.executable, spec.purpose))
    worker.prepare()
    try:
        run_command(spec.command)
    except SystemExit as end:
        code = _exit_code(end)
        worker.ended(code, end if code else None)
        raise
    except BaseException as error:  # noqa: BLE001 - the border to the user's script
        worker.ended(1, error)
        _end_as_python_would(error)
    worker.ended(0, None)


def follow(spec_path: str) -> None:
    """Become a worker in a process that multiprocessing spawned: it may be the one that trains."""
    with open(spec_path) as file:
        spec = codec.loads(SessionSpec, file.read())
    worker = Worker(spec, spec_path, is_child=True)
    worker.prepare()
    from multiprocessing import util

    def last_words() -> None:
        if worker.session is not None and worker.session.started:
            worker.channel.say(StepsSeen(time.time(), worker.session.steps, worker.session.arm))

    util.Finalize(None, last_words, exitpriority=0)


def _follow_spawned(spec_path: str) -> None:
    """Processes started by multiprocessing's spawn get a worker too: some scripts train in one."""
    import multiprocessing.spawn as spawn

    plain = spawn.get_command_line
    bootstrap = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap.py")
    prelude = (
        f"import runpy; runpy.run_path({bootstrap!r}, run_name='speedproof_follow')['load_package'](); "
        f"from speedproof.worker.life import follow; follow({spec_path!r}); "
    )

    def get_command_line(**kwargs: Any) -> list[str]:
        line = plain(**kwargs)
        if "-c" in line:
            line[line.index("-c") + 1] = prelude + line[line.index("-c") + 1]
        return line

    spawn.get_command_line = get_command_line


def _exit_code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    return end.code if isinstance(end.code, int) else 1


def _end_as_python_would(error: BaseException) -> None:
    """The script's own excepthook, our frames left out; then status 1, or death by SIGINT."""
    error.__traceback__ = _own_frames(error)  # the default hook shows this, not its argument
    sys.excepthook(type(error), error, error.__traceback__)
    if isinstance(error, KeyboardInterrupt):
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    sys.exit(1)


def _own_traceback(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"SystemExit: {error.code}\n"
    return "".join(traceback.format_exception(type(error), error, _own_frames(error)))


def _own_frames(error: BaseException) -> TracebackType | None:
    """The traceback from the user's first line on: the frames that launched it are ours."""
    trace = error.__traceback__
    here = os.path.dirname(os.path.abspath(__file__))
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(here):
        trace = trace.tb_next
    return trace
