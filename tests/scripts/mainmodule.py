"""What depends on being ``__main__``: pickles, dataclasses, sources, line numbers, children. No torch."""

import dataclasses
import inspect
import multiprocessing
import os
import pickle
import sys
import typing
import warnings


@dataclasses.dataclass
class Point:
    x: int
    y: "list[int]" = dataclasses.field(default_factory=list)


def double(number):
    return 2 * number


def where(_):
    return __name__, sys.argv[1:], os.path.basename(__file__), sys.path[0]


if __name__ == "__main__":
    print(pickle.dumps(Point(1, [2])))
    print(pickle.loads(pickle.dumps(Point(3))), typing.get_type_hints(Point), Point.__module__)
    print(inspect.getsource(double), inspect.getsourcelines(Point)[1])
    warnings.warn("look here", stacklevel=1)
    warnings.warn("and here", DeprecationWarning, stacklevel=1)
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(double, range(4)), pool.map(where, range(1)))
    os.chdir("/")
    print(os.getcwd(), __file__)
