"""Which knobs each compiler has, and how they reach it."""
