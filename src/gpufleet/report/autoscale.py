"""Laws of scaling, as a page: the one to take, all of them in a table, what to set."""

from __future__ import annotations

from gpufleet.report.numbers import count, duration, percent, several, significant, usd, usd_per_hour
from gpufleet.report.page import Columns, Page, Table, column, data, lines_table, number
from gpufleet.report.scaling_plot import ScalingPoint, scaling_picture
from gpufleet.results.autoscale import AutoscaleResult, PolicyPlay, ReplayedDay
from gpufleet.units import DAY, HOUR, HOURS_PER_MONTH, MINUTE, PERCENT

SETTING_WORDS = {
    "target_ratio": ("target", "of what the plan allows"),
    "drain_s": ("work off who waits in", "s"),
    "quantile_ratio": ("rate of an hour by its quantile", ""),
    "days_apart": ("kinds of days", ""),
    "spare_ratio": ("machines to spare", "of those needed"),
    "down_window_s": ("stabilise down", "s"),
    "waiting": ("waiting", "requests a replica"),
    "kv_ratio": ("KV cache", ""),
    "poll_s": ("poll", "s"),
    "cooldown_s": ("cool-down to none", "s"),
    "up_delay_s": ("delay up", "s"),
    "down_delay_s": ("delay down", "s"),
    "hold_ratio": ("keep before fewer", "cold starts"),
    "min_replicas": ("least", ""),
    "max_replicas": ("most", ""),
    "headroom_ratio": ("headroom", ""),
    "level": ("weight of the level", ""),
    "kv_threshold": ("saturated at KV", ""),
    "queue_threshold": ("or waiting", ""),
    "kv_spare": ("spare KV", ""),
    "queue_spare": ("spare queue", ""),
    "replicas": ("machines", ""),
    "day": ("from 06:00", "machines"),
    "night": ("from 22:00", "machines"),
    "depth": ("depth", "requests a replica"),
    "quiet_s": ("fewer after quiet", "s"),
    "high": ("more above", ""),
    "low": ("fewer below", ""),
    "for_s": ("for", "s"),
}

SHORT = {
    "HorizontalPodAutoscaler": "HPA",
    "Deployment": "fixed",
    "llm-d WVA": "WVA",
    "SkyServe": "Sky",
    "AWS Auto Scaling": "ASG",
}


def autoscale_page(result: AutoscaleResult) -> Page:
    """Headline, laws, settings."""
    return Page(headline(result), [laws_table(result), settings_table(result)], notes(result), [question(result)])


def headline(result: AutoscaleResult) -> str:
    """Which law, what it costs, and what that saves."""
    best, days = result.recommended, days_words(result)
    if not result.is_feasible:
        kept = percent(best.kept_ratio_worst_day)
        return (
            f"No law keeps {target(result)} of requests in time on every day: "
            f"{best.policy} comes nearest, {kept} on the worst day."
        )
    saved = result.recommendation.saved_ratio
    against = f", {percent(saved)} less than machines for the peak" if saved > 0 else ""
    how = f", tuned on {tuned_days_words(result)}" if best.is_tuned else ""
    return f"Scale by '{best.policy}'{how}: {usd(best.usd)} for {days}{against}; {kept_words(best)}."


def tuned_days_words(result: AutoscaleResult) -> str:
    """On which days settings were searched."""
    if result.num_tuned_days is None:
        return "the same days"
    return f"the first {several(result.num_tuned_days, 'day')}"


def kept_words(play: PolicyPlay) -> str:
    """Who keeps the limits."""
    whole = f"{percent(play.kept_ratio_worst_day)} in time on the worst day"
    unseen = play.kept_ratio_worst_unseen_day
    return f"{whole}, {percent(unseen)} on the worst that it was not tuned on" if play.is_tuned and unseen else whole


def days_words(result: AutoscaleResult) -> str:
    """How long was played."""
    days = result.num_ticks * result.tick_s / DAY
    return f"{significant(days)} days" if days >= 1 else f"{significant(days * DAY / HOUR)} hours"


