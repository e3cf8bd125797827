"""The table of verbs. To add one: write `cli/<module>.py` with an `app`, add a line here."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """A word after `gpufleet`, the module that answers it, and what it is for in one line."""

    name: str
    module: str
    purpose: str


VERBS: tuple[Verb, ...] = (
    Verb("demo", "gpufleet.cli.demo", "One real question answered step by step, with what to type next"),
    Verb("plan", "gpufleet.cli.plan", "Which machines serve a workload, where and for how much"),
    Verb("mix", "gpufleet.cli.mix", "Machines of several types, and which requests each gets"),
    Verb("regions", "gpufleet.cli.regions", "Where services and jobs run: price, network, residency, carbon"),
    Verb("autoscale", "gpufleet.cli.autoscale", "Which auto-scaling law costs least under a week's traffic"),
    Verb("spot", "gpufleet.cli.spot", "A job done in time on machines that may be taken away"),
    Verb("schedule", "gpufleet.cli.schedule", "When and where jobs run that share GPUs and have deadlines"),
    Verb("compare", "gpufleet.cli.compare", "Models, sets of GPUs or plans side by side: cost, latency, who wins"),
    Verb("explain", "gpufleet.cli.explain", "Makes an old plan again from its file and says what changed"),
    Verb("fit", "gpufleet.cli.fit", "Whether a model fits GPUs, for how many users, and what would help"),
    Verb("estimate", "gpufleet.cli.estimate", "Latency and throughput of a model on given GPUs"),
    Verb("simulate", "gpufleet.cli.simulate", "Requests replayed one by one: percentiles, queues, what bursts do"),
    Verb("encode", "gpufleet.cli.encode", "Estimates of encoders: text, images, speech (BERT, ViT, Whisper)"),
    Verb("rules", "gpufleet.cli.rules", "Rules of thumb, each compared with our model's own answer"),
    Verb("catalog", "gpufleet.cli.catalog", "GPUs, instance types, models and prices, with sources and dates"),
    Verb("accuracy", "gpufleet.cli.accuracy", "How far predictions are from measurements, published or your own"),
    Verb("serve", "gpufleet.web.serve", "These questions over HTTP: forms for people, JSON for programs"),
    Verb("config", "gpufleet.cli.config", "Your preferences, and where each of them is set"),
    Verb("mcp", "gpufleet.mcp.verb", "The questions as tools of an assistant, over standard input"),
    Verb("doctor", "gpufleet.cli.doctor", "What this installation has, how old it is, and what is missing"),
)

EXAMPLES: tuple[str, ...] = (
    "gpufleet plan serve llama-3.3-70b --rate 50/s --in 1000 --out 300",
    "gpufleet fit llama-3.3-70b --gpus L40S:4 --context 8k",
    "gpufleet catalog gpus --min-memory 80GiB",
)

SUCH_AS: dict[str, str] = {
    "plan serve": "gpufleet plan serve llama-3.3-70b --rate 50/s --in 1000 --out 300",
    "plan batch": "gpufleet plan batch llama-3.1-8b --requests 10M --in 1000 --out 200 --deadline 24h",
    "plan train": "gpufleet plan train llama-3.1-8b --tokens 20B --deadline 30d",
    "plan finetune": "gpufleet plan finetune llama-3.1-8b --method lora --tokens 50M --deadline 24h",
    "compare": "gpufleet compare H100:8 L40S:8 --model llama-3.1-8b --rate 5/s --in 1000 --out 300",
    "fit": "gpufleet fit llama-3.3-70b --gpus L40S:4",
    "estimate": "gpufleet estimate llama-3.1-8b --gpus L40S:1 --in 1000 --out 200 --rate 1/s",
    "simulate": "gpufleet simulate llama-3.1-8b --gpus H100:1 --rate 5/s --in 1000 --out 200",
    "mix": "gpufleet mix llama-3.1-8b --rate 50/s --in 1000 --out 200",
    "regions": "gpufleet regions llama-3.1-8b --rate 50/s --in 1000 --out 200 --users eu=60%,us=40%",
    "spot": "gpufleet spot --work 48h --deadline 72h --machine aws:g5.xlarge",
    "schedule": "gpufleet schedule examples/jobs/lab-week.yaml --at-once",
    "encode": "gpufleet encode bge-base-en-v1.5 --gpus L4 --in 256",
    "accuracy": "gpufleet accuracy measurements/param_counts.csv",
}
