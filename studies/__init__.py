"""Studies made with midstep; `make study` repeats them."""
