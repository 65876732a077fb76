"""Faults put into lanes of their own, one at a time: a scripted race notices each."""

import pytest

from tests.postgres.race import Race
from tests.postgres.test_own_lanes import TestClaims as Claims
from tests.postgres.test_own_lanes import TestRules as Rules
from tests.postgres.test_own_lanes import TestSettles as Settles
from tests.postgres.test_own_lanes import meet_own_lanes
from tests.simulation.wounds import wounded
from tests.support.clock import FakeClock
from tests.support.connections import keep_connections
from tests.support.desk import slots

LANES = "engine.admission.own_lanes"
ONE_LANE = "AND (SELECT count(*) FROM (SELECT 1 FROM lane_gate x WHERE x.gate = g.id LIMIT 2) two) = 1"
EARLY = "self._rows.update((row.id, row) for row in gate_rows.load_own(db, gates))\n    lanes = lane_rows.locked_of"
claims, settles, rules = Claims(), Settles(), Rules()


def dropped_jobs(race):
    limits = (slots("X", 2, "drop"),)
    claims.test_jobs_that_wait_for_more_than_the_slots_of_one_key_take_the_gates(race, limits)


# What is wounded, where, what is read there and what is put in its place; and the race that notices.
WOUNDS = [
    ("a claim locks no lanes", "store.lanes:ready_locked", "LIMIT ? FOR UPDATE SKIP LOCKED", "LIMIT ?",
     claims.test_a_lane_that_another_claim_has_is_passed_over),
    ("a claim waits for lanes", "store.lanes:ready_locked", "FOR UPDATE SKIP LOCKED", "FOR UPDATE",
     claims.test_claims_of_different_keys_do_not_wait_for_each_other),
    ("a settle locks no lanes", "store.lanes:locked_of", "ORDER BY id FOR UPDATE", "ORDER BY id",
     settles.test_two_settles_of_one_key_count_both),
    ("gates are read before their lanes are locked", f"{LANES}:OwnLanes._lock", "lanes = lane_rows.locked_of", EARLY,
     settles.test_two_settles_of_one_key_count_both),
    ("a gate of two lanes counts as own", "store.gates:load_own", ONE_LANE, "",
     claims.test_lanes_of_two_queues_that_share_a_key_take_the_gates),
    ("a gate with a rule counts as own", "store.gates:load_own", "g.rules IS NULL AND", "",
     rules.test_a_claim_that_waited_for_a_change_of_rules_heeds_it),
    ("a lane whose jobs are dropped counts as own", f"{LANES}:has_slots_only",
     "slots_only and stand.on_limit is OnLimit.WAIT", "slots_only", dropped_jobs),
    ("a lane left ready is told to none", f"{LANES}:OwnLanes.left_ready", "return any(", "return False and any(",
     settles.test_a_settle_that_leaves_its_lane_ready_is_heard_of_by_a_claim_that_passed_over_it),
    ("a lane left unread is told to none", f"{LANES}:OwnLanes.left_ready", "return True", "return False",
     claims.test_a_claim_that_passed_over_a_lane_hears_of_it_from_a_worker_that_knows_no_task),
    ("a transaction that is rolled back tells none", f"{LANES}:OwnLanes._will_lock",
     "self._board.db.tell_if_undone(Topic.WORK)", "pass",
     settles.test_a_settle_that_is_run_again_with_the_gates_is_heard_of_by_a_claim_that_passed_over_its_lane),
    ("a lane that was locked is not looked at", f"{LANES}:OwnLanes.found_in", "if rows", "if False",
     claims.test_a_lane_that_was_locked_for_a_claim_and_became_ready_after_its_look_is_taken),
    ("a release calls no lane", f"{LANES}:OwnLanes.behind", "lane.behind in wanted", "lane.behind not in wanted",
     settles.test_settles_of_different_keys_do_not_wait_for_each_other),
    ("a change of rules takes the gates with others", "store.postgres.session:Opening._written",
     "if locks in {Locks.RULES, Locks.GATES}:\n        steps", "if False:\n        steps",
     rules.test_a_change_of_rules_waits_for_those_who_share_the_gates),
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "old", "new", "notices"), [each[1:] for each in WOUNDS], ids=[each[0] for each in WOUNDS]
)
def test_a_race_notices(url, monkeypatch, where, old, new, notices):
    keep_connections(monkeypatch)
    with wounded("it", {"it": (where, (old, new))}):
        race = Race(url, FakeClock())
        try:
            meet_own_lanes(race)
            with pytest.raises(AssertionError):  # noqa: PT012 - whichever of the two notices
                notices(race)
                race.finish()
                assert race.desk.engine.doctor() == []
        finally:
            race.close()
