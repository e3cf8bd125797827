"""What the command line says beyond the answer: flips, why not, the front, comparisons, old plans, HTML."""

from __future__ import annotations

import json
import re
import xml.dom.minidom
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

import gpufleet
from gpufleet.cli import main
from gpufleet.report.numbers import significant

Ask = Callable[..., tuple[int, str, str]]
LOAD = ("--rate", "5/s", "--in", "1000", "--out", "200", "--slo", "tpot.p95<60ms")
PLAN = ("plan", "serve", "llama-3.1-8b", *LOAD, "--gpus", "L40S,H100,L4,A10G")
VOID = {"meta", "br"}


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


class Balanced(HTMLParser):
    """Every element that opens closes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag


def test_the_page_names_the_price_that_flips_it(ask: Ask) -> None:
    plan = json.loads(ask(*PLAN, "-o", "json")[1])
    text = " ".join(ask(*PLAN, "--show", "limits")[1].split())
    flip = plan["flips"][0]
    assert f"Flips at ${flip['value']:.2f}/h per machine" in text
    assert flip["winner"]["instance"].removeprefix("Standard_") in text


def test_flips_are_told_in_both_directions_within_80_columns(ask: Ask) -> None:
    code, text, _ = ask(*PLAN, "--flips")
    assert code == 0
    rows = [line.split()[0] for line in text.split("What flips the choice\n")[1].splitlines()[2:] if line[:1].isalpha()]
    assert rows.count("rate") == rows.count("tpot.p95") == rows.count("input") == rows.count("output") == 2
    assert max(map(len, text.splitlines())) <= 80


def test_why_not_is_answered_in_one_sentence_and_for_every_candidate(ask: Ask) -> None:
    code, text, _ = ask(*PLAN, "--why-not", "B200:1,L4:1,L40S:64")
    words = " ".join(text.split())
    assert code == 0
    assert "Why not B200:1? It would take" in words
    assert "It was left out by --gpus" in words
    assert "Why not L40S:64? It cannot serve this: the largest machine with L40S has 8 of them." in words
    assert max(map(len, text.splitlines())) <= 80


def test_why_not_is_in_the_json_too(ask: Ask) -> None:
    plan = json.loads(ask(*PLAN, "--why-not", "L4:1", "-o", "json")[1])
    assert [a["asked"] for a in plan["asked_about"]] == ["L4:1"]


def test_the_front_is_drawn_in_characters_and_as_svg(ask: Ask, tmp_path: Path) -> None:
    picture = tmp_path / "front.svg"
    code, text, err = ask(*PLAN, "--pareto", "--picture", str(picture))
    assert (code, err) == (0, f"wrote {picture}\n")
    assert "Cost against latency.p95: the front" in text
    svg = xml.dom.minidom.parse(str(picture)).documentElement
    assert svg.tagName == "svg"
    assert [c for c in svg.getElementsByTagName("circle") if c.getAttribute("class") == "best"]


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (PLAN, "Cost against latency.p95"),
        (("plan", "batch", "llama-3.1-8b", "--requests", "10k", "--in", "1000", "--out", "200", "--deadline", "8h"),
         "Cost against time until done"),
        (("plan", "serve", "bge-base-en-v1.5", "--rate", "5/s", "--in", "200"), "Cost against latency.p95"),
        (("estimate", "llama-3.1-8b", "--gpus", "H100:1", "--in", "100", "--out", "100", "--batch", "1"), "Roofline:"),
    ],
    ids=["plan", "job", "encoder", "estimate"],
)  # fmt: skip
def test_a_file_name_that_ends_in_svg_asks_for_the_picture(
    ask: Ask, tmp_path: Path, words: tuple[str, ...], title: str
) -> None:
    file = tmp_path / "answer.svg"
    code, out, err = ask(*words, "--out-file", str(file))
    assert (code, out, err) == (0, "", f"wrote {file}\n")
    drawn = file.read_text(encoding="utf-8")
    assert xml.dom.minidom.parseString(drawn).documentElement.tagName == "svg"
    assert f"<title>{title}" in drawn
    assert ask(*words, "-o", "svg")[1] == drawn


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("fit", "llama-3.1-8b", "--gpus", "L40S:1"), 2, "this answer has no picture"),
        ((*PLAN[:3], *LOAD[:-1], "ttft.p95<1ms"), 3, "there is nothing to draw; found 'llama-3.1-8b at 5 requests/s"),
    ],
    ids=["fit", "nothing serves"],
)
def test_an_answer_without_a_picture_says_so(
    ask: Ask, tmp_path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    file = tmp_path / "answer.svg"
    found, _, err = ask(*words, "--out-file", str(file))
    assert (found, file.exists()) == (code, False)
    assert told in err
    assert "-o html" in err


def test_a_page_tells_its_verdict_its_price_and_its_limits_at_a_glance(ask: Ask) -> None:
    plan = json.loads(ask(*PLAN, "-o", "json")[1])
    page = ask(*PLAN, "-o", "html")[1]
    d = plan["deployments"][0]
    assert '<div class="fact good"><dt>Verdict</dt><dd>Holds at 80% confidence</dd>' in page
    assert re.search(rf"<h1>[^<]* for \${d['usd_per_month']:,.0f} a month\.</h1>", page)
    assert f"<dt>Per hour</dt><dd>${d['usd_per_hour']:,.2f}" in page
    assert page.count('<svg class="bar"') == len(plan["objectives"])
    assert page.index("Cheapest ") < page.index("<figure") < page.index("<summary><h2>Rejected")
    assert page.rindex("Prices, never live") > page.index("Notes and sources") > page.rindex("</details>")


def test_a_report_is_one_html_file_with_the_picture_inside(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "plan.html"
    code, out, _ = ask(*PLAN, "--out-file", str(file))
    page = file.read_text(encoding="utf-8")
    parser = Balanced()
    parser.feed(page)
    assert (code, out, parser.open) == (0, "", [])
    assert {"svg", "table", "style", "title"} <= parser.seen
    assert "script" not in parser.seen
    assert "href" not in page
    assert "src=" not in page
    assert "@media print" in page


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "llama-3.1-8b", "--gpus", "L40S:1"),
        ("estimate", "llama-3.1-8b", "--gpus", "H100:1", "--in", "100", "--out", "100", "--batch", "1", "--explain"),
        ("catalog", "gpus", "--min-memory", "80GiB"),
        ("compare", "L40S", "H100", "--model", "llama-3.1-8b", *LOAD),
    ],
    ids=lambda words: words[0],
)
def test_every_answer_can_be_html(ask: Ask, words: tuple[str, ...]) -> None:
    code, page, _ = ask(*words, "-o", "html")
    parser = Balanced()
    parser.feed(page)
    assert (code, parser.open) == (0, [])


@pytest.mark.parametrize(
    ("words", "look", "told"),
    [
        (("fit", "llama-3.1-8b", "--gpus", "L40S:1"), "good", "Fits"),
        (("fit", "llama-3.3-70b", "--gpus", "L40S:1"), "bad", "Does not fit"),
        (("estimate", "llama-3.1-8b", "--gpus", "H100:1", "--in", "9", "--out", "9", "--batch", "1"), "good", "Fits"),
        (("plan", "batch", "llama-3.1-8b", "--requests", "10k", "--in", "1000", "--out", "200", "--deadline", "8h"),
         "good", "In time at 80% confidence"),
    ],
    ids=["fits", "does not fit", "an estimate", "a job"],
)  # fmt: skip
def test_a_page_begins_with_its_verdict_in_words_and_in_colour(
    ask: Ask, words: tuple[str, ...], look: str, told: str
) -> None:
    first = ask(*words, "-o", "html")[1].partition('<div class="fact ')[2].partition("</div>")[0]
    assert first.startswith(f'{look}">')
    assert f"<dd>{told}</dd>" in first


def test_a_models_name_cannot_write_html(ask: Ask, tmp_path: Path) -> None:
    from importlib import resources

    config = resources.files("gpufleet").joinpath("data", "architectures", "llama-3.1-8b.json").read_text()
    file = tmp_path / "<img src=x onerror=alert(1)>.json"
    file.write_text(config, encoding="utf-8")
    code, page, _ = ask("plan", "serve", str(file), *LOAD, "--gpus", "L40S", "-o", "html")
    assert code == 0
    assert "<img" not in page
    assert "&lt;img" in page


def test_a_token_api_is_set_beside_the_answer(ask: Ask) -> None:
    text = " ".join(ask(*PLAN, "--token-price", "0.05/0.08")[1].split())
    assert "$0.05 in, $0.08 out per 1M, as given" in text.replace("0.0500", "0.05").replace("0.0800", "0.08")
    assert "machines cost no more from" in text


def test_the_grid_of_the_user_gives_emissions(ask: Ask) -> None:
    assert "385 g/kWh, as given" in " ".join(ask(*PLAN, "--explain", "--grid", "385")[1].split())
    assert "CO2" not in ask(*PLAN, "--explain")[1]


def test_assumed_inputs_have_a_star_and_given_ones_none(ask: Ask) -> None:
    text = ask(*PLAN, "--explain")[1]
    inputs = text.split("\nInputs\n")[1].split("\n\n")[0]
    starred = [line.split("*")[0] for line in inputs.splitlines() if "*" in line.split("  ")[0]]
    assert "engine" in starred
    assert "rate" not in starred
    assert "* assumed: not given." in inputs


def test_explain_puts_the_numbers_into_the_formulas(ask: Ask) -> None:
    plan = json.loads(ask(*PLAN, "-o", "json")[1])["deployments"][0]
    text = " ".join(ask(*PLAN, "--explain")[1].split())
    assert f"{plan['instance_count']} x ${plan['price_per_instance_usd_per_hour']:.2f}" in text
    assert f"5 / {plan['replicas']} replicas" in text


def test_totals_on_estimated_prices_are_round_and_marked(ask: Ask) -> None:
    words = ("plan", "serve", "llama-3.1-8b", *LOAD, "--clouds", "aws", "--pricing", "spot", "-o")
    plan = json.loads(ask(*words, "json")[1])["deployments"][0]
    assert plan["price_basis"] == "estimated"
    sentence = ask(*words, "table")[1].split("\n\n")[0]
    assert f"~${significant(float(format(plan['usd_per_hour'], '.1e')), 2)}/h" in sentence.replace("\n", " ")


def test_two_setups_are_compared_in_one_sentence(ask: Ask) -> None:
    code, text, _ = ask("compare", "L40S", "H100", "--model", "llama-3.1-8b", *LOAD)
    assert code == 0
    assert "less than" in text.split("\n\n")[0]
    assert "Cheaper at which rate" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_side_that_cannot_serve_is_exit_code_3(ask: Ask) -> None:
    code, text, _ = ask("compare", "T4:1", "H100:8", "--model", "llama-3.3-70b", *LOAD)
    assert code == 3
    assert "only H100:8 serves this" in " ".join(text.split())


def test_a_plan_of_today_is_reproduced_tomorrow_and_a_dearer_day_is_explained(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.json"
    assert ask(*PLAN, "--out-file", str(file))[0] == 0
    code, text, _ = ask("explain", str(file), "--check")
    assert (code, "is reproduced" in text) == (0, True)
    answer = json.loads(file.read_text())["deployments"][0]
    folder = tmp_path / "catalog" / "offers" / answer["cloud"]
    folder.mkdir(parents=True)
    head = "cloud,region,instance_type,price_kind,upfront_usd,price_per_instance_usd_per_hour,basis,source_id,as_of"
    price = 2.9 * answer["price_per_instance_usd_per_hour"]
    row = f"{answer['cloud']},{answer['region']},{answer['instance']},on_demand,0,{price},list,{answer['price_source']}"
    (folder / "2026-02-01.csv").write_text(f"{head},interruption\n{row},2026-02-01,\n", encoding="utf-8")
    monkeypatch.setenv("GPUFLEET_CATALOG", str(tmp_path / "catalog"))
    code, text, _ = ask("explain", str(file), "--check")
    assert code == 4
    assert "changed" in text.split("\n\n")[0]
    assert "2026-02-01" in text or "from " in text


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is not JSON"),
        ("[1]", "is not a plan"),
        ("{}", "is not a plan"),
        ('{"schema_version": "99"}', "of another form"),
        ('{"schema_version": "1"}', "is not a plan"),
        ("[" * 100_000, "is not JSON"),
        ('{"schema_version": "1", "model": {"a": 1}}', "is not a plan"),
    ],
)
def test_what_is_no_plan_is_refused_in_one_message(ask: Ask, tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(content, encoding="utf-8")
    code, out, err = ask("explain", str(file))
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1


OTHER_ANSWERS = {
    "TrainingPlan": ("plan", "finetune", "llama-3.1-8b", "--tokens", "50M", "--gpus", "L4"),
    "TrainingFit": ("fit", "llama-3.1-8b", "--gpus", "L4", "--method", "qlora"),
    "BatchPlan": ("plan", "batch", "llama-3.1-8b", *LOAD[2:6], "--requests", "1M", "--deadline", "24h"),
    "EncoderBatchPlan": ("plan", "batch", "whisper-tiny", "--requests", "1M", "--deadline", "24h"),
    "EncoderServePlan": ("plan", "serve", "vit-base", "--rate", "100/s"),
    "EncoderEstimate": ("encode", "vit-base", "--gpus", "L4"),
}
READ_BACK = {
    **OTHER_ANSWERS,
    "ServePlan": PLAN,
    "ServingEstimate": ("estimate", "llama-3.1-8b", "--gpus", "L4", "--in", "100", "--out", "10", "--batch", "4"),
    "FitResult": ("fit", "llama-3.1-8b", "--gpus", "L4"),
    "Comparison": ("compare", "L4", "H100", "--model", "llama-3.1-8b", *LOAD),
}


@pytest.mark.parametrize("name", OTHER_ANSWERS)
def test_answers_that_are_not_asked_again_are_named_with_what_reads_them(ask: Ask, tmp_path: Path, name: str) -> None:
    file = tmp_path / "answer.json"
    file.write_text(ask(*OTHER_ANSWERS[name], "-o", "json")[1], encoding="utf-8")
    for words in (("explain", str(file)), ("compare", str(file), str(file))):
        code, out, err = ask(*words)
        assert (code, out) == (2, "")
        assert "which cannot be planned again" in err
        assert f"gpufleet.{name}." in err
        assert "Field required" not in err


@pytest.mark.parametrize("name", READ_BACK)
def test_an_answer_in_json_is_read_back_by_the_class_of_its_name(ask: Ask, name: str) -> None:
    written = ask(*READ_BACK[name], "-o", "json")[1]
    read = getattr(gpufleet, name).model_validate_json(written)
    assert json.loads(read.model_dump_json()) == json.loads(written)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*PLAN, "--why-not", "L40S:four"), "L40S:four"),
        ((*PLAN, "--why-not", "B9000"), "B9000"),
        ((*PLAN, "--token-price", "cheap"), "a price is written '0.6/1.2'"),
        ((*PLAN, "--picture", "front.png"), "--picture draws SVG alone"),
        ((*PLAN, "--grid", "-4"), "--grid"),
        (("compare", "L40S", "H100"), "MODEL is missing"),
        (("compare", "a.json", "H100"), "a plan is compared with another plan"),
        (("compare", "a.json", "b.json"), "no such file or folder; found 'a.json'"),
        (("explain", "nothing.json"), "no such file or folder; found 'nothing.json'"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, tuple) else None,
)
def test_slips_are_told_in_one_message(ask: Ask, words: tuple[str, ...], told: str) -> None:
    code, out, err = ask(*words)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1
