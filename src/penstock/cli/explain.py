"""`penstock why`: why does this job wait?"""

from penstock.cli.jobs import JobArgument, meant
from penstock.cli.options import JsonOption, StoreOption, TenantOption, opened
from penstock.cli.output import Column, iso, print_facts, print_json, print_table, when
from penstock.names import one_line


def why(
    job: JobArgument, *, store: StoreOption = "", tenant: TenantOption = "", as_json: JsonOption = False
) -> None:
    """Say why a job waits.

    Names the gates that are shut and by which rule, its place in line and its earliest start.
    """
    with opened(store) as engine:
        view = meant(engine, job, tenant)
        answer = engine.why(view.id, view.tenant)
        now = engine.clock.now()
    # The engine counts those ahead; people count from one.
    place = None if answer.place is None else answer.place + 1
    sentence = f"job {answer.job} {answer.sentence}"
    if as_json:
        print_json(
            {
                "job": answer.job,
                "state": str(answer.state),
                "sentence": sentence,
                "reasons": [
                    {"gate": reason.gate, "rule": reason.rule, "opens_at": iso(reason.opens_at)}
                    for reason in answer.reasons
                ],
                "place": place,
                "earliest": iso(answer.earliest),
            }
        )
        return
    print(one_line(sentence))
    if answer.reasons:
        print()
        columns = (Column("gate"), Column("rule"), Column("opens", 1))
        print_table(columns, [(each.gate, each.rule, when(each.opens_at, now)) for each in answer.reasons])
    if place is not None or answer.earliest is not None:
        print()
    print_facts(
        [
            ("place in line", "" if place is None else str(place)),
            ("earliest start", _earliest(answer.earliest, now)),
        ]
    )


def _earliest(moment: int | None, now: int) -> str:
    return "now" if moment is not None and moment <= now else when(moment, now)
