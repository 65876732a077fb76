"""Measure penstock and its peers in one run: `python -m peers`, from the project's folder."""

import argparse
import sys
from pathlib import Path

from peers.catalogue import PENSTOCK_ONLY, QUICK, WORKLOADS, named
from peers.report import DOCUMENT, Report
from peers.results import OURS
from peers.run import Run
from peers.stores import Stores
from peers.verdicts import verdicts
from penstock.bench.machine import Machine

DOCS = Path(__file__).parent.parent / "docs"


def main() -> int:
    """Measure, show and write down; return 0 whatever the figures are."""
    options, parser = _options()
    if options.docs and (options.quick or options.workloads or options.only or options.without_ours):
        parser.error("--docs is for a whole run")
    usual = QUICK if options.quick else (*WORKLOADS, "W7", "W9")
    workloads = [name.strip().upper() for name in (options.workloads or ",".join(usual)).split(",")]
    unknown = [name for name in workloads if name not in (*WORKLOADS, *PENSTOCK_ONLY)]
    if unknown:
        parser.error(f"no workload {', '.join(unknown)}")
    try:
        peers = named(options.only)
    except ValueError as error:
        parser.error(str(error))
    with Stores() as stores:
        machine = Machine(stores.folder)
        machine.look()
        run = Run(stores, peers, workloads, ours=not options.without_ours, quick=options.quick)
        run.all()
        machine.look()
        report = Report(run.results, verdicts(run.results, workloads), machine, stores.settings)
    report.show()
    if options.json:
        options.json.write_text(report.json)
    if options.markdown:
        options.markdown.write_text(report.markdown())
        _draw(report, options.markdown.parent)
    if options.docs:
        page, mark = DOCS / "benchmarks.md", f"## {DOCUMENT}\n"
        page.write_text(page.read_text().partition(mark)[0] + report.markdown(2))
        _draw(report, DOCS)
    return 0


def _draw(report: Report, folder: Path) -> None:
    for name, picture in report.pictures.items():
        (folder / name).write_text(picture)


def _options() -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser(prog="python -m peers", description=__doc__)
    parser.add_argument("--only", default="", help="peers by the beginning of their names, parted by commas")
    parser.add_argument("--workloads", default="", help="parted by commas (default: W1 to W7, W9, W15, W16)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{', '.join(QUICK)} only, one round, beside the best peers (5 minutes)",
    )
    parser.add_argument("--without-ours", action="store_true", help=f"leave {OURS} out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="write the tables as Markdown, and the pictures beside it",
    )
    parser.add_argument(
        "--docs", action="store_true", help="write both into docs/benchmarks.md, of a whole run"
    )
    return parser.parse_args(), parser


if __name__ == "__main__":
    sys.exit(main())
