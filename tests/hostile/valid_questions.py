"""Questions that are answered at once, of every verb, and the valid files of every kind that they read.

A fuzzer begins here: what is one slip away from a valid question gets past the first check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from pathlib import Path

from gpufleet.accuracy.own_stack.find import calibrate_stack
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import load_model_config
from gpufleet.catalog.snapshots import Coverage, write_snapshot
from gpufleet.cli import main
from gpufleet.domain.offer import PriceKind
from gpufleet.provenance import Source

REPOSITORY = Path(__file__).parents[2]
HERE = "HERE"
TEXT = ("--in", "100", "--out", "10")
SMALL = ("--clouds", "aws", "--gpus", "L4")
SERVE = ("plan", "serve", "llama-3.1-8b", *TEXT, "--rate", "2/s", *SMALL)
BATCH = ("plan", "batch", "llama-3.1-8b", *TEXT, "--requests", "100k", "--deadline", "24h", *SMALL)
COMPARE = ("compare", "L4", "A10G", "--model", "llama-3.1-8b", *TEXT, "--rate", "2/s", "--clouds", "aws")
MODELS = ("compare", "llama-3.1-8b", "qwen2.5-7b", *TEXT, "--rate", "2/s", *SMALL)
ESTIMATE = ("estimate", "llama-3.1-8b", "--gpus", "L4", *TEXT)
PRICES = ("catalog", "prices", "--cloud", "aws", "--gpu", "L4")


SAID: Mapping[str, tuple[str, ...]] = {
    "--rate": ("1/s", "3000/min", "0.01/s", "900/s"),
    "--in": ("9", "8k", "mean=900,p95=3000", "p50=90,p95=900,max=1000"), "--out": ("1", "500", "mean=90,p95=300"),
    "--slo": ("ttft.p95<2s,tpot.p95<90ms", "latency<9s", "ttft<1ms", "tpot.p99<1us"),
    "--prefix-cache": ("20%", "0.9"), "--audio": ("30s", "30min"), "--beams": ("1", "5"), "--headroom": ("0", "50%"),
    "--confidence": ("0.5", "0.9"), "--min-replicas": ("2", "40"), "--spare-machines": ("1",), "--zones": ("2", "3"),
    "--off-peak": ("0.5/s",), "--peak-hours": ("10h",), "--clouds": ("gcp", "aws,azure"),
    "--regions": ("us", "us-east-1", "eu"), "--pricing": ("spot", "on_demand,spot", "commit_1y", "savings_plan"),
    "--gpus": ("L40S", "A10G,L4", "T4:4"), "--budget": ("5/h", "0.1/h", "500", "15000/mo"),
    "--max-spot": ("50%", "0"), "--precision": ("fp8", "bf16,fp8", "int4"), "--kv-precision": ("fp8", "bf16"),
    "--engine": ("sglang", "all", "transformers", "llama.cpp"), "--max-age": ("400d", "1d"),
    "--as-of": ("2026-08-31", "2026-01-01"), "--prices": ("+20%", "-10%"),
    "--today": ("3 aws:g6.xlarge@0.8/h", "9 L4:1"), "--why-not": ("L4:4,H100", "aws:g6.xlarge"),
    "--token-price": ("0.6/1.2", "3"), "--grid": ("300",), "--rows": ("3",), "--currency": ("EUR@0.92", "JPY@150"),
    "--requests": ("10k", "9M"), "--deadline": ("24h", "11min"), "--startup": ("1min",), "--every": ("day", "week"),
    "--max-machines": ("1", "8"), "--context": ("1k", "128k"), "--engine-version": ("0.6.4", "0.12.0"),
    "--batch": ("1", "64"), "--concurrency": ("1", "200"), "--tp": ("1", "2"), "--pp": ("1", "2"), "--ep": ("1",),
    "--show": ("rejected",), "--instance": ("g6.xlarge",), "--sort": ("price", "-memory"), "--limit": ("2",),
    "--min-memory": ("20GB",), "--parameters": ("70B",), "--tokens": ("1M",), "--efficiency": ("50%",),
    "--gpu-memory": ("24GB",), "--users": ("50",), "--hours": ("300",), "--spot": ("70%",), "--off": ("22-6",),
    "--count": ("4",), "--price": ("1.5",), "--strategy": ("tensor,data",), "--picture": ("p.svg",),
    "--out-file": ("a.json", "a.csv", "a.html", "a.svg"), "--family": ("llama",), "--search": ("qwen",),
    "--model": ("qwen3-8b",), "--steps": ("0", "9"), "--time-limit": ("1s",), "--workers": ("1",), "--job": ("a",),
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """Words of a command line, the files that they name, by their path in the folder of the question, and variables."""

    words: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def json_text(content: object) -> str:
    return json.dumps(content, indent=1)


def config_questions() -> list[Question]:
    """config.json of decoders of several kinds, with a quantisation beside it, and of encoders."""
    quantised = json_text({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}})
    beside = {"m/config.json": json_text(load_model_config("llama-3.1-8b")), "m/hf_quant_config.json": quantised}
    found = [
        Question(("fit", "m", "--gpus", "H100"), beside),
        Question(("plan", "serve", "m", *TEXT, "--rate", "2/s", *SMALL), beside),
        Question(("catalog", "models", "--show", "m"), beside),
        Question(("estimate", "qwen2.5-vl-7b", "--gpus", "H100", *TEXT, "--batch", "4", "--images", "1x512x512"), {}),
    ]
    for name in ("qwen3-30b-a3b", "deepseek-v2-lite", "gpt-oss-20b", "qwen3-8b", "gemma-3-12b-text", "qwen2.5-vl-7b"):
        file = {f"{name}.json": json_text(load_model_config(name))}
        found += [
            Question(("fit", f"{name}.json", "--gpus", "H100"), file),
            Question(("estimate", f"{name}.json", "--gpus", "H100", *TEXT, "--batch", "4"), file),
        ]
    for name, more in (
        ("bge-m3", ("--in", "64")),
        ("whisper-tiny", ()),
        ("vit-base-patch16-224", ()),
        ("flan-t5-base", TEXT),
    ):
        file = {"config.json": json_text(load_model_config(name))}
        found += [
            Question(("encode", "config.json", "--gpus", "L4", *more), file),
            Question(("plan", "serve", "config.json", "--rate", "5/s", *more, *SMALL), file),
        ]
    return found


OF_TODAY = """fleet:
  - {name: alone, machines: 1 aws:g5.xlarge, runs: service, target: 99%}
  - {machines: 2 aws:g6.xlarge@0.80/h, runs: training, checkpoints: off}
  - {machines: 1 aws:g5.xlarge@1.01/h, runs: batch, work: 3h-4h, deadline: 9h, restart: 12min}
