"""What a service costs beside its GPU machines, from lines that its user states."""

from __future__ import annotations

from gpufleet.domain.bill import BillLine, Per
from gpufleet.units import HOUR, HOURS_PER_MONTH, MEGA


def line_usd_per_month(line: BillLine, num_instances: float, requests_per_s: float) -> float:
    """USD a month of one line: quantity x price, once, per machine, or per million requests.

    c = quantity x unit price x scale; scale = 1, machines, or requests per second x 3600 x 730 / 1e6   [USD/month]

    Two GB of egress per million requests at 0.09 USD/GB and 50 requests/s, 131.4 million requests a month:

    >>> egress = BillLine("egress", "all", "all", 2.0, Per.MILLION_REQUESTS, "GB", 0.09, "your-tables")
    >>> round(line_usd_per_month(egress, 4, 50.0), 2)
    23.65
    """
    millions_per_month = requests_per_s * HOUR * HOURS_PER_MONTH / MEGA
    scale = {Per.SERVICE: 1.0, Per.INSTANCE: num_instances, Per.MILLION_REQUESTS: millions_per_month}[line.per]
    return line.quantity * line.unit_usd * scale
