"""May this job start?  Lanes, lines and gates as one transaction works on them.  ARCHITECTURE has the algorithm.

To follow a job that has one key with slots, read `arrivals` (it joins a lane), `lane`, `placement` (the lane is ready
or parked), `board` (the four moves), `heads` (which job comes first), `claim_queues` and `claiming` (a claim tests it),
and `starting` (it takes its slot).  `Settling._stop` and `_save` in `engine/settle.py` give the slot back and ring.

The rest can be left out at first: `turns`, `heavy`, `loan_queue` and `groups` answer for a gate where one has a turn, a
heavy job, a waiting call or resources; `other_lane`, `known_tasks`, `free_jobs`, `ahead`, `instances`; `blocked` tells
listeners, `to_follow` is for workflows, `rows` is how all of it is stored.
"""