"""
SERVICE = """model: llama-3.1-8b
rate: 20/s
in: {mean: 1000, p95: 4000}
out: 300
slo: [ttft.p95<500ms, "tpot.p95<40ms"]
precision: [fp8, bf16]
clouds: aws, gcp
regions: [us-east-1]
gpus: [H100, L40S]
pricing: [on_demand, spot]
headroom: 20%
min_replicas: 2
spare_machines: 1
prefix_cache: 30%
prefix_kv: 10%
off_peak: 5/s
peak_hours: 10h
budget: 60/h
max_spot: 50%
"""
CLASSES = """model: llama-3.1-8b
rate: 20/s
zones: 3
classes:
  chat: {share: 80%, in: 1000, out: 300, slo: "ttft.p95<500ms", prefix_cache: 30%}
  long: {share: 20%, in: {p50: 6000, p95: 20000}, out: {p50: 300, p95: 900}, slo: latency.p95<60s}
"""
FLEET = """clouds: [aws]
gpus: [L4, L40S]
budget: 100/h
engine: vllm
models:
  - {model: llama-3.1-8b, rate: 5/s, in: 1000, out: 200}
  - model: qwen3-8b
    classes: {a: {rate: 2/s, in: 8k, out: 1k}, b: {rate: 1/min, in: 1, out: 1}}
"""
JOB = """model: llama-3.1-8b
requests: 20k
deadline: 8h
in: {mean: 1800, p95: 6000}
out: {mean: 150, p95: 300}
clouds: [aws]
gpus: [L4, L40S]
startup: 10min
every: day
budget: 1,000
"""
ENCODERS = """models:
  - {model: bge-m3, rate: 5/s, in: 200, slo: latency.p95<1s}
  - {model: whisper-tiny, rate: 1/s, audio: 30s, beams: 5}
