"""The gate any loop can call: pause, step, breakpoints, captures, watches, command queue."""

from midstep.control.breakpoints import Breakpoint
from midstep.control.capture import CapturedBatch, StepData
from midstep.control.commands import Command, CommandRecord, CommandSpec
from midstep.control.controller import DebugController
from midstep.control.viewer import Viewer

__all__ = [
    "Breakpoint",
    "CapturedBatch",
    "Command",
    "CommandRecord",
    "CommandSpec",
    "DebugController",
    "StepData",
    "Viewer",
]
