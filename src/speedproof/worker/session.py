"""The life of a session, as one generator that gets each finished step: phases, then arm after arm.

A step is regular when it calls the switched modules in the modes of training alone; a step with an evaluation in
it, or with batches of another loader, is left out of every block.
"""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Generator
from typing import Literal

from ..model import (
    PHASES,
    Anatomy,
    AnatomyFound,
    Arm,
    ArmClosed,
    ArmEnd,
    ArmReady,
    ArmStarted,
    ArmWarming,
    Block,
    CompileLog,
    Memory,
    PhasesMeasured,
    SessionDone,
    SessionSpec,
    StepsSeen,
    TrainingFound,
)
from . import compat
from .anatomy import is_site_boundary
from .channel import Channel
from .compile_log import CompileClock
from .device import Device
from .kernels import Comparison
from .look import Look
from .observe import Observer
from .sightings import Sightings
from .steps import Step, Steps, WarmUp, why_nothing
from .switch import Switchboard
from .watch import Watch

MEMORY_PAIRS = 3  # resetting the peak costs a system call: do it for the first pairs only
SHORTEST_CHECK_NS = 20_000_000  # how often the control file is looked at, at most
RESERVED_STEPS = 3
LOOK_STEPS = 3
WASHOUT_STEPS = 1
WAITING_SHARE = 0.03  # of the step spent in the loader, from which on its queue matters
QUEUE_STEPS, QUEUE_BLOCK_S = 8, 0.25  # the least a block has on an accelerator