clouds: [aws]
gpus: [L4]
"""


def workload_questions() -> list[Question]:
    """Workloads of a service, of classes, of a fleet, of a job and of encoders."""
    services = [
        Question(("plan", "serve", "--workload", "w.yaml"), {"w.yaml": text})
        for text in (SERVICE, CLASSES, FLEET, ENCODERS)
    ]
    job = Question(("plan", "batch", "--workload", "w.yaml"), {"w.yaml": JOB})
    fleet = Question(("spot", "--fleet", "f.yaml", "--draws", "20"), {"f.yaml": OF_TODAY})
    compared = Question(("compare", "L4", "L40S", "--workload", "w.yaml"), {"w.yaml": SERVICE})
    return [*services, job, fleet, compared]


def trace_questions() -> list[Question]:
    """Traces of every form."""
    azure = "".join(f"2023-11-16 18:17:{i:02d}.97996,{100 + 9 * i},{10 + i}\n" for i in range(60))
    burst = "".join(f"{5 * i},{i},1,GPT-4,{400 + i},{i % 7},0,API log\n" for i in range(60))
    plain = "".join(f"{3.5 * i},{90 + i},{9 + i % 5}\n" for i in range(60))
    mooncake = [
        json.dumps({"timestamp": 700 * i, "input_length": 512 * (i % 3 + 1), "output_length": 9, "hash_ids": [i % 4]})
        for i in range(60)
    ]
    traces = {
        "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n" + azure,
        "burst.csv": "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        + burst,
        "plain.csv": "timestamp_s,input_tokens,output_tokens\n" + plain,
        "mooncake.jsonl": "\n".join(mooncake),
    }
    serve = ("plan", "serve", "llama-3.1-8b", *SMALL, "--trace")
    batch = ("plan", "batch", "llama-3.1-8b", *SMALL, "--requests", "10k", "--deadline", "24h", "--trace")
    return [Question((*words, name), {name: text}) for name, text in traces.items() for words in (serve, batch)]


def measurement_questions() -> list[Question]:
    """The first rows of every shipped file of measurements."""
    found = []
    for path in sorted((REPOSITORY / "measurements").glob("*.csv")):
        with path.open(encoding="utf-8") as stream:
            head = "".join(line for line, _ in zip(stream, range(6), strict=False))
        found.append(Question(("accuracy", "m.csv", "--rows", "rows.csv"), {"m.csv": head}))
    own = {
        "models/mine.json": json_text(load_model_config("llama-3.1-8b")),
        "m.csv": "source,engine,engine_version,model,model_id,gpu_id,num_gpus,precision,max_model_len,weights_gb\n"
        "a,vLLM,0.11.0,mine,mine,H100-SXM,1,bf16,8192,16\n",
    }
    return [*found, Question(("accuracy", "m.csv", "--models", "models"), own), *own_run_questions()]


def own_run_questions() -> list[Question]:
    """Results of a benchmark of one's own, a CSV of runs, and what was calibrated with them."""
    results = {
        "r.json": {
            "model_id": "llama-3.1-8b", "request_rate": "inf", "max_concurrency": 16, "duration": 60.0,
            "completed": 240, "total_input_tokens": 144_000, "total_output_tokens": 24_000,
            "request_throughput": 4.0, "mean_ttft_ms": 80.0, "mean_tpot_ms": 39.0,
        },
        "t.json": {
            "engine": {"model": "llama-3.1-8b", "version": "1.2.1"}, "machine": {"name": "NVIDIA H100 80GB HBM3"},
            "world_info": {"tp_size": 1, "max_batch_size": 256}, "performance": {"request_throughput_req_s": 4.0},
            "request_info": {"num_requests": 240, "avg_num_concurrent_requests": 15.8},
            "streaming_metrics": {"ttft_percentiles": {"average": 80.0}, "tpot_percentiles": {"average": 39.0}},
            "dataset": {"isl_stats": {"average": 600.0}, "osl_stats": {"average": 100.0}},
        },
    }  # fmt: skip
    texts = {name: json_text(result) for name, result in results.items()}
    runs = (REPOSITORY / "examples" / "benchmarks" / "qwen3-0.6b-h100.csv").read_text(encoding="utf-8")
    stack = calibrate_stack([REPOSITORY / "examples" / "benchmarks" / "qwen3-0.6b-h100.csv"]).toml
    where = ("--gpus", "H100:1", "--engine", "vllm")
    load = ("--rate", "5/s", "--in", "500", "--out", "50")
    small = ("estimate", "qwen3-0.6b", "--gpus", "H100:1", "--in", "500", "--out", "50", "--concurrency", "4")
    return [
        *(Question(("accuracy", name, *where), {name: text}) for name, text in texts.items()),
        Question(("accuracy", "o.csv", "--rows", "rows.csv"), {"o.csv": runs}),
        Question(("calibrate", "o.csv", "--save", "s.toml"), {"o.csv": runs}),
        Question(("calibrate", "r.json", *where), {"r.json": texts["r.json"]}),
        Question((*small, "--calibration", "s.toml"), {"s.toml": stack}),
        Question(("plan", "serve", "qwen3-0.6b", *load, "--gpus", "L4", "--replica-rate", "L4:1@9/s")),
    ]


