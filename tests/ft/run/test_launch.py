"""When the workers of a job start, with which ranks, and when all start again: the machine alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pycomms.ft.core.launch import HostReport, JobState, Launch, Phase, Rule, Stand


def rule(**what: Any) -> Rule:
    usual = Rule(
        name="", fewest=2, most=2, max_restarts=1, join=timedelta(seconds=600), last_call=timedelta(seconds=30)
    )
    return replace(usual, **what)


class Hosts:
    """Tells the machine what hosts report, which do what they are told at once."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.launch = Launch("named")
        self.now = 0.0
        self.last: dict[str, HostReport] = {}

    @property
    def job(self) -> JobState:
        return self.launch.job

    def phase(self) -> Phase:
        return self.job.phase

    def says(self, host: str, **what: Any) -> None:
        known = self.last.get(host, HostReport(host=host, slots=2, rule=self.rule, address=f"{host}.net", port=1000))
        self.last[host] = replace(known, **what)
        self.launch.report(self.now, self.last[host])

    def run(self, *hosts: str) -> None:
        for host in hosts:
            self.says(host)
        for host in hosts:
            self.says(host, stand=Stand.RUNNING)

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.launch.tick(self.now)


def ranks(job: JobState) -> list[tuple[str, int, int]]:
    return [(place.host, place.first_rank, place.slots) for place in job.places]


def test_forms_when_all_have_come() -> None:
    hosts = Hosts(rule())
    hosts.says("a", slots=3)
    assert hosts.phase() is Phase.GATHERING
    hosts.says("b")
    assert hosts.phase() is Phase.RUNNING
    assert ranks(hosts.job) == [("a", 0, 3), ("b", 3, 2)]
    assert (hosts.job.world_size, hosts.job.master_addr, hosts.job.name) == (5, "a.net", "named")


def test_numbers_of_hosts_decide_over_the_order_in_which_they_come() -> None:
    hosts = Hosts(rule(name="mine"))
    hosts.says("a", node_rank=1)
    hosts.says("b", node_rank=0)
    assert ranks(hosts.job) == [("b", 0, 2), ("a", 2, 2)]
    assert (hosts.job.master_addr, hosts.job.name) == ("b.net", "mine")


def test_waits_a_while_for_more_than_the_fewest() -> None:
    hosts = Hosts(rule(fewest=1, most=3))
    hosts.says("a")
    hosts.after(29)
    hosts.says("b")
    assert hosts.phase() is Phase.GATHERING
    hosts.after(1)
    assert ranks(hosts.job) == [("a", 0, 2), ("b", 2, 2)]


def test_gives_up_on_hosts_that_do_not_come() -> None:
    hosts = Hosts(rule())
    hosts.says("a")
    hosts.after(600)
    assert hosts.phase() is Phase.GATHERING
    hosts.after(1)
    assert hosts.phase() is Phase.FAILED
    assert hosts.job.reason == "1 hosts were ready within 600 s, expected 2: a"


def test_a_round_ends_when_one_host_says_so_and_the_next_begins_when_all_are_ready() -> None:
    hosts = Hosts(rule())
    hosts.run("a", "b")
    hosts.says("b", again="rank 3 has died")
    assert (hosts.phase(), hosts.job.round, hosts.job.reason) == (Phase.GATHERING, 1, "rank 3 has died")
    hosts.says("b", stand=Stand.READY, round=1, again="", port=2000)
    assert hosts.phase() is Phase.GATHERING
    hosts.says("a", stand=Stand.READY, round=1, port=3000)
    assert (hosts.phase(), hosts.job.restarts, hosts.job.master_port) == (Phase.RUNNING, 1, 3000)
    hosts.run("a", "b")
    hosts.says("a", again="rank 0 has died")
    assert hosts.phase() is Phase.FAILED
    assert hosts.job.reason == "rank 0 has died; the workers have been started again 1 times (--max-restarts)"


@pytest.mark.parametrize("sessions", [False, True])
def test_a_lost_host(sessions: bool) -> None:
    hosts = Hosts(rule(fewest=1, most=2))
    hosts.run("a", "b")
    hosts.says("a", sessions=sessions)
    hosts.launch.lost(hosts.now, "b")
    assert hosts.phase() is (Phase.RUNNING if sessions else Phase.GATHERING)
    if sessions:
        hosts.says("c")  # takes the empty place
        assert ranks(hosts.job) == [("a", 0, 2), ("c", 2, 2)]
        assert hosts.job.round == 0
    else:
        hosts.says("a", stand=Stand.READY, round=1)
        assert ranks(hosts.job) == [("a", 0, 2)]


