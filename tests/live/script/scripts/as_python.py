"""Writes what a program can see of how it was started, then ends as its last argument says."""

import json
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor


class Thing:
    """Is pickled by its module, which is `__main__`."""


def of_child():
    main = sys.modules["__main__"]
    return {
        "file": main.__file__,
        "name": __name__,
        "argv": sys.argv,
        "path": sys.path,
        "meta": [type(each).__name__ for each in sys.meta_path],
        "midstep": sorted(name for name in sys.modules if name.startswith("midstep")),
    }


def in_process(method):
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        child = pool.submit(of_child).result()
    if method == "fork":  # it inherits the modules that are loaded, and none of the changes
        del child["midstep"], child["meta"]
    return child


def end(how):
    if how == "raise":
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    if how == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    sys.exit({"text": "a reason", "three": 3, "zero": 0}.get(how))


if __name__ == "__main__":
    main = sys.modules["__main__"]
    seen = {
        "globals": sorted(vars(main)),
        "annotations": __annotations__,
        "builtins": str(__builtins__),
        "same": vars(main) is globals(),
        "file": __file__,
        "spec": None if __spec__ is None else [__spec__.name, __spec__.origin],
        "package": __package__,
        "loader": type(__loader__).__name__,
        "doc": __doc__,
        "cached": __cached__,
        "argv": sys.argv,
        "orig_argv": sys.orig_argv[1:],
        "path": sys.path,
        "flags": str(sys.flags),
        "environment": dict(os.environ),
        "heavy": sorted({"torch", "numpy", "tensorboard", "typer"} & sys.modules.keys()),
        "handlers": [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM)],
        "threads": [each.name for each in threading.enumerate()],
        "pickled": type(pickle.loads(pickle.dumps(Thing()))) is Thing,
        "folder": os.getcwd(),
    }
    if sys.argv[1] == "zero":
        seen |= {method: in_process(method) for method in ("fork", "spawn")}
    with open("seen.json", "w") as file:
        json.dump(seen, file)
    end(sys.argv[1])