PREFERENCES = """clouds = ["aws"]
engine = "vllm"
slo = "ttft.p95<5s"
headroom = "20%"
pricing = "on_demand, spot"
currency = "EUR@0.92"
"""
OFFERS = (
    "cloud,region,instance_type,price_kind,upfront_usd,price_per_instance_usd_per_hour,basis,source_id,as_of,"
    "interruption"
)
TABLES = {
    "accelerators/own.toml": '[L4-OC]\nvendor = "nvidia"\ngeneration = "Ada"\nmemory_mib_reported = 23034\n'
    'marketed_memory_gb = 24\nmemory_type = "GDDR6"\nbandwidth_gb_per_s = 300\nbf16_dense_tflop_per_s = 121\n'
    "fp16_dense_tflop_per_s = 121\nfp8_dense_tflop_per_s = 242\npcie_generation = 4\nboard_power_watts = 72\n"
    'source_id = "mine"\n',
    "sources.toml": '[mine]\ntitle = "My own"\nas_of = 2026-07-20\n',
    "gpu_aliases.toml": '"my l4" = "L4"\n',
    "instances/aws.csv": "cloud,name,accelerator,gpu_count,vcpus,memory_gib,link_kind,link_gb_per_s_per_direction,"
    "link_description,link_evidence,network_gbit_per_s,local_ssd_gb,status,source_id,evidence\n"
    "aws,mine.1,L4,1,8,32,none,,,,25,0,current,mine,\n",
    "offers/aws.csv": f"{OFFERS}\naws,us-east-1,g6.xlarge,commit_1y,0,0.50,list,mine,2026-07-20,\n"
    "aws,us-east-1,g6.xlarge,on_demand,0,0.70,observed,mine,2026-07-20,\n",
    "availability/aws.csv": "cloud,region,instance_type,num_zones,source_id,as_of\n"
    "aws,us-east-1,g6.xlarge,3,mine,2026-07-20\n",
    "contracts.csv": "cloud,region,instance_type,price_kind,discount_ratio,source_id,as_of\n"
    "aws,all,all,on_demand,0.12,,2026-07-20\n",
    "quotas.csv": "cloud,region,instance_type,price_kind,max_instances\naws,all,all,all,9\n",
    "gpu_quotas.csv": "cloud,region,gpu,price_kind,max_gpus\naws,all,L4,all,16\n",
    "exchange_rates.csv": "currency,usd_per_unit,source_id,as_of\nEUR,1.08,,2026-07-20\n",
    "foreign_offers/aws.csv": "cloud,region,instance_type,price_kind,upfront,price_per_instance_per_hour,currency,"
    "basis,source_id,as_of,interruption\naws,us-east-1,g6.2xlarge,on_demand,0,0.62,EUR,observed,,2026-07-20,\n",
    "bill_lines.csv": (REPOSITORY / "examples/own-tables/bill_lines.csv").read_text(encoding="utf-8"),
    "owned.toml": (REPOSITORY / "examples/own-tables/owned.toml").read_text(encoding="utf-8").replace(
        "2026-10-01", "2026-07-20"),
    "regions.csv": "cloud,region,country,place,source_id\naws,us-mine-1,US,Here,mine\n",
    "restricted_regions.csv": "cloud,region,access\naws,us-mine-1,me alone\n",
}  # fmt: skip


