"""Tables far from their neighbours are found in every kind of kernel that has engines beside each other."""

from __future__ import annotations

from tools.calibrate.neighbours import DECISIVE, MOST_FACTOR, MOST_RATIO, outliers


def test_outliers_of_products_experts_and_attention_are_listed_with_what_is_said_of_them() -> None:
    found = list(outliers())
    assert {"experts", "decode", "prefill"} <= {x.operator for x in found} <= set(DECISIVE)
    assert all(x.factor > MOST_FACTOR or (x.ratio or 0.0) > MOST_RATIO for x in found)
    assert {x.engine for x in found if x.is_set_aside} == {"sglang"}
