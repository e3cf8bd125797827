"""From a config mapping to an `Architecture`, and from there to exact counts. Scalars or arrays, no I/O."""