def test_a_host_that_comes_later_costs_other_jobs_a_start_that_is_not_counted() -> None:
    hosts = Hosts(rule(fewest=1, most=2, last_call=timedelta(0)))
    hosts.run("a")
    hosts.says("b")
    assert (hosts.phase(), hosts.job.round, hosts.job.restarts) == (Phase.GATHERING, 1, 0)


def test_a_host_too_many_waits() -> None:
    hosts = Hosts(rule())
    hosts.run("a", "b")
    hosts.says("c")
    assert ranks(hosts.job) == [("a", 0, 2), ("b", 2, 2)]
    assert hosts.phase() is Phase.RUNNING


def test_done_when_all_are_done() -> None:
    hosts = Hosts(rule())
    hosts.run("a", "b")
    hosts.says("a", stand=Stand.DONE)
    assert hosts.phase() is Phase.RUNNING
    hosts.says("b", stand=Stand.DONE)
    assert hosts.phase() is Phase.DONE


def test_a_lost_host_does_not_hold_up_the_end_of_a_finished_training() -> None:
    hosts = Hosts(rule())
    hosts.run("a", "b")
    hosts.says("a", sessions=True, training=True)
    hosts.launch.lost(hosts.now, "b")
    hosts.says("a", training=False, finished=True, stand=Stand.DONE)
    assert hosts.phase() is Phase.DONE


def test_a_host_that_gives_up_ends_the_job() -> None:
    hosts = Hosts(rule())
    hosts.run("a", "b")
    hosts.says("a", stand=Stand.FAILED, reason="no memory")
    assert (hosts.phase(), hosts.job.reason) == (Phase.FAILED, "no memory")
    hosts.says("b", stand=Stand.DONE)
    assert hosts.phase() is Phase.FAILED, "the first reason stays"


def test_one_that_stands_by_begins_nothing() -> None:
    hosts, other = Hosts(rule()), Hosts(rule())
    hosts.launch = Launch("by", stands_by=True)
    for one in (hosts, other):
        one.says("a")
        one.says("b")
    assert (hosts.phase(), other.phase()) == (Phase.GATHERING, Phase.RUNNING)
    hosts.says("a", known=other.job)
    assert hosts.job == other.job


def test_a_host_that_comes_anew_does_not_take_the_place_of_one_that_is_on_its_way() -> None:
    before, hosts = Hosts(rule(most=2)), Hosts(rule(most=2))
    before.run("a", "b")
    before.says("a", sessions=True)
    hosts.says("new")
    hosts.says("a", known=before.job, stand=Stand.RUNNING)
    assert hosts.launch.expected == {"b"}
    assert [place.host for place in hosts.job.places] == ["a", "b"]
    hosts.launch.lost(1.0, "b")
    assert [place.host for place in hosts.job.places] == ["a", "new"]


def test_one_that_stands_by_for_a_job_that_nobody_has_begun_ends_it() -> None:
    hosts = Hosts(rule())
    hosts.launch = Launch("by", stands_by=True)
    hosts.says("a")
    hosts.launch.tick(601.0)
    assert hosts.phase() is Phase.FAILED
    assert "it was never begun" in hosts.job.reason


def test_one_that_knows_nothing_is_taught() -> None:
    hosts = Hosts(rule())
    hosts.run("a", "b")
    hosts.says("a", again="rank 0 has died")
    for host in ("a", "b"):
        hosts.says(host, stand=Stand.READY, round=1, again="")
    hosts.run("a", "b")
    job = hosts.job
    assert (job.phase, job.round) == (Phase.RUNNING, 1)
    hosts.launch = Launch("other")
    hosts.says("b", known=job)
    hosts.says("a", known=job)
    assert hosts.job == job
    hosts.says("a", known=None, again="rank 1 has died")
    assert hosts.phase() is Phase.FAILED, "restarts are not forgotten"


def test_one_that_knows_nothing_is_taught_between_two_rounds() -> None:
    hosts = Hosts(rule())
    hosts.run("a", "b")
    hosts.says("a", again="rank 0 has died")
    between = hosts.job
    assert between.phase is Phase.GATHERING
    hosts.launch = Launch("other")
    for host in ("a", "b"):
        hosts.says(host, stand=Stand.READY, round=1, again="", known=between)
    assert (hosts.phase(), hosts.job.round, hosts.job.name) == (Phase.RUNNING, 1, "named")
