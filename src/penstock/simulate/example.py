"""A plan to begin with."""

from typing import Final

EXAMPLE: Final = """\
# Are 30 mails a day for each mailbox enough for 500 contacts?
# Play it:  penstock simulate plan.toml --plot lines.svg

title = "500 contacts, 3 mailboxes, 30 mails a day each"
# until = "30d"        # stop then; left out: when all jobs are done
# seed = 1             # the same seed draws the same chance

[workers]
concurrency = 4        # how many handlers run at once, over all workers

# Each limit has at least one of slots, rate and throttle, as on a task.
[limits.mailbox]
key = "mailbox:{mailbox}"
rate = "30/1d"         # at most 30 starts in any 24 hours
throttle = "1/2m"      # and two minutes apart

[limits.smtp]          # without a key: one gate for all jobs
slots = 2
# on_limit = "drop"    # left out: wait

[[jobs]]
name = "mail"
limits = ["mailbox", "smtp"]
keys = { mailbox = 3 }                     # 1, 2, 3 in turn; or ["sales", "news"], or { sales = 5, news = 1 } by chance
duration = { lognormal = { median = "2s", p95 = "10s" } }  # or "2s", { exponential = "2s" }, { uniform = ["1s", "3s"] }
arrivals = { count = 500 }                 # all at once; also: at = "2h", every = "7d", times = 4

[[jobs]]
name = "reply"
limits = ["smtp"]
priority = 10                              # before others that wait
duration = "3s"
arrivals = { rate = "6/1h", count = 300, between = ["09:00", "17:00"] }  # by chance; pattern = "even": evenly
"""
