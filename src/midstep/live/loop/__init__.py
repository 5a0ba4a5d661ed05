"""The parts of a loop under `attach`: its window, its indices, its optimizers, its end."""
