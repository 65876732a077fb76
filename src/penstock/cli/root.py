"""The commands of `penstock`, put together.  What a command needs is imported when it runs."""

from typing import Annotated

import typer

from penstock.cli import floating, gates, jobs, queues, workflows
from penstock.cli.audit import audit
from penstock.cli.bench import bench
from penstock.cli.demo import demo
from penstock.cli.explain import why
from penstock.cli.monitor import monitor
from penstock.cli.options import DEFAULT_STORE, STORE_HELP
from penstock.cli.serve import ServeCommand, serve
from penstock.cli.simulate import simulate
from penstock.cli.upkeep import doctor, migrate, prune
from penstock.cli.worker import worker
from penstock.cli.workers import workers

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: penstock --store jobs.db jobs list --state waiting",
)
app.command("demo", epilog="Example: penstock demo B C --workers 2")(demo)
app.command("worker", epilog="Example: penstock worker tasks:app --queue mail --threads 8")(worker)
app.command("serve", cls=ServeCommand, epilog="Example: penstock serve --store jobs.db --port 8080")(serve)
app.command("monitor", epilog="Example: penstock monitor jobs.db --port 8088")(monitor)
app.command("bench", epilog="Example: penstock bench W2 W3 --quick")(bench)
app.command("simulate", epilog="Example: penstock simulate plan.toml --plot lines.svg")(simulate)
app.add_typer(jobs.app, name="jobs", help="Look at jobs, run them once more, cancel them.")
app.add_typer(workflows.app, name="workflows", help="Look at runs of workflows and sequences, and move them.")
app.add_typer(gates.app, name="gates", help="Look at limits at work, and change them.")
app.add_typer(floating.app, name="floating", help="Look at limits that workers compute, and change them.")
app.add_typer(queues.app, name="queues", help="Look at queues, pause and resume them.")
app.command("why", epilog="Example: penstock why 019a3c5e-7d2b-7c11-9d5e-3f1a2b4c5d6e")(why)
app.command("workers", epilog="Example: penstock workers --json")(workers)
app.command("audit", epilog="Example: penstock audit api:stripe --kind gate --last 24h")(audit)
app.command("migrate", epilog="Example: penstock migrate --store jobs.db")(migrate)
app.command("prune", epilog="Example: penstock prune --older-than 30d")(prune)
app.command("doctor", epilog="Example: penstock doctor --store jobs.db")(doctor)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"penstock {version('penstock')}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    store: Annotated[
        str, typer.Option("--store", metavar="URL", envvar="PENSTOCK_URL", help=STORE_HELP)
    ] = DEFAULT_STORE,
    *,
    version: Annotated[  # noqa: ARG001 - its callback has done all there is to do
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Run background jobs no faster than you allow."""
    ctx.obj = store