def table_questions() -> list[Question]:
    """Every kind of own table, one at a time with what it needs, and all together."""
    needed = {"sources.toml": TABLES["sources.toml"]}
    every = {f"own/{name}": text for name, text in TABLES.items()}
    found = [
        Question((*SERVE, "--catalog", "own"), every),
        Question((*PRICES, "--catalog", "own", "--unpriced"), every),
    ]
    for name, text in TABLES.items():
        rates = {"exchange_rates.csv": TABLES["exchange_rates.csv"]} if name.startswith("foreign") else {}
        files = {f"own/{n}": t for n, t in {**needed, **rates, name: text}.items()}
        found += [Question((*PRICES, "--catalog", "own"), files), Question((*SERVE, "--catalog", "own"), files)]
    return found


ASKED_JOB = (
    "plan", "batch", "llama-3.1-8b", "--requests", "1M", "--in", "1000", "--out", "200", "--deadline", "24h",
    "--clouds", "aws", "--gpus", "L40S", "--rows", "2",
)  # fmt: skip
OF_JOB = ("--stay", "eu", "--data", "2TB", "--data-in", "aws:us-east-1", "--budget", "500", "--carbon-budget", "20")


def plan_file_questions(folder: Path) -> list[Question]:
    """Plans that were written with -o json, of one model, of several, and of a job."""
    (folder / "w.yaml").write_text(FLEET, encoding="utf-8")
    written = {
        "one.json": [*SERVE, "--slo", "ttft.p95<2s"],
        "fleet.json": ["plan", "serve", "--workload", str(folder / "w.yaml")],
    }
    found = []
    for name, words in written.items():
        main([*words, "--out-file", str(folder / name)])
        file = {name: (folder / name).read_text(encoding="utf-8")}
        found += [Question(("explain", name), file), Question(("explain", name, "--check"), file)]
    one = {"one.json": (folder / "one.json").read_text(encoding="utf-8")}
    on_spot = Question(("spot", "one.json", "--draws", "20", "--restart", "10min"), one)
    main([*ASKED_JOB, "--out-file", str(folder / "job.json")])
    job = {"job.json": (folder / "job.json").read_text(encoding="utf-8")}
    files = {**one, "rates.csv": RATES}
    scaled = (
        "autoscale",
        "one.json",
        "--trace",
        "rates.csv",
        "--policy",
        "static",
        "--documented",
        "--cold-start",
        "5min",
    )
    of_plan = [Question((*words, *more), files) for words in (scaled, REPLAYED) for more in ((), ("--edited",))]
    of_job = [Question(("regions", "job.json"), job), Question(("regions", "job.json", *OF_JOB), job)]
    return [
        *found,
        on_spot,
        *of_plan,
        Question(("compare", "one.json", "one.json"), one),
        Question(("deploy", "one.json"), one),
        Question(("deploy", "one.json", "--to", "terraform-ecs", "--out", "folder"), one),
        Question(("deploy", "one.json", "--to", "eksctl"), one),
        Question(("deploy", "one.json", "--to", "compose", "--image", "mine:1", "--out", "folder"), one),
        Question(("alerts", "one.json"), one),
        Question(("alerts", "one.json", "--budget", "5000/day", "--utc-offset", "+02:00", "--act"), one),
        Question(("alerts", "one.json", "--to", "grafana", "--seed-thresholds", "--out", "folder"), one),
        Question(("alerts", "job.json"), job),
        Question(("alerts", "job.json", "--to", "grafana", "--out", "folder"), job),
        *files_questions(folder),
        *of_job,
        Question(("spot", "job.json", "--draws", "20"), job),
    ]


