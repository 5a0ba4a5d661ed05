"""The gate any loop can call: pause, step, breakpoints, captures, watches, command queue."""

from midstep.control.breakpoints.breakpoints import Breakpoint
from midstep.control.capture.captured_data import CapturedBatch, StepData
from midstep.control.capture.captures import Viewer
from midstep.control.command_record import Command, CommandRecord
from midstep.control.controller import DebugController
from midstep.control.panels import Field, Level, Panel, Sort, Status
from midstep.core.commands.definition import CommandDefinition

__all__ = [
    "Breakpoint",
    "CapturedBatch",
    "Command",
    "CommandDefinition",
    "CommandRecord",
    "DebugController",
    "Field",
    "Level",
    "Panel",
    "Sort",
    "Status",
    "StepData",
    "Viewer",
]