def target(result: AutoscaleResult) -> str:
    """The target as it is written."""
    return f"{PERCENT * result.target_ratio:.10g}%"


def question(result: AutoscaleResult) -> str:
    """What was played, in a sentence."""
    m = result.machine
    copies = f" of {m.copies} replicas" if m.copies > 1 else ""
    return (
        f"{result.model} on {m.cloud} {m.instance}{copies} ({usd_per_hour(m.price_per_instance_usd_per_hour)}), each "
        f"good for {significant(m.requests_per_s_planned)} requests/s; {significant(result.mean_requests_per_s)}/s on "
        f"average, {significant(result.peak_requests_per_s)}/s at most; a cold start takes "
        f"{duration(result.cold_start_s)}; {target(result)} have to be in time on every day."
    )


def laws_table(result: AutoscaleResult) -> Table:
    """Every law, those that keep the target first; the last row knows the future."""
    yes_or_no = {True: "yes", False: "no"}.__getitem__
    columns: Columns[PolicyPlay] = [
        column("law", lambda play: play.policy, key="policy"),
        column("tuned", lambda play: play.is_tuned, key="is_tuned", show=yes_or_no),
        number("GPU h", lambda play: play.gpu_hours, key="gpu_hours", show=count),
        number("cost", lambda play: play.usd, key="usd", show=usd),
        number("x best", lambda play: play.over_perfect_ratio, key="over_perfect_ratio", show=significant),
        number("day", lambda play: play.kept_ratio_worst_day, key="kept_ratio_worst_day", show=percent),
        number("mean", lambda play: play.kept_ratio, key="kept_ratio", show=percent),
        number("15min", lambda p: p.kept_ratio_worst_quarter_hour, key="kept_ratio_worst_quarter_hour", show=percent),
        column("by", lambda play: SHORT.get(play.controller, play.controller) or "-", key="run_by"),
        *data("controller", "is_careful", "cold_requests"),
        column("cold_ratio", lambda play: play.cold_requests / (result.requests or 1.0), where="data"),
        column("scale_events", lambda play: play.scale_ups + play.scale_downs, where="data"),
        column("kept", lambda play: play.meets_target, key="meets_target", show=yes_or_no),
    ]
    plays, span = best_of_each_law(result), days_words(result)
    how = f"as documented or tuned on {tuned_days_words(result)}" if result.is_tuned else "as documented"
    title = f"Laws over {span}, {how}; in time: the worst day, the mean, the worst 15 min; by: what runs it"
    points = [ScalingPoint(p.policy, p.usd, p.kept_ratio_worst_day, p.policy in result.front) for p in plays]
    picture = scaling_picture(points, result.target_ratio, span)
    return Table.of((*plays, result.perfect), columns, title, chosen=plays.index(result.recommended), picture=picture)


def best_of_each_law(result: AutoscaleResult) -> list[PolicyPlay]:
    """Each law once, as documented or tuned: the cheaper one that keeps the target, else the one nearer to it."""
    names = [play.policy for play in result.plays]
    return [play for i, play in enumerate(result.plays) if play.policy not in names[:i]]


def settings_table(result: AutoscaleResult) -> Table:
    """What to set, in words and numbers, and how long before a machine is needed it is started."""
    r, best = result.recommendation, result.recommended
    aim = f"aim at {significant(r.target_requests_per_s)} requests/s a machine"
    ahead = "it sees no future: machines start when load is there, and are late by a cold start"
    if r.prewarm_lead_s is not None:
        ahead = f"start a machine {duration(r.prewarm_lead_s)} before it is needed"
    lines = [
        f"{best.title}: {settings_words(r.settings) or 'no settings'}",
        run_words(best),
        *windows_words(result),
        f"at least {several(r.min_machines, 'machine')}, at most {r.max_machines} in this play with those that drain; "
        f"{aim}",
        ahead,
        f"to none: {'yes' if r.scales_to_zero else 'no'}, {r.why_zero}",
        f"{usd(best.usd_per_month)} in a month of {HOURS_PER_MONTH:g} h; "
        f"{several(best.scale_ups, 'step')} up and {count(best.scale_downs)} down",
    ]
    return lines_table("What to set", lines)


