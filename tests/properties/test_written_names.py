"""Whatever a user calls something, the files that hold it read back as the same text, and as nothing beside it."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import hcl2
import promql_parser
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gpufleet.ask.spot.terraform import spot_fleet
from gpufleet.deploy.kueue_jobs import kueue_manifests
from gpufleet.deploy.skypilot_jobs import sky_tasks
from gpufleet.deploy.slurm_jobs import slurm_script
from gpufleet.languages import (
    alert_text,
    comment,
    hcl_string,
    promql_string,
    shell_command,
    whole_characters,
    yaml_document,
)
from gpufleet.report.controls import printable, visible
from gpufleet.report.formats import FORMULA_SIGNS, as_csv, as_json, escaped, page_as_markdown
from gpufleet.report.gantt_svg import gantt_picture
from gpufleet.report.html import page_as_html
from gpufleet.report.launch import file_lines
from gpufleet.report.markup import marked_up
from gpufleet.report.page import Column, Page, Table
from gpufleet.results.base import Launch
from gpufleet.results.schedule import SchedulePlan

HOSTILE = (
    'x\n\nresource "null_resource" "r" { provisioner "local-exec" { command = "id" } }\n#',
    "$(touch /tmp/x)", "`id`", "'; id; '", "${var.x}", "%{ if true }", "$${x}", '"\n%', "a\r\nb", "\x85\u2028x",
    "</svg><script>alert(1)</script>", "&lt;", "[x](javascript:1)", "# a", "- b", "1. c", "a | b", "~~x~~", "a#",
    '=HYPERLINK("x")', "\t=1", "+1+1", "@SUM(A1)", "- : x", "!!python/object:os.system", "\u202eabc", "\\", "", "END",
)  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=40), st.sampled_from(HOSTILE), st.text("${}%\"'\\`\n\r# ;&|<>[]()*_~=+-@:!a1.", max_size=12)
)
WRITTEN = TEXTS.filter(lambda text: "\0" not in text and not re.search("[\ud800-\udfff]", text))
COMMONMARK = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def every(test: Any) -> Any:
    for text in HOSTILE:
        test = example(text)(test)
    return settings(max_examples=30)(given(WRITTEN)(test))


@pytest.mark.slow
@every
def test_a_shell_reads_back_the_words(text: str) -> None:
    assert shlex.split(shell_command(["run", text])) == ["run", text]


@every
def test_a_comment_is_one_line(text: str) -> None:
    assert comment(text).isprintable()
    assert comment(text).startswith("#")
    assert shlex.split(comment(text), comments=True) == []


@pytest.mark.slow
@every
def test_terraform_reads_back_a_string_without_templates(text: str) -> None:
    written = hcl_string(text)
    [[name, raw]] = hcl2.loads(f"a = {written}\n").items()
    assert (name, raw) == ("a", written)
    assert not re.search(r"[$%]\{", written)
    assert json.loads(re.sub(r"[$%]\{", "", written)) == text


@every
def test_a_query_of_prometheus_reads_back_a_string_and_its_messages_begin_no_template(text: str) -> None:
    query = promql_parser.parse(f"up{{name={promql_string(text)}}}")
    assert query.matchers.matchers[0].value == whole_characters(text)
    told = alert_text(text)
    assert told.replace('{{"{{"}}', "").count("{{") == 0
    assert told.replace('{{"{{"}}', "{{") == whole_characters(text)


@every
def test_yaml_json_and_csv_read_back_the_same(text: str) -> None:
    content = {"name": text, text: [text, {"deep": text}]}
    assert yaml.safe_load(yaml_document(content)) == content
    assert json.loads(as_json(content)) == content
    [_, [cell, number]] = csv.reader(io.StringIO(as_csv(["a", "b"], [[text, 1]]), newline=""))
    assert number == "1"
    assert not cell.startswith(FORMULA_SIGNS) or re.fullmatch(r"[+-][0-9.eE+-]*", cell)
    assert cell.removeprefix("'").endswith(visible(text).removeprefix("'"))


@every
def test_markup_reads_back_the_text(text: str) -> None:
    assert ElementTree.fromstring(f'<a b="{marked_up(text)}">{marked_up(text)}</a>').text == (printable(text) or None)


class Tags(HTMLParser):
    """The tags of a document, and the texts between them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(f"{tag} {[name for name, _ in attrs]}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def tags_and_texts(document: str) -> tuple[list[str], list[str]]:
    parser = Tags()
    parser.feed(document)
    return parser.tags, parser.texts


def names_of(tags: list[str]) -> set[str]:
    return {tag.split()[0] for tag in tags} - {"br", "p"}


def page_of(text: str) -> Page:
    columns = (Column("gpu", "GPU"), Column("note", "note", below=True))
    table = Table(columns, ({"gpu": text, "note": text},), title=f"t{text}", notes=[f"n{text}"])
    return Page(headline=f"h{text}", tables=(table,), notes=[f"n{text}"])


@every
def test_a_page_holds_a_name_as_text_alone(text: str) -> None:
    tags, texts = tags_and_texts(page_as_html(page_of(text)))
    assert names_of(tags) == names_of(tags_and_texts(page_as_html(page_of("x")))[0])
    assert not any("'on" in tag for tag in tags)
    assert printable(f"h{text}") in texts


@every
def test_markdown_shows_the_text_and_makes_nothing_of_it(text: str) -> None:
    tags, texts = tags_and_texts(COMMONMARK.render(escaped(text) + "\n"))
    assert tags in (["p []"], [])
    assert "".join("".join(texts).split()) == "".join(printable(text).split())


def test_a_page_in_markdown_keeps_its_form_whatever_it_says() -> None:
    shape = tags_and_texts(COMMONMARK.render(page_as_markdown(page_of("x"))))[0]
    for text in filter(str.strip, HOSTILE):
        assert tags_and_texts(COMMONMARK.render(page_as_markdown(page_of(text))))[0] == shape


@pytest.mark.slow
@every
def test_terraform_of_a_service_has_its_own_blocks_alone(text: str) -> None:
    read = hcl2.loads(spot_fleet(service_called(text, instance="p5.48xlarge")))
    assert [next(iter(block)).strip('"') for block in read["resource"]] == ["aws_ec2_fleet"]
    assert {len(read[kind]) for kind in ("resource", "variable")} == {1, 5}
    assert set(read) == {"resource", "variable"} or set(read) == {"resource", "variable", "__comments__"}


def service_called(model: str, instance: str) -> Any:
    market = SimpleNamespace(cloud="aws", instance=instance, region="us-east-1")
    policy = SimpleNamespace(fallback="none", floor=1, spares=1)
    answer = SimpleNamespace(policy=policy, attained=SimpleNamespace(value=0.99))
    return SimpleNamespace(
        model=model, market=market, answer=answer, num_machines=3, zones=2, most_usd_per_hour=1.5
    )  # fmt: skip


def test_an_instance_of_an_own_table_begins_no_template() -> None:
    written = spot_fleet(service_called("m", instance='${file("/etc/passwd")}"\n}'))
    instance = hcl2.loads(written)["resource"][0]
    assert r'instance_type = "\u0024{file(\"/etc/passwd\")}\"\n}"' in written
    assert "${file" not in str(instance)


def schedule_of(job: str, command: str | None, image: str | None = None) -> SchedulePlan:
    run = {
        "job": job, "pool": "lab", "gpu": "L4", "kind": "owned", "gpus": 2.0, "work": {"value": 3600.0, "unit": "s"},
        "pieces": [{"start_s": 0.0, "end_s": 3600.0}], "earliest_s": 0.0, "late_s": 0.0, "priority": 1.0,
        "late_weighted_hours": 0.0, "after": [], "can_pause": False, "usd": 0.0, "kwh": 0.0,
        "why_now": {"code": "at_once"}, "why_there": {"code": "only"}, "command": command, "image": image,
        "options": [{"pool": "lab", "gpu": "L4", "kind": "owned", "gpus": 2.0, "work_s": 3600.0}],
    }  # fmt: skip
    pool = {
        "pool": "lab",
        "gpu": "L4",
        "gpus": 4,
        "kind": "owned",
        "outages": [],
        "used_ratio": 1.0,
        "usd": 0.0,
        "kwh": 0.0,
    }
    return SchedulePlan.model_validate({"slot_s": 60.0, "runs": [run], "pools": [pool], "inputs": []})


@pytest.mark.slow
@every
def test_tools_that_run_jobs_get_the_command_and_no_other(text: str) -> None:
    plan = schedule_of("job", text or "true", text or None)
    [task] = yaml.safe_load_all(sky_tasks(plan))
    assert task["run"] == (text or "true")
    [container] = list(yaml.safe_load_all(kueue_manifests(plan)))[-1]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["/bin/sh", "-c", text or "true"]
    assert container["image"] == (text or "busybox")
    words = shlex.split(slurm_script(plan), comments=True)
    assert words[words.index("sbatch") :][-1] == f"--wrap={text or 'true'}"


@every
def test_a_job_without_a_command_runs_nothing_of_its_name(text: str) -> None:
    [task] = yaml.safe_load_all(sky_tasks(schedule_of(text, None)))
    assert shlex.split(task["run"]) == ["echo", f"Put the command of {text} here"]


@every
def test_a_picture_is_xml_whatever_a_job_is_called(text: str) -> None:
    drawn = gantt_picture(schedule_of(text, None))
    assert drawn is not None
    tags = [[element.tag for element in ElementTree.fromstring(drawn.wide).iter()]]
    plain = gantt_picture(schedule_of("x", None))
    assert plain is not None
    assert tags == [[element.tag for element in ElementTree.fromstring(plain.wide).iter()]]


@pytest.mark.parametrize("options", ["a: 1\nEND\nid\n", "END\nENDEND\n"])
def test_no_line_of_an_options_file_ends_it(options: str) -> None:
    launch = Launch.model_construct(options_file="o.yaml", options=options)
    first, *lines, last = [line for [[line]] in file_lines(launch)]
    assert lines == options.splitlines()
    assert first.endswith(f"'{last}'")
    assert last not in lines
