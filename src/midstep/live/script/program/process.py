"""The process of `midstep run`, started by its path: `python process.py OPTIONS SCRIPT ARGS…`."""

import sys

if __name__ == "__main__":
    # Python has put the folder of this file first, whose modules are none of the script's business.
    # midstep itself is loaded from where this file is, also if it is not installed.
    sys.path[0] = __file__.rpartition("/midstep/")[0]

    from midstep.live.script.program.main_program import run_script
    from midstep.live.script.program.script_command import ScriptCommand

    run_script(ScriptCommand.from_json(sys.argv[1], sys.argv[2:]))