def run_words(best: PolicyPlay) -> str:
    """What runs it, and who writes that."""
    if not best.controller:
        return "no controller runs it"
    if best.controller not in ("KEDA", "HorizontalPodAutoscaler", "Deployment"):
        return f"{best.controller} runs it"
    return f"{best.controller} runs it: 'gpufleet deploy' writes its files from -o json"


def windows_words(result: AutoscaleResult) -> list[str]:
    """How many windows there are, and from which days they were learnt."""
    r = result.recommendation
    if not r.windows:
        return []
    learnt = "the trace" if result.num_tuned_days is None else f"the first {several(result.num_tuned_days, 'day')}"
    monday = "" if r.is_dated else "; the first day counts as a Monday"
    return [f"{several(len(r.windows), 'window')} above {r.least_in_windows}, of {learnt}, in -o json{monday}"]


def saving_words(result: AutoscaleResult) -> list[str]:
    """What a law would save that is not recommended, and why it is not."""
    other = result.recommendation.could_save
    if other is None:
        return []
    by = f"{other.controller} runs it, whose files are not written" if other.controller else "no controller runs it"
    how = f"--policy {other.policy} recommends it"
    return [f"'{other.policy}' would cost {usd(other.usd)}, {percent(other.saved_ratio)} less: {by} ({how})."]


def settings_words(settings: dict[str, float | None]) -> str:
    """Settings as words.

    >>> settings_words({"target_ratio": 0.8, "up_delay_s": 60.0, "kv_ratio": None})
    'target 0.8 of what the plan allows, delay up 60 s'
    """
    words = [(SETTING_WORDS.get(name, (name, "")), value) for name, value in settings.items() if value is not None]
    return ", ".join(f"{word} {value:g} {unit}".rstrip() for (word, unit), value in words)


def replayed_words(day: ReplayedDay) -> str:
    """What a replay makes of the worst day, or of its worst parts, beside the play on ticks."""
    kept = f"{percent(day.kept_ratio)} of {count(day.num_requests)}"
    where = f"day {day.day}" if day.num_parts == 1 and day.part_s > HOUR else f"{parts_words(day)} of day {day.day}"
    return (
        f"Replayed request by request: {kept} in time on {where}, "
        f"the worst of '{day.policy}' (ticks: {percent(day.kept_ratio_played)}, at the plan's confidence); TTFT p95 "
        f"{duration(day.ttft_p95_s)}, TPOT p95 {duration(day.tpot_p95_s)}."
    )


def parts_words(day: ReplayedDay) -> str:
    """Which parts of a day were replayed, since all of it is more than memory holds.

    >>> part = ReplayedDay.model_construct(num_parts=3, part_s=3600.0)
    >>> parts_words(part)
    'the 3 worst hours (all its requests are too many)'
    """
    length = {HOUR: "hour", MINUTE: "minute"}.get(day.part_s, "quarter of an hour")
    plural = length.replace("quarter", "quarters") if " " in length else f"{length}s"
    worst = f"the worst {length}" if day.num_parts == 1 else f"the {day.num_parts} worst {plural}"
    return f"{worst} (all its requests are too many)"


def notes(result: AutoscaleResult) -> list[str]:
    """What the figures rest on."""
    replayed = [] if result.replayed is None else [replayed_words(result.replayed)]
    found = [*replayed, *saving_words(result), *result.notes]
    alike = result.daily_autocorrelation
    if alike is not None:
        found.append(f"Days are alike by {significant(alike, 2)} (autocorrelation at a day; forecasts need 0.3 or so).")
    found.append(
        f"'x best': over a perfect forecast, which has the fewest machines that keep {target(result)} in every tick; "
        "a law may cost less where it spends a whole day's misses on few hours."
    )
    if result.cold_start is not None:
        low, high = result.cold_start.seconds.low, result.cold_start.seconds.high
        found.append(
            f"The cold start is estimated, {duration(low)} to {duration(high)}: measure yours and say --cold-start."
        )
    found.append("-o json has every law as documented and tuned, with its settings; -o html the picture.")
    return found
