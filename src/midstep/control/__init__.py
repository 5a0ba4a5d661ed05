"""The gate any loop can call: pause, step, breakpoints, captures, watches, command queue."""

from midstep.control.breakpoints import Breakpoint
from midstep.control.capture import CapturedBatch, StepData
from midstep.control.commands import Command, CommandRecord, CommandSpec
from midstep.control.controller import DebugController
from midstep.control.panels import Field, Level, Panel, Sort, Status
from midstep.control.viewer import Viewer

__all__ = [
    "Breakpoint",
    "CapturedBatch",
    "Command",
    "CommandRecord",
    "CommandSpec",
    "DebugController",
    "Field",
    "Level",
    "Panel",
    "Sort",
    "Status",
    "StepData",
    "Viewer",
]