def files_questions(folder: Path) -> list[Question]:
    """Plans, mixes and laws of scaling from which files are written; `watch` asks a server: it has tests of its own."""
    limits = ("--slo", "ttft.p95<2s")
    main([*SERVE, *limits, "--out-file", str(folder / "limited.json")])
    (folder / "rates.csv").write_text(RATES, encoding="utf-8")
    played = ("--trace", str(folder / "rates.csv"), "--documented", "--cold-start", "5min", "--target", "1%")
    written = {"limited.json": (), "mix.json": ("mix", *SERVE[2:], *limits)}
    for law in ("hpa", "keda-cron-rate"):
        written[f"{law}.json"] = ("autoscale", str(folder / "limited.json"), *played, "--policy", law)
    for name, words in written.items():
        if words:
            main([*words, "--out-file", str(folder / name)])
    files = {name: (folder / name).read_text(encoding="utf-8") for name in written}
    words = {
        "limited.json": [
            ("deploy", "--to", "compose", "--router", "weights"),
            ("deploy", "--out", "folder", "--force"),
            ("deploy", "--diff", "."),
            ("alerts", "--diff", "."),
            ("alerts", "--to", "alertmanager"),
        ],
        "mix.json": [("deploy", "--router", "priority"), ("alerts", "--budget", "9000/mo")],
        "hpa.json": [("deploy", "--prometheus", "http://a:9090"), ("deploy", "--to", "eksctl", "--out", "folder")],
        "keda-cron-rate.json": [("deploy", "--timezone", "Europe/Berlin"), ("deploy", "--router", "prefix")],
    }
    return [Question((verb, name, *more), {name: files[name]}) for name, each in words.items() for verb, *more in each]


JOBS = """start: 2026-11-30 08:00
slot: 30min
budget: 90
pools:
  lab: {gpu: L4, gpus: 4, power_cap: 300W, maintenance: [{from: 4h, to: 6h, gpus: 2}]}
  cloud: {gpu: L4, gpus: 8, kind: spot, price: {8-20: 0.40/h, 20-8: 0.20/h}}
jobs:
  - {name: tune, finetune: {model: llama-3.1-8b, tokens: 1M, method: qlora}, gpus: [1, 2], on: lab, deadline: 30h}
  - {name: a, work: 4h, gpus: 4, on: lab, deadline: 9h, priority: 3, after: [tune], command: "echo a", image: "b:1"}
  - {name: b, work: 90min, gpus: 0.5, on: L4, earliest: 2026-11-30 10:00, deadline: 2026-12-01 12:00}
  - {name: c, options: [{gpus: 2, on: cloud, work: 2h}, {gpus: 1, work: 5h, on: lab}], preemptible: yes, restart: 6min}
"""


JOB_TRACE = """arrival_s,gpus,duration_s,deadline_s,weight,user,preemptible
0,1,3600,7200,1,ann,yes
600,2,1800,,2.5,ben,no
900,0.5,5400,9000,,ann,
"""


RATES = "t_s,rate_rps\n" + "".join(f"{3600 * hour},{1 + hour % 3}\n" for hour in range(24))
REPLAYED = ("simulate", "one.json", "--requests", "50")
SPOT_LOG = "elapsed_s,available,ran,work_left_s\n" + "".join(f"{600 * i},1,spot,{72000 - 600 * i}\n" for i in range(9))


def answer_questions(folder: Path) -> list[Question]:
    """Answers that are read again: a schedule, and the policy of a job beside the log of what was done."""
    (folder / "jobs.yaml").write_text(JOBS, encoding="utf-8")
    main(["schedule", str(folder / "jobs.yaml"), "--steps", "20", "--out-file", str(folder / "s.json")])
    market = ("--spot-price", "1/h", "--on-demand-price", "3/h", "--draws", "20", "--out-file", str(folder / "a.json"))
    main(["spot", "--work", "20h", "--deadline", "40h", *market, "--rules", str(folder / "rules.json")])
    schedule = {"s.json": (folder / "s.json").read_text(encoding="utf-8")}
    rules = {"rules.json": (folder / "rules.json").read_text(encoding="utf-8"), "log.csv": SPOT_LOG}
    forms = ("table", "slurm", "kueue", "sky", "html", "csv")
    written = [Question(("schedule", "s.json", "-o", form), schedule) for form in forms]
    return [*written, Question(("spot", "rules.json", "--replay", "log.csv"), rules)]


