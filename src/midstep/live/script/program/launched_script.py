"""`python -m midstep.live.script.program.launched_script`: a script, as stdin requests.

The launcher has made the run's directory and chosen its id. This process becomes that of the
script, as `midstep run` does. It answers on the descriptor that the request names, with the first
optimizer step: only then is there a run.
"""

from __future__ import annotations

import os
import sys

from midstep.core import strict_json
from midstep.live.script.program.script_command import ScriptCommand


def main() -> None:
    """Become the process of the script that stdin names."""
    request = strict_json.loads(sys.stdin.buffer.read())
    arguments = tuple(request.pop("arguments"))
    # A script that reads its standard input finds it empty, and not our closed pipe.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # No flag of ours: `-P` kept modules of the working directory away from this process.
    ScriptCommand(arguments=arguments, has_page=False, **request).start(flags=())


if __name__ == "__main__":
    main()