class Session:
    """Runs the queue of arms on the live loop of this process."""

    def __init__(self, spec: SessionSpec, channel: Channel, watch: Watch, board: Switchboard) -> None:
        self.spec, self.channel, self.watch, self.board = spec, channel, watch, board
        self.steps = 0
        self.arm: str | None = None
        self.device = Device("cpu")
        self.is_child = False
        self.kind = ""
        self._clock = CompileClock()
        self._routine: Steps | None = None
        self._start_ns = time.perf_counter_ns()
        self._recent: deque[int] = deque(maxlen=16)
        self._last_sign = 0
        self._last_check = 0
        self._closing: set[str | None] = set()
        self._queue: deque[Arm] = deque(spec.arms)
        self._compiles_before = 0
        self._data_share = 0.0
        self._phase_totals: dict[str, int] = {}
        self._phase_steps = 0
        self._warm: WarmUp | None = None
        self._prefetched = 0
        self.observer: Observer | None = None
        self._look: Look | None = None
        self._looked: Look | None = None
        self._look_steps = 0
        self._kernels = Comparison(spec.measure_kernels, channel.say)

    @property
    def started(self) -> bool:
        return self._routine is not None

    @property
    def silent(self) -> bool:
        return not self.watch.active

    def silence(self) -> None:
        """A forked child of the measured process: run eager, count nothing, say nothing."""
        self._routine = None
        self.board.unload()

    # --- the two entrances -----------------------------------------------------------------------------

    def begin(self, anatomy: Anatomy, steps_before: int = 0) -> None:
        """The anatomy is known; from the next boundary on, every step counts."""
        self.steps = steps_before
        self.channel.say(AnatomyFound(time.time(), anatomy))
        self.device, self.kind = Device(anatomy.device), anatomy.kind
        self._recent.append(max(1, int(anatomy.step_s * 1e9)))
        self._set_fronts(anatomy)
        self.watch.follow(anatomy.boundary)
        self.watch.home_loaders = set(range(len(anatomy.loaders))) or None
        self._prefetched = max((f.workers * f.prefetch for f in anatomy.loaders), default=0)
        self._clock.listen()
        self._routine = self._life(anatomy)
        next(self._routine)
        self._open_step()

    def tick(self) -> None:
        """A step has ended; called by the watch at each boundary."""
        if self._routine is None:
            return
        now = time.perf_counter_ns()
        self.steps += 1
        counts = self.board.counts
        step = Step(
            self._start_ns,
            now,
            counts.calls,
            counts.elements,
            self._clock.compiles - self._compiles_before,
            counts.foreign == 0 and self.watch.fed_from_home(counts.calls > 0 and counts.foreign == 0),
        )
        if now - self._last_sign > 1_000_000_000:
            self._last_sign = now
            self.channel.say(StepsSeen(time.time(), self.steps, self.arm))
        try:
            self._routine.send(step)
        except StopIteration:
            self._routine = None
        self._open_step()

    def _open_step(self) -> None:
        self.board.counts.clear()
        self._compiles_before = self._clock.compiles
        self._start_ns = time.perf_counter_ns()

    def _set_fronts(self, anatomy: Anatomy) -> None:
        if anatomy.boundary.kind == "call" and not is_site_boundary(anatomy.boundary):
            self.board.boundary_root = anatomy.boundary.index
        if self.observer is not None and anatomy.sites:
            return  # the script compiles what it compiles: it is looked at as it is
        for root in anatomy.roots:
            if root.target or root.index == self.board.boundary_root:
                self.board.put_in_front_of(self.watch.roots[root.index], root.modes, root.target)

    # --- the life --------------------------------------------------------------------------------------

    def _life(self, anatomy: Anatomy) -> Steps:
        if self.observer is not None:
            yield from self._observe(self.observer)
        yield  # the step under way when we came in is not whole
        if self.spec.measure_phases:
            yield from self._look_at(anatomy)
            yield from self._phases(anatomy)
        yield from self._run_queue()
        self.finish("queue")

    def _run_queue(self) -> Steps:
        """Arm after arm; an empty queue waits a while for the driver, who may still be thinking."""
        until = time.monotonic() + self.spec.schedule.linger_s
        while self._queue or time.monotonic() < until:
            self._hear()
            if not self._queue:
                yield
                continue
            arm = self._queue.popleft()
            self.arm = arm.id
            yield from self._trial(arm)
            self.board.unload()
            self.arm = None
            until = time.monotonic() + self.spec.schedule.linger_s

    def _observe(self, observer: Observer) -> Steps:
        """To the end of the script, or until the driver has seen enough."""
        if not self.board.sites.found:
            self.board.compile_all(observer)
        while True:
            yield
            observer.step()
            self._hear()

    def _look_at(self, anatomy: Anatomy) -> Steps:
        targets = {r.index for r in anatomy.roots if r.target}
        self._look = Look(self.watch, self.board.sites, Sightings(self.channel.say), targets.__contains__)
        self._look_steps = 0
        short = self.spec.schedule.script_steps is not None and self.spec.schedule.script_steps < 10 * LOOK_STEPS
        self._look.start()
        while self._look_steps < (2 if short else LOOK_STEPS):
            step = yield
            self._look_steps += step.regular
        self._stop_looking()

    def _stop_looking(self) -> None:
        look, self._look = self._look, None
        if look is not None:
            look.stop(self._look_steps)
            self._looked = look

    def _phases(self, anatomy: Anatomy) -> Steps:
        from .phases import PhaseClock

        roles = {r.index: r.role for r in anatomy.roots}
        clock = PhaseClock(self.watch, self.device, roles, self.board.sites.found)
        totals = self._phase_totals = dict.fromkeys(PHASES, 0)
        schedule, spent = self.spec.schedule, 0
        wanted = schedule.phase_steps
        if schedule.script_steps is not None:
            wanted = max(2, min(wanted, schedule.script_steps // 5))
        clock.start()
        while self._phase_steps < wanted and spent < schedule.phase_s * 1e9:
            step = yield
            phases = clock.lap()
            spent += step.ns
            if step.regular:
                self._phase_steps += 1
                self._recent.append(step.ns)
                for name, ns in phases.items():
                    totals[name] += ns
        clock.stop()
        self._say_phases()

    def _say_phases(self) -> None:
        if self._looked is not None:  # a step that ends within a call: what that call did came after the look
            self._looked.sightings.tell(self._look_steps)
        totals, steps = self._phase_totals, self._phase_steps
        if steps:
            self._phase_steps = 0
            self._data_share = totals["data"] / max(1, sum(totals.values()))
            self.channel.say(PhasesMeasured(time.time(), steps, sum(totals.values()), totals))

    def _trial(self, arm: Arm) -> Steps:
        cache = os.path.join(self.spec.cache_dir, arm.id.replace(os.sep, "_"))
        cold = not os.path.isdir(cache)
        self.channel.say(ArmStarted(time.time(), arm.id, self.spec.session, cold, self.steps))
        if arm.kind == "eager":
            self.board.load(arm)
            yield from self._pairs(arm)
            return self._close(arm, "completed", "")
        if arm.kind == "as_written" and not self.board.sites.found:
            return self._close(arm, "cancelled", "the script does not ask for compilation")
        compat.reset_compiler()
        self._clock.listen()
        compat.use_cache_folder(cache)
        self.board.load(arm)
        ready = yield from self._warm_up(arm)
        if not ready:
            return None
        fit = yield from self._pairs(arm)
        if fit and arm.kind in ("compile", "as_written"):
            length = self.spec.schedule.script_steps
            yield from self._kernels.after(arm.id, self.device, self.board, length and length - self.steps)
        return self._close(arm, "completed", "") if fit else None

    def _warm_up(self, arm: Arm) -> Generator[None, Step, bool]:
        """Run the arm until nothing compiles any more; whether it is fit to be timed."""
        warm = self._warm = WarmUp(arm.id, self._clock.busy_ns)
        warm.recorder.start()
        self.board.on = True
        most = self.spec.schedule.warmup_steps
        while warm.quiet < self.spec.schedule.steady_steps and warm.steps < most:
            step = yield
            if self._failed(arm):
                warm.recorder.pause()
                self._warm = None
                return False
            warm.count(step)
            if step.compiles:
                self.channel.say(ArmWarming(time.time(), arm.id, warm.recorder.log()))
        self.board.on = False
        log = self._say_ready(warm)
        if log.graphs == 0:
            self._close(arm, "unsupported", why_nothing(warm.calls, log.breaks, log.frames))
            return False
        return True

    def _say_ready(self, warm: WarmUp) -> CompileLog:
        self._warm = None
        warm.recorder.pause()
        log = warm.recorder.log()
        self.channel.say(
            ArmReady(
                at_s=time.time(),
                arm=warm.arm,
                warmup_steps=warm.steps,
                warmup_ns=warm.spent_ns,
                compiling_ns=self._clock.busy_ns - warm.busy_before_ns,
                tracing_ns=warm.recorder.tracing_ns(),
                settled=warm.quiet > 0,
                log=log,
            )
        )
        return log

    def say_unfinished(self) -> None:
        """The script ends in the middle: the phases and the cold compile cost so far are still known."""
        if self.observer is not None:
            self.observer.tell(whole=True)
        self._stop_looking()
        self._say_phases()
        if self._warm is not None and self._warm.steps:
            self._say_ready(self._warm)

    # --- timing ----------------------------------------------------------------------------------------

    def _pairs(self, arm: Arm) -> Generator[None, Step, bool]:
        """Pairs of blocks, eager and arm in random order, until the driver or the schedule says enough.

        Returns whether the arm survived; where it did not, it has been closed.
        """
        schedule = self.spec.schedule
        first = schedule.pairs_done.get(arm.id, 0)
        chance = random.Random(f"{schedule.seed}/{arm.id}/{first}")
        length = self._block_steps()
        peaks: dict[str, int] = {}
        for pair in range(first, schedule.max_pairs):
            order: list[Literal["base", "arm"]] = ["base", "arm"]
            chance.shuffle(order)
            for position, side in enumerate(order):
                weigh = pair - first < MEMORY_PAIRS
                if weigh:
                    self.device.forget_peak()
                yield from self._block(arm, pair, side, position, length)
                if self._failed(arm):
                    return False
                if weigh:
                    peaks[side] = max(peaks.get(side, 0), self.device.peak_bytes() or 0)
            if pair - first == MEMORY_PAIRS - 1:
                self._say_memory(arm, peaks)
            if self._told_to_close(arm):
                break
        return True

    def _block(self, arm: Arm, pair: int, side: Literal["base", "arm"], position: int, length: int) -> Steps:
        self.board.on = side == "arm"
        for _ in range(self._settling_steps()):
            yield
        kept: list[Step] = []
        self.device.synchronize()
        begun, opened = self.device.mark(), time.perf_counter_ns()
        self._start_ns = opened
        while len(kept) < length:
            step = yield
            if step.regular:
                kept.append(step)
            elif self.device.asynchronous:  # its share of the queue cannot be told from the block's
                kept = []
                self.device.synchronize()
                begun, opened = self.device.mark(), time.perf_counter_ns()
            if self.board.failure is not None:
                return
        ended = self.device.mark()
        self.device.synchronize()
        closed = time.perf_counter_ns()
        self.board.on = False
        waits = self.device.asynchronous
        if side == "base":
            self._recent.extend(s.ns for s in kept[:4])
        self.channel.say(
            Block(
                at_s=time.time(),
                arm=arm.id,
                pair=pair,
                side=side,
                position=position,
                step_ns=() if waits or len(kept) > 512 else tuple(s.ns for s in kept),
                total_ns=closed - opened if waits else sum(s.ns for s in kept),
                steps=len(kept),
                compiles=sum(s.compiles for s in kept),
                calls=sum(s.calls for s in kept),
                elements=sum(s.elements for s in kept),
                device_ns=self.device.between_ns(begun, ended),
            )
        )

    def _block_steps(self) -> int:
        """Steps a block: long enough to be timed well, short enough for a short script to have several pairs."""
        schedule = self.spec.schedule
        typical = statistics.median(self._recent) / 1e9
        wished = max(1, round(schedule.block_s / typical))
        if self._waits_for_data():  # what is used up untimed must not outweigh what is timed
            wished = max(wished, 2 * self._prefetched)
        if self.device.asynchronous:  # the queue drains at each edge: make that rare
            wished = max(QUEUE_STEPS, round(QUEUE_BLOCK_S / typical))
        if schedule.script_steps is None:
            return wished
        left = schedule.script_steps - self.steps - RESERVED_STEPS
        return max(1, min(wished, left // 16))

    def _settling_steps(self) -> int:
        """Steps after a change of side that are not timed, where the script has steps to spare.

        The first step finds the allocator as the other side left it: pages that glibc gave back have to be
        faulted in again, which made eager 40% slower between compiled steps than among its own. And batches that
        the loader's workers prepared during the other side's block are used up, where the loop waits for them.
        """
        if self.spec.schedule.script_steps is not None:
            return 0
        return max(WASHOUT_STEPS, self._prefetched if self._waits_for_data() else 0)

    def _waits_for_data(self) -> bool:
        return self._data_share > WAITING_SHARE

    def _say_memory(self, arm: Arm, peaks: dict[str, int]) -> None:
        for side in ("base", "arm"):
            if peaks.get(side):
                self.channel.say(Memory(time.time(), arm.id, side, peaks[side]))

    # --- endings ---------------------------------------------------------------------------------------

    def _failed(self, arm: Arm) -> bool:
        """Close the arm if a compiled call has raised."""
        failure = self.board.failure
        if failure is None:
            return False
        outcome: ArmEnd = "out_of_memory" if failure.out_of_memory else "crashed"
        self.board.failure = None
        self.board.unload()
        if failure.out_of_memory:
            self.device.release_cached()
        why = f"{failure.kind}: {failure.message}"
        self.channel.say(ArmClosed(time.time(), arm.id, outcome, why, failure.traceback, failure.where))
        return True

    def _close(self, arm: Arm, outcome: ArmEnd, why: str) -> None:
        self.channel.say(ArmClosed(time.time(), arm.id, outcome, why))

    def _told_to_close(self, arm: Arm) -> bool:
        self._hear()
        return arm.id in self._closing

    def _hear(self) -> None:
        now = time.perf_counter_ns()
        if now - self._last_check < SHORTEST_CHECK_NS:
            return
        self._last_check = now
        for wish in self.channel.wishes():
            if wish.verb == "stop":
                self.finish("control")
            elif wish.verb == "try" and wish.add is not None:
                self._queue.append(wish.add)
            else:
                self._closing.add(wish.arm)

    def training_found(self) -> None:
        """An optimizer steps in what we took for inference: say so and start over."""
        if self.kind == "inference" and self.started:
            self.channel.say(TrainingFound(time.time()))
            self.finish("training")

    def finish(self, why: str) -> None:
        """Stop the script here and now, so that none of its end-of-run code runs (design, fact 18)."""
        if self.observer is not None:
            self.observer.tell(whole=False)
        self.channel.say(SessionDone(time.time(), why, self.steps))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        if self.is_child:  # the parent waits for us and would then go on to the script's end
            os.killpg(os.getpgrp(), 9)
        os._exit(0)
