"""Guards in torch's words, and what they are taken for; where a value that varies comes from."""

from __future__ import annotations

import pytest

from speedproof.analyse.origin import assignments_to, calls_of, loop_around, loop_over, origin_of_argument
from speedproof.analyse.recompiles import cause_of
from speedproof.analyse.source import Sources
from speedproof.model import Place

# (text recorded from torch, kind, name)
GUARDS = [
    ("0/0: tensor 'args[0]' size mismatch at index 0. expected 64, actual 52", "shape", "args[0]"),
    ("0/0: tensor 'ids' size mismatch at index 1. expected 76, actual 85", "shape", "ids"),
    ("0/1: tensor 'L['x']' rank mismatch. expected 3, actual 2", "rank", "x"),
    ("1/0: tensor 'x' requires_grad mismatch. expected requires_grad=0", "requires_grad", ""),
    ("0/0: tensor 'x' dtype mismatch. expected Float, actual Half", "dtype", "x"),
    ("0/0: GLOBAL_STATE changed: grad_mode", "grad-mode", "grad_mode"),
    ("0/1: GLOBAL_STATE changed: autocast(cpu)_enabled ", "autocast", "autocast(cpu)_enabled"),
    ("0/0: GLOBAL_STATE changed: grad_mode autocast(cpu)_enabled", "autocast", "grad_mode autocast(cpu)_enabled"),
    ("0/0: self.calls == 0    # self.calls += 1  # a/b.py:22 in forward (HINT: ...)", "attribute", "calls"),
    ("1/1: self.name == 'b1'   # print(self.name)  # a/b.py:21 in forward", "attribute", "name"),
    ("0/0: len(crops) == 4    # feats = [f(c) for c in crops]  # a/b.py:18 in forward", "length", "crops"),
    ("0/0: gain == 0.8     # x = (img * gain)  # a/b.py:12 in focal", "value", "gain"),
    ("0/0: self.param_groups[0]['lr'] == 0.1   # sgd.py", "learning-rate", "lr"),
    ("0/0: self.training == True", "mode", "training"),
    ("0/0: not fn._modules['3']._forward_hooks   # if not (self._backward_hooks", "hooks", ""),
    ("0/0: ___check_obj_id(L['fn'], 140)", "identity", "fn"),
    ("0/2: (x.size()[2] - 1)//4 == 15  # (_inductor/lowering.py:6123 in _adaptive_avg_pool2d)", "inductor-shape", None),
    ("something that no torch has said yet", "value", None),
    ("", "value", None),
]


@pytest.mark.parametrize(("guard", "kind", "name"), GUARDS)
def test_a_guard_is_taken_for_what_varied(guard: str, kind: str, name: str | None) -> None:
    cause = cause_of(guard)
    assert cause.kind == kind
    if name is not None:
        assert cause.name == name


SCRIPT = """\
import torch
from torch.utils.data import DataLoader

class Net(torch.nn.Module):
    def __init__(self):
        self.calls = 0

    def forward(self, x):
        self.calls = self.calls + 1
        for _ in range(9):
            x = torch.nn.functional.adaptive_avg_pool2d(x, 2)
        return [part for part in x]

def batches(data):
    loader = DataLoader(data, batch_size=4)
    for images, labels in loader:
        moved = images.to("cpu")
        loss = torch.nn.functional.cross_entropy(model(moved), labels)

ids = torch.zeros(3, 4)
short = ids[:, :-1]
model(short)
model(torch.zeros(2, 2))
"""
FILE = "/work/script.py"
SOURCES = Sources({FILE: SCRIPT})


def at(line: int) -> Place:
    return Place(FILE, line, None)


@pytest.mark.parametrize(("call", "argument", "origin"), [(18, "args[0]", 15), (22, "args[0]", 20), (23, "x", 23)])
def test_an_argument_is_followed_back_to_what_made_it(call: int, argument: str, origin: int) -> None:
    found = origin_of_argument(SOURCES, at(call), argument)
    assert found is not None and found.line == origin


def test_where_nothing_is_known_nothing_is_claimed() -> None:
    assert origin_of_argument(Sources({}), at(18), "x") is None
    assert origin_of_argument(Sources({FILE: "def broken(:"}), at(1), "x") is None
    assert origin_of_argument(SOURCES, None, "x") is None


def test_the_line_that_changes_an_attribute_is_not_the_one_that_makes_it() -> None:
    assert [p.line for p in assignments_to(SOURCES, FILE, "calls")] == [9]


def test_calls_and_loops_are_found_by_name() -> None:
    assert [p.line for p in calls_of(SOURCES, FILE, "adaptiveavgpool2d")] == [11]
    loop, over = loop_around(SOURCES, at(11)), loop_over(SOURCES, at(12), "x")
    assert loop is not None and loop.lineno == 10
    assert over is not None and over.line == 12
    assert loop_around(SOURCES, at(9)) is None
