"""A trace that torch wrote elsewhere, without us: its compile logs as evidence, so that it can be explained.

Nothing was measured there, and the loop is not known: what the compiler said of the code is all there is.
"""

from __future__ import annotations

from ..model import CompileLog, Finding, Observed
from .findings import find_all
from .ledger import Ledger, fold
from .places import bare_evidence
from .source import Sources


def ledger_of(log: CompileLog) -> Ledger:
    """The ledger of one rank: as if the diagnosis pass had seen it all."""
    return fold([Observed(at_s=0.0, steps=0, log=log, whole=True)])


def findings_of(ledger: Ledger, sources: Sources) -> tuple[Finding, ...]:
    """What stands in the compiler's way in that rank."""
    return find_all(bare_evidence(ledger, sources))
