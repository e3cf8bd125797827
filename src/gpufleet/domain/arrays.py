"""Array types of the core: scalars and 1-D arrays of equal length, which broadcast."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = FloatArray | float
Ints: TypeAlias = IntArray | int
AnyArray: TypeAlias = NDArray[Any]