def schedule_questions() -> list[Question]:
    """A file of jobs, for a page and for the tools that run them."""
    words = ("schedule", "jobs.yaml", "--steps", "20")
    online = (*words[:2], "--steps", "2", "--online", "las,backfill,ours", "--spread", "10%")
    plain = ((), ("-o", "slurm"), ("-o", "sky", "--job", "a"))
    return [
        *(Question((*words, *more), {"jobs.yaml": JOBS}) for more in plain),
        Question((*online, "--burst"), {"jobs.yaml": JOBS}),
        Question((*online, "--trace", "trace.csv"), {"jobs.yaml": JOBS, "trace.csv": JOB_TRACE}),
    ]


def seed_config_questions() -> list[Question]:
    """The classic configs of the migration analyzer."""
    folder = REPOSITORY / "gpu-migration-analyzer/config"
    files = {f"seed/{path.name}": path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"))}
    words = ("plan", "serve", "llama-3.1-8b", *TEXT, "--rate", "2/s", "--seed-config", "seed")
    return [Question(words, files)]


def snapshot_questions(folder: Path) -> list[Question]:
    """A snapshot of refreshed prices."""
    feed, day = "aws-ec2-price-list", date(2026, 7, 21)
    of = Coverage(feed, "aws", frozenset({PriceKind.ON_DEMAND}), Source(feed, "AWS", day, "https://aws.amazon.com"))
    seen = (offer for offer in load_catalog().offers if offer.cloud == "aws" and offer.instance.startswith("g6."))
    listed = [replace(offer, source=feed, as_of=day) for offer in seen if offer.price_kind is PriceKind.ON_DEMAND]
    write_snapshot(folder / "prices", of, listed, datetime(2026, 7, 21, tzinfo=timezone.utc))
    paths = [path for path in sorted(folder.glob("prices/**/*")) if path.is_file()]
    files = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}
    words = (PRICES, SERVE, ("doctor",), ("catalog", "coverage"))
    return [Question(w, files, {"GPUFLEET_PRICES": f"{HERE}/prices"}) for w in words]


def bare_questions() -> list[Question]:
    """Questions without a file, of every verb."""
    lines = [
        SERVE, BATCH, COMPARE, MODELS, (*ESTIMATE, "--rate", "1/s"), (*ESTIMATE, "--concurrency", "4"),
        (*ESTIMATE, "--batch", "4"), (*ESTIMATE, "--full-queue", "--requests", "100"),
        ("fit", "llama-3.1-8b", "--gpus", "L4", "--context", "8k"),
        ("encode", "bge-m3", "--gpus", "L4", "--in", "64"), ("encode", "whisper-tiny", "--gpus", "L4"),
        ("plan", "serve", "bge-m3", "--rate", "5/s", "--in", "64", *SMALL),
        ("plan", "batch", "whisper-tiny", "--requests", "10k", "--deadline", "24h", *SMALL), PRICES,
        ("catalog", "gpus", "--gpu", "L4"), ("catalog", "instances", "--gpu", "L4"), ("catalog", "coverage"),
        ("catalog", "models", "--search", "llama"), ("catalog", "regions", "--cloud", "aws"),
        ("catalog", "discounts"), ("catalog", "update", "--cloud", "nowhere"),
        ("rules", "memory", "--parameters", "7B"), ("rules", "gpus"), ("rules", "runtime"), ("rules", "scaling"),
        ("rules", "right-size"), ("rules", "savings"), ("config",), ("doctor",), ("demo",), (),
    ]  # fmt: skip
    preferred = {"gpufleet.toml": PREFERENCES}
    liked = [SERVE[:-4], ("config",), ("doctor",), ("catalog", "gpus", "--gpu", "L4")]
    return [*(Question(words) for words in lines), *(Question(words, preferred) for words in liked)]


def valid_questions(folder: Path) -> dict[str, list[Question]]:
    """Questions by the kind of what they read; `folder` takes the plans that are written first."""
    return {
        "words": bare_questions(),
        "config.json": config_questions(),
        "workload": workload_questions(),
        "trace": trace_questions(),
        "measurements": measurement_questions(),
        "own tables": table_questions(),
        "plan.json": plan_file_questions(folder),
        "jobs": schedule_questions(),
        "answers": answer_questions(folder),
        "seed config": seed_config_questions(),
        "snapshot": snapshot_questions(folder),
    }
