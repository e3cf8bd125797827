"""What one copy sustains: of a model that writes and of one that does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.api.encoder_services import EncoderServeRequest, solved_encoder
from gpufleet.api.serve_questions import prepare
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.slo import Limit, Slo
from gpufleet.optimize.contest import Contest
from gpufleet.optimize.copies.decoder import mixed_room
from gpufleet.optimize.copies.encoder import PassLoads
from gpufleet.optimize.demand import QuietHours
from gpufleet.optimize.placement import place
from gpufleet.optimize.replicas import MemoryModel
from gpufleet.performance.passes import rest_of_pass_s, wait_for_others_s
from gpufleet.questions.fields import ServeRequest

TABLES = load_catalog()
CHAT = ServeRequest("llama-3.1-8b", 20.0, 4000, 200, "tpot.p95<100ms", gpus=["L40S"], clouds=["aws"])


def test_a_prefix_that_all_requests_share_stands_once_in_memory() -> None:
    """Its KV takes the room of 2,000 tokens once, beside requests that hold what is left of their prompts."""
    plain, shared = (prepare(replace(CHAT, prefix_cache=0.5, prefix_kv=kv), TABLES) for kv in (0.0, 0.5))
    mix, candidates = shared.question.demand.mix, shared.solution.copies.candidates
    memory = MemoryModel.build(shared.question.model.arch, candidates)
    alone, beside = memory.room(mix.lengths, mix.held_tokens), mixed_room(memory, mix)
    taken = candidates.attention_dp * mix.shared_tokens / mix.held_tokens
    assert mix.shared_tokens == pytest.approx(2000.0)
    by_memory = ~beside.limited_by_engine
    assert 0 < by_memory.sum() < len(candidates)
    np.testing.assert_allclose(beside.largest_batch[by_memory], (alone.largest_batch - taken)[by_memory])
    np.testing.assert_array_equal(beside.largest_batch[~by_memory], alone.largest_batch[~by_memory])
    assert (shared.solution.copies.largest_batch >= plain.solution.copies.largest_batch).all()


def test_a_pass_waits_for_the_rest_of_the_running_one_and_for_others() -> None:
    asked = EncoderServeRequest("bge-base-en-v1.5", 900.0, input_tokens=128, clouds=["aws"])
    copies = solved_encoder(asked, TABLES)[1].copies
    loads = PassLoads(copies, 1.0)
    full = 1 / loads.sustained_requests_per_s[:, None]
    others = wait_for_others_s(None, loads.requests_per_s * full, full)
    least = rest_of_pass_s(None, loads.arrivals, loads.pass_s) + others
    busy, served = loads.requests_per_s * full > 0.9, loads.requests_per_s * full < 0.99
    assert others[busy].min() > 0
    assert (loads.latency_s(None)[served] > least[served]).all()


def test_of_copies_that_need_as_few_machines_the_contest_takes_the_one_of_most_capacity_as_the_ranking_does() -> None:
    solved = prepare(replace(CHAT, rate=3.0), TABLES)
    demand = replace(solved.question.demand, quiet=QuietHours(0.5, 1.0), steady_ratio=0.0)
    demand = replace(demand, workload=replace(demand.workload, slo=Slo((Limit("tpot", "p95", 0.1),))))
    found, contest = solved.solution.found, Contest.of(solved.question, solved.solution)
    hosts, rate = contest.hosts, np.array([3.0])
    busy = hosts.needed(found.requests_per_s, demand, rate)
    quiet = hosts.needed(found.requests_per_s, demand, np.array([1.0]))
    chosen = hosts.chosen(busy, (busy + quiet) / 2, np.ones_like(busy), found.requests_per_s)[:, 0]
    placed = [place(instance, solved.solution.copies, found, demand) for instance in hosts.instances]
    assert [p.row for p in placed if p is not None] == hosts.row[chosen].tolist()
    assert any((busy[hosts.of_pair == at] == busy[pair]).sum() > 1 for at, pair in enumerate(chosen))
