"""What a pass sees at lines of the user's code, added up and told to the driver.

The words, and what their ``detail`` holds:

- ``sync``: a read of a tensor on the host. ``call``, ``device``, ``via`` (the library that did it, if not the user)
- ``inside``: a Python call that matters inside a network's call. ``call``, ``kind`` (random, numpy, time, print, ...)
- ``buffer_in_loss``: a buffer changed in place in forward and then used where gradients flow. ``buffer``
- ``custom_function``: ``autograd.Function.apply`` inside a network. ``name``, ``functorch`` (yes where it sees the
  argument of a ``torch.func`` transform itself)
- ``eager_ops``: torch calls inside a network or compiled function, in eager. ``name``
- ``compiled_ops``: operations of the graphs that ran. ``calls``
- ``forward_direct``: ``module.forward(...)`` called past ``__call__``, on a module that the script compiles. ``name``
- ``kept_graph``: tensors with a graph that outlive their step, more with every step. ``name``, ``how``
- ``call_site``: a call of a compiled module. ``name``, ``training``, ``grad``, ``trained``, ``mode_matters``
- ``kept_backward``: a backward pass that keeps its graph reaches a compiled call, after others that did not. ``name``
- ``random_still``: compiled calls after which the generator had not moved. ``which``
- ``overlap``: two arguments of a compiled call share memory. ``names``
- ``specialises``: an operator in a captured graph that will be compiled for each size on its own. ``op``
- ``complex_op``: an operation on complex numbers in a captured graph. ``op``
- ``hook``: a hook was registered. ``kind``, ``module``, ``late`` (yes where the module had been compiled before)
- ``prefixed``: names with ``_orig_mod.`` met plain ones. ``how``
- ``copied``: a compiled module was copied or pickled. ``how``
- ``clock``: two readings of a clock with a compile between them. ``share``, ``rounds``, ``first``, ``unsynchronised``
- ``mode``: ``train()`` or ``eval()`` of a compiled module. ``mode``; ``autocast``: an autocast region begins
- ``loader_start``: a loader with workers was started. ``workers``
- ``compiled_crash``: a call that works in eager raised. ``error``
- ``setting``: a compiler option named in the user's code. ``name``, ``known``, ``note``
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..model import Place, Sighted

_MOST = 400  # different sights; a pathological script must not flood the run directory


@dataclass
class Sight:
    """Totals of one sight."""

    count: int = 0
    ns: int = 0
    told: int = -1


class Sightings:
    """Adds up; ``tell`` says what has changed since the last time."""

    def __init__(self, say: Callable[[Sighted], None]) -> None:
        self._say = say
        self._seen: dict[tuple[str, Place | None, tuple[tuple[str, str], ...]], Sight] = {}

    def see(self, what: str, where: Place | None, count: int = 1, ns: int = 0, **detail: str) -> None:
        """``count`` more of ``what`` at ``where``."""
        sight = self._of(what, where, detail)
        if sight is not None:
            sight.count += count
            sight.ns += ns

    def set(self, what: str, where: Place | None, count: int, **detail: str) -> None:
        """The total of ``what`` at ``where`` is ``count``."""
        sight = self._of(what, where, detail)
        if sight is not None:
            sight.count = count

    def _of(self, what: str, where: Place | None, detail: dict[str, str]) -> Sight | None:
        key = (what, where, tuple(detail.items()))
        sight = self._seen.get(key)
        if sight is None and len(self._seen) < _MOST:
            sight = self._seen[key] = Sight()
        return sight

    def tell(self, steps: int | None = None) -> None:
        """Say every total that changed. ``steps``: over how many steps they were counted."""
        for (what, where, detail), sight in self._seen.items():
            if sight.count != sight.told:
                sight.told = sight.count
                self._say(Sighted(time.time(), what, where, sight.count, sight.ns or None, steps, dict(detail)))
